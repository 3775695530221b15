"""Turns with a barrier at every point where they wait, and an action that happens at one of them."""

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
from tests.support.real_turns import RealTurns, TestToolbox

_ROUNDS = 6


class Interrupter:
    """Counts the points of one run. At the chosen one it acts, and the turn waits there until it is stopped."""

    def __init__(self, at: int | None = None, act: Callable[[], Awaitable[Any]] | None = None) -> None:
        self.points: list[str] = []
        self.acting: asyncio.Future[Any] | None = None
        self._at = at
        self._act = act
        self._released = asyncio.Event()

    def release(self) -> None:
        """Let the turn continue: the action had nothing to stop."""
        self._released.set()

    @property
    def where(self) -> str:
        return self.points[self._at] if self._at is not None and self._at < len(self.points) else "nowhere"

    async def hold(self, name: str) -> None:
        """Wait at a point of the turn's own tasks: the effect of the action must reach it here."""
        if self._is_here(name):
            await self._released.wait()

    async def pass_by(self, name: str) -> None:
        """Pass a point of the store: the action runs meanwhile, but a commit is not withdrawn."""
        if self._is_here(name):
            for _ in range(_ROUNDS):
                await asyncio.sleep(0)

    def _is_here(self, name: str) -> bool:
        self.points.append(name)
        if len(self.points) - 1 != self._at or self.acting is not None:
            return False
        assert self._act is not None
        self.acting = asyncio.ensure_future(self._act())
        return True


class _Around:
    """Wraps an object. Its coroutines wait at a barrier before and after."""

    def __init__(self, inner: Any, interrupter: Interrupter, name: str) -> None:
        self._inner = inner
        self._interrupter = interrupter
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def around(*args: Any, **fields: Any) -> Any:
            await self._interrupter.hold(f"before {self._name}.{name}")
            answer = await found(*args, **fields)
            await self._interrupter.hold(f"after {self._name}.{name}")
            return answer

        return around


class _InterruptedHandle(_Around):
    async def boundary(self, **fields: Any) -> Any:
        await self._interrupter.hold("before handle.boundary")
        crossing = await self._inner.boundary(**fields)
        over = isinstance(crossing, Ended)
        await (self._interrupter.pass_by if over else self._interrupter.hold)("after handle.boundary")
        return crossing

    async def start_subagent(self, *args: Any, **fields: Any) -> Any:
        await self._interrupter.hold("before handle.start_subagent")
        subagent = await self._inner.start_subagent(*args, **fields)
        await self._interrupter.hold("after handle.start_subagent")
        return _Around(subagent, self._interrupter, "subagent")


class _InterruptedModel:
    """Counts open streams and reported usage."""

    def __init__(self, inner: Model, interrupter: Interrupter, totals: "Totals") -> None:
        self._inner = inner
        self._interrupter = interrupter
        self._totals = totals
        self.info = inner.info

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        self._totals.open_streams += 1
        told = Usage()
        try:
            await self._interrupter.hold("request")
            async for delta in self._inner.stream(request):
                await self._interrupter.hold(f"before {type(delta).__name__}")
                if isinstance(delta, UsageReport):
                    told = delta.usage
                yield delta
            await self._interrupter.hold("answer complete")
        finally:
            self._totals.open_streams -= 1
            self._totals.reported += told


class Totals:
    """Sums to compare at the end."""

    def __init__(self) -> None:
        self.open_streams = 0
        self.reported = Usage()
        """The usage that the model reported and the turn received."""


class _InterruptedTurn:
    def __init__(self, turn: Turn, interrupter: Interrupter) -> None:
        self._turn = turn
        self._interrupter = interrupter

    async def run(self, handle: TurnHandle) -> Ending | None:
        await self._interrupter.hold("turn begins")
        cut: Any = _InterruptedHandle(handle, self._interrupter, "handle")
        ending = await self._turn.run(cut)
        await (self._interrupter.pass_by if ending is None else self._interrupter.hold)("turn is over")
        return ending


def interrupt_turn(turn: Turn, interrupter: Interrupter) -> Turn:
    """Return the turn with barriers at everything it waits for."""
    return _InterruptedTurn(turn, interrupter)


class InterruptedTurns(RealTurns):
    """Creates turns that wait at the barriers of `interrupter`. Replace it before a run is accepted."""

    def __init__(self, store: Store, model: Model, directory: Path) -> None:
        super().__init__(store, model, directory)
        self.interrupter = Interrupter()
        self.totals = Totals()

    def dependencies(self, run: Run) -> Any:
        dependencies, interrupter = super().dependencies(run), self.interrupter

        async def pause(seconds: float) -> None:
            await interrupter.hold("retry")

        def around(inner: Any, name: str) -> Any:
            return _Around(inner, interrupter, name)

        tools: Any = {name: around(tool, name) for name, tool in self.tools.items()}
        model: Any = _InterruptedModel(self.model, interrupter, self.totals)
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
        return _InterruptedTurn(super().turn(run, session), self.interrupter)


class InterruptedStore:
    """A `Store` whose commits pass a barrier before and after."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.interrupter = Interrupter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, batch: Batch, *, until_known: bool = True) -> Committed:
        interrupter = self.interrupter
        await interrupter.pass_by("before commit")
        committed = await self._store.commit(batch, until_known=until_known)
        await interrupter.pass_by("after commit")
        return committed
