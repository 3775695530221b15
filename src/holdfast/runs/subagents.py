"""Sub-agents: runs in child sessions that end before the run that made them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from holdfast.errors import ToolError
from holdfast.runs.acceptance import accept_planner
from holdfast.runs.end_waiters import EndedRun
from holdfast.runs.engine_state import EngineState
from holdfast.runs.lane.ledger_batch import Acceptance
from holdfast.runs.lane.protocol import CancelSession, ServerStop
from holdfast.runs.planners import command_planner
from holdfast.schema.events import SessionCreated
from holdfast.schema.runs import EndReason, Run, RunRequest
from holdfast.schema.sessions import Session
from holdfast.store.writes import PutSession

if TYPE_CHECKING:
    from holdfast.runs.driver import Driver


class ChildRun:
    """One sub-agent, as its parent's turn sees it."""

    def __init__(self, children: Children, *, session_id: str, run_id: str, over: asyncio.Future[EndedRun]) -> None:
        self._children = children
        self.session_id = session_id
        self.run_id = run_id
        self.over = over

    @property
    def run(self) -> Run | None:
        return self.over.result().run if self.over.done() and not self.over.cancelled() else None

    async def ended(self) -> Run:
        try:
            return (await asyncio.shield(self.over)).run
        except asyncio.CancelledError:
            self._children.stop_one(self, "parent_ended")
            await asyncio.wait({self.over})
            raise


class Children:
    """Of one run. Stopped with it, by one reason; none is alive when it ends."""

    def __init__(self, desk: EngineState, parent: Driver) -> None:
        self._desk = desk
        self._parent = parent
        self.live: dict[str, ChildRun] = {}
        """By run."""

    async def start(self, request: RunRequest, *, title: str) -> ChildRun:
        desk, parent = self._desk, self._parent
        self._refuse_too_many()
        at = desk.now()
        session = Session(
            id=desk.ids.new("ses"),
            workspace_id=parent.session.workspace_id,
            parent_id=parent.session.id,
            title=title,
            created_at=at,
            updated_at=at,
        )
        request = replace(request, run_id=desk.ids.new("run"), kind="prompt", delivery="queue", after="any")
        assert request.run_id is not None
        child = ChildRun(self, session_id=session.id, run_id=request.run_id, over=desk.waiters.expect(request.run_id))
        # Known before it is committed: a stop that comes meanwhile is posted behind the accept, and covers it.
        self.live[child.run_id] = child
        child.over.add_done_callback(lambda _: self.live.pop(child.run_id, None))
        acceptance = Acceptance(request=request, client=parent.run.client, body_hash="", parent_run_id=parent.run.id)
        planner = accept_planner(
            desk, acceptance, made=((PutSession(session),), (SessionCreated(at, session.id, session),))
        )
        accepted = desk.new_mailbox(session).post(planner)
        accepted.add_done_callback(lambda done: None if _succeeded(done) else child.over.cancel())
        try:
            await asyncio.shield(accepted)
        except asyncio.CancelledError:
            self.stop_one(child, "parent_ended")
            raise
        return child

    def _refuse_too_many(self) -> None:
        bounds = self._desk.bounds
        if self._parent.why is not None or self._desk.stopping:
            raise ToolError("the run is stopping; no sub-agent can be started any more")
        if self._parent.depth >= bounds.child_depth:
            raise ToolError(f"a sub-agent at depth {self._parent.depth} cannot start another one; do it yourself")
        if len(self.live) >= bounds.live_children:
            raise ToolError(f"{len(self.live)} sub-agents are running already; wait for one of them to end")

    def stop(self, why: EndReason) -> None:
        for child in tuple(self.live.values()):
            self.stop_one(child, why)

    def stop_one(self, child: ChildRun, why: EndReason) -> None:
        """A server's stop interrupts the child too; any other end of its parent cancels it."""
        command = ServerStop() if why == "server_stop" else CancelSession("parent_ended")
        posted = self._desk.mailbox(child.session_id).post(command_planner(self._desk, command))
        posted.add_done_callback(lambda done: self._stop_unwritten(child, why, refused=not _succeeded(done)))

    def _stop_unwritten(self, child: ChildRun, why: EndReason, *, refused: bool) -> None:
        """The ledger could not take the stop; the child stops all the same, for its parent must."""
        driver = self._desk.drivers.get(child.run_id)
        if refused and driver is not None:
            driver.stop("server_stop" if why == "server_stop" else "parent_ended")

    async def settle(self) -> None:
        """Stops what is left and waits for its end."""
        self.stop("parent_ended")
        if self.live:
            await asyncio.wait({child.over for child in self.live.values()})


def _succeeded(done: asyncio.Future[Any]) -> bool:
    return not done.cancelled() and done.exception() is None
