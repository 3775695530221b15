"""A store in a real file, its hub, and an engine with scripted turns."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast.errors import CommitRefused, OutcomeUnknown, StoreUnreachable, StoreUnwritable
from holdfast.events import Hub
from holdfast.ids import Ids
from holdfast.runs import Engine, EngineLimits, IntentFile
from holdfast.schema.events import Event, SessionCreated, read_event
from holdfast.schema.messages import Message
from holdfast.schema.runs import Accepted, Run, RunRequest
from holdfast.schema.sessions import Session, Workspace
from holdfast.store import Batch, Committed, OutcomeLookUp, SqliteStore, Store
from holdfast.store.writes import PutSession, PutWorkspace
from tests.support.any_store import need_file_copies, open_any_store
from tests.support.scripted_turns import ScriptedTurns

WORKSPACE = "wsp_1"

DEFAULT_LIMITS = EngineLimits(unfinished_runs=256, subagent_depth=2)

LONG_LIMITS = replace(
    DEFAULT_LIMITS,
    stop_seconds=20,
    receipt_seconds=20,
    shutdown_seconds=20,
    unwritable_seconds=20,
    retry_first_seconds=0.001,
)
"""No limit is reached in a test."""


class ControlledStore:
    """A `Store` in front of another one. Tests can delay or refuse its commits."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.holds_only: str | None = None
        """The session whose commits are held while it is not open; None: all."""
        self.refusing: CommitRefused | None = None
        """While set, every commit is refused."""
        self.refused = 0
        self.was_refused = asyncio.Event()
        self.open = asyncio.Event()
        """While not set, commits wait."""
        self.open.set()
        self.refuse_held = False
        """Whether waiting commits are refused when they continue."""
        self.committed = 0
        self.held = 0
        """How many commits wait."""
        self.lost: list[tuple[Batch, asyncio.Future[Committed]]] | None = None
        """Unless None, the outcome of every commit is unknown until `find`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, batch: Batch, *, until_known: bool = True) -> Committed:
        if self.refusing is not None:
            self.refused += 1
            self.was_refused.set()
            raise self.refusing
        if not self.open.is_set() and (self.holds_only is None or _concerns(batch, self.holds_only)):
            self.held += 1
            await self.open.wait()
            self.held -= 1
            if self.refuse_held:
                self.refused += 1
                raise StoreUnwritable("the database cannot be written: disk full")
        if self.lost is not None:
            self.lost.append((batch, outcome := asyncio.get_running_loop().create_future()))
            if until_known:
                return await outcome
            raise OutcomeUnknown(
                "not known", look_up=OutcomeLookUp(outcome, lambda: StoreUnreachable("nothing was changed"))
            )
        committed = await self._store.commit(batch, until_known=until_known)
        self.committed += 1
        return committed

    async def find(self, *, happened: bool) -> None:
        """The database is back, and tells what became of the commits whose outcome is unknown."""
        lost, self.lost = self.lost or [], None
        for batch, outcome in lost:
            if happened:
                outcome.set_result(await self._store.commit(batch))
            else:
                outcome.set_exception(StoreUnreachable("it did not happen"))

    def refuse(self) -> None:
        self.refusing = StoreUnwritable("the database cannot be written: disk full")


def _concerns(batch: Batch, session_id: str) -> bool:
    return any(getattr(event, "session_id", None) == session_id for event in batch.events)


class EngineHarness:
    """Store, hub and engine of one server."""

    def __init__(
        self, path: Path, store: Store, *, turns: ScriptedTurns, limits: EngineLimits, intents: IntentFile | None = None
    ) -> None:
        self.path = path
        self.store = store
        self.hub = Hub(store, heartbeat_seconds=10.0)
        self.turns = turns
        self.gates = turns.gates
        self.engine = Engine(store, self.hub, turns, ids=Ids(), limits=limits, intents=intents)

    async def session(self, session_id: str = "ses_1", *, parent_id: str | None = None) -> str:
        session = Session(id=session_id, workspace_id=WORKSPACE, parent_id=parent_id)
        await self.store.commit(Batch((PutSession(session),), (SessionCreated("", session_id, session),)))
        return session_id

    async def accept(self, prompt: str = "hello", *, session_id: str = "ses_1", **fields: Any) -> Accepted:
        request = RunRequest(prompt=prompt, **fields)
        return await self.engine.accept(session_id, request, client="test", body_hash=repr(request))

    async def ended(self, run: Run | Accepted | str) -> Run:
        run_id = run if isinstance(run, str) else run.run.id if isinstance(run, Accepted) else run.id
        return await self.engine.wait_run(run_id, timeout=20)

    async def messages(self, session_id: str = "ses_1") -> tuple[Message, ...]:
        return (await self.store.messages(session_id, limit=1000)).items

    async def events(self, session_id: str | None = None) -> list[Event]:
        page = await self.store.events_after(
            0, upto=self.store.last_number, session_id=session_id, limit=1_000_000, max_bytes=1 << 40
        )
        return [read_event(event.body) for event in page.events]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds. The test's time-out is the limit."""
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)

    async def quiet(self) -> None:
        """Wait until the engine has no tasks and no waiters."""
        state = self.engine._state
        await self.until(lambda: not state.tasks and not state.end_waiters)

    async def close(self) -> None:
        await self.engine.stop()
        self.hub.close()
        await self.store.close()


@asynccontextmanager
async def open_harness(
    path: Path,
    *,
    turns: ScriptedTurns | None = None,
    limits: EngineLimits = LONG_LIMITS,
    open_workspace: bool = True,
    controlled: bool = False,
    intents: IntentFile | None = None,
) -> AsyncIterator[EngineHarness]:
    store: Any = await open_any_store(path)
    if controlled:
        store = ControlledStore(store)
    if not await store.workspaces():
        await store.commit(Batch((PutWorkspace(Workspace(WORKSPACE, "/work/here")),)))
    harness = EngineHarness(path, store, turns=turns or ScriptedTurns(), limits=limits, intents=intents)
    if open_workspace:
        await harness.engine.open_workspace(WORKSPACE)
    try:
        yield harness
    finally:
        await harness.close()


@asynccontextmanager
async def crashed_harness(path: Path, turns: ScriptedTurns) -> AsyncIterator[EngineHarness]:
    """A server that crashes at the end of the block: `path` then has the database of that moment."""
    need_file_copies()
    live = path.with_name("live.db")
    async with open_harness(live, turns=turns) as harness:
        await harness.session()
        yield harness
        await harness.store.backup(path)
