"""A turn with a barrier at every place where it waits, and something that happens at one of them."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast.agent.protocol import Ending, Turn, TurnHandle
from holdfast.models.protocol import Model, ModelDelta, ModelRequest, UsageReport
from holdfast.schema.runs import Ended, Run
from holdfast.schema.sessions import Session
from holdfast.schema.usage import Usage
from holdfast.store import Batch, Committed, Store
from tests.support.turning import RealTurns, TestToolbox

_ROUNDS = 6


class Cutter:
    """Counts the places of one run; at the chosen one it acts, and the turn waits there until it is stopped."""

    def __init__(self, at: int | None = None, act: Callable[[], Awaitable[Any]] | None = None) -> None:
        self.places: list[str] = []
        self.acting: asyncio.Future[Any] | None = None
        self._at = at
        self._act = act
        self._released = asyncio.Event()

    def release(self) -> None:
        """The act found nothing to stop: the turn goes on."""
        self._released.set()

    @property
    def where(self) -> str:
        return self.places[self._at] if self._at is not None and self._at < len(self.places) else "nowhere"

    async def hold(self, name: str) -> None:
        """Of the turn's own tasks: whatever the act sets off must reach it here."""
        if self._is_here(name):
            await self._released.wait()

    async def let_by(self, name: str) -> None:
        """Of the ledger's: the act is under way meanwhile, but a commit is not recalled."""
        if self._is_here(name):
            for _ in range(_ROUNDS):
                await asyncio.sleep(0)

    def _is_here(self, name: str) -> bool:
        self.places.append(name)
        if len(self.places) - 1 != self._at or self.acting is not None:
            return False
        assert self._act is not None
        self.acting = asyncio.ensure_future(self._act())
        return True


class _Around:
    """Any object; its coroutines wait at a barrier before and behind."""

    def __init__(self, inner: Any, cutter: Cutter, name: str) -> None:
        self._inner = inner
        self._cutter = cutter
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def around(*args: Any, **fields: Any) -> Any:
            await self._cutter.hold(f"before {self._name}.{name}")
            answer = await found(*args, **fields)
            await self._cutter.hold(f"after {self._name}.{name}")
            return answer

        return around


class _CutSeat(_Around):
    async def boundary(self, **fields: Any) -> Any:
        await self._cutter.hold("before seat.boundary")
        crossing = await self._inner.boundary(**fields)
        over = isinstance(crossing, Ended)
        await (self._cutter.let_by if over else self._cutter.hold)("after seat.boundary")
        return crossing

    async def child(self, *args: Any, **fields: Any) -> Any:
        await self._cutter.hold("before seat.child")
        child = await self._inner.start_subagent(*args, **fields)
        await self._cutter.hold("after seat.child")
        return _Around(child, self._cutter, "child")


class _CutModel:
    """Counts what it was asked and what it told."""

    def __init__(self, inner: Model, cutter: Cutter, totals: "Totals") -> None:
        self._inner = inner
        self._cutter = cutter
        self._totals = totals
        self.info = inner.info

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        self._totals.open_streams += 1
        told = Usage()
        try:
            await self._cutter.hold("request")
            async for delta in self._inner.stream(request):
                await self._cutter.hold(f"before {type(delta).__name__}")
                if isinstance(delta, UsageReport):
                    told = delta.usage
                yield delta
            await self._cutter.hold("answer complete")
        finally:
            self._totals.open_streams -= 1
            self._totals.told += told


class Totals:
    """What must add up at the end."""

    def __init__(self) -> None:
        self.open_streams = 0
        self.told = Usage()
        """What the model said it cost, as far as the turn heard it."""


class _CutTurn:
    def __init__(self, turn: Turn, cutter: Cutter) -> None:
        self._turn = turn
        self._cutter = cutter

    async def run(self, handle: TurnHandle) -> Ending | None:
        await self._cutter.hold("turn begins")
        cut: Any = _CutSeat(handle, self._cutter, "seat")
        ending = await self._turn.run(cut)
        await (self._cutter.let_by if ending is None else self._cutter.hold)("turn is over")
        return ending


def around_turn(turn: Turn, cutter: Cutter) -> Turn:
    """The turn with barriers at everything its seat waits for."""
    return _CutTurn(turn, cutter)


class CutTurns(RealTurns):
    """Makes turns that wait at `cutter`'s barriers; change it before a run is accepted."""

    def __init__(self, store: Store, model: Model, directory: Path) -> None:
        super().__init__(store, model, directory)
        self.cutter = Cutter()
        self.totals = Totals()

    def dependencies(self, run: Run) -> Any:
        dependencies, cutter = super().dependencies(run), self.cutter

        async def pause(seconds: float) -> None:
            await cutter.hold("retry")

        def around(inner: Any, name: str) -> Any:
            return _Around(inner, cutter, name)

        tools: Any = {name: around(tool, name) for name, tool in self.tools.items()}
        model: Any = _CutModel(self.model, cutter, self.totals)
        return replace(
            dependencies,
            store=around(dependencies.store, "store"),
            model=model,
            toolbox=TestToolbox(tools),
            approver=around(dependencies.approver, "approver"),
            context_gatherer=around(dependencies.context_gatherer, "context_gatherer"),
            pause=pause,
        )

    def turn(self, run: Run, session: Session) -> Turn:
        return _CutTurn(super().turn(run, session), self.cutter)


class CutLedger:
    """A `Store` whose commits pass a barrier before and behind."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.cutter = Cutter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, batch: Batch) -> Committed:
        cutter = self.cutter
        await cutter.let_by("before commit")
        committed = await self._store.commit(batch)
        await cutter.let_by("after commit")
        return committed
