"""Sub-agents: runs in child sessions. They are stopped with the run that started them and end before it."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace

from holdfast.errors import ToolError
from holdfast.runs.acceptance import accept_planner
from holdfast.runs.engine_state import ActiveRun, EndedRun, EngineState
from holdfast.runs.lane.commit_plan import Acceptance
from holdfast.runs.lane.protocol import CancelSession, ServerStop
from holdfast.runs.lane.state import RunStopReason
from holdfast.schema.runs import Run, RunRequest
from holdfast.schema.sessions import Session

_END_SECONDS = 0.25
"""How long a parent that stops waits for the end of a stopped sub-agent, which may not be possible to write."""


class EngineSubagent:
    """One sub-agent, as the turn of its parent sees it."""

    def __init__(self, engine_state: EngineState, *, session_id: str, run_id: str) -> None:
        self.session_id = session_id
        self.run_id = run_id
        self.end: asyncio.Future[EndedRun] = engine_state.end_waiters.expect(run_id)
        """Cancelled if the sub-agent could not be started."""
        self._engine_state = engine_state

    @property
    def run(self) -> Run | None:
        return self.end.result().run if self.end.done() and not self.end.cancelled() else None

    async def ended(self) -> Run:
        try:
            return (await asyncio.shield(self.end)).run
        except asyncio.CancelledError:
            self.stop("parent_ended")
            await self.stopped()
            await asyncio.wait({self.end}, timeout=_END_SECONDS)  # its usage is in its end
            raise

    async def stopped(self) -> None:
        """Wait until nothing of it is running any more. Its end may not be written yet."""
        active = self._engine_state.active_runs.get(self.run_id)
        signals: list[asyncio.Future[Any]] = [self.end]
        if active is not None:
            signals.append(active.turn_over)
        await asyncio.wait(signals, return_when=asyncio.FIRST_COMPLETED)

    def stop(self, reason: RunStopReason) -> None:
        """A server stop interrupts the sub-agent too; any other end of its parent cancels it."""
        self._stop_turn(reason)
        command = ServerStop() if reason == "server_stop" else CancelSession("parent_ended")
        sent = self._engine_state.send(self.session_id, command, uses_reserve=True)
        sent.add_done_callback(lambda done: None if _succeeded(done) else self._stop_turn(reason))

    def _stop_turn(self, reason: RunStopReason) -> None:
        """Stop the turn before the stop is written, and if it cannot be written. The session has no other run."""
        active = self._engine_state.active_runs.get(self.run_id)
        if active is not None:
            active.stop("server_stop" if reason == "server_stop" else "parent_ended")


class Subagents:
    """The sub-agents of one run."""

    def __init__(self, engine_state: EngineState, parent: ActiveRun) -> None:
        self._engine_state = engine_state
        self._parent = parent
        self._live: dict[str, EngineSubagent] = {}
        """By run id: those whose end is not written."""

    async def start(self, request: RunRequest, *, title: str) -> EngineSubagent:
        engine_state, parent = self._engine_state, self._parent
        self._refuse_too_many()
        at = engine_state.now()
        session = Session(
            id=engine_state.ids.new("ses"),
            workspace_id=parent.session.workspace_id,
            parent_id=parent.session.id,
            title=title,
            created_at=at,
            updated_at=at,
        )
        run_id = engine_state.ids.new("run")
        request = replace(request, run_id=run_id, kind="prompt", delivery="queue", after="any")
        subagent = EngineSubagent(engine_state, session_id=session.id, run_id=run_id)
        # Registered before the commit: a stop that comes meanwhile is posted behind the accept and covers it.
        self._register(subagent)
        acceptance = Acceptance(
            request=request, client=parent.run.client, body_hash="", parent_run_id=parent.run.id, in_new_session=True
        )
        accepted = engine_state.new_mailbox(session).post(accept_planner(engine_state, acceptance), until_known=True)
        accepted.add_done_callback(lambda done: None if _succeeded(done) else subagent.end.cancel())
        try:
            await asyncio.shield(accepted)
        except asyncio.CancelledError:
            subagent.stop("parent_ended")
            raise
        return subagent

    async def stop(self) -> None:
        """Stop the sub-agents that are left, and wait until nothing of them is running."""
        self._parent.stop_subagents("parent_ended")
        for subagent in tuple(self._live.values()):
            await subagent.stopped()

    async def wait_for_ends(self) -> None:
        """Wait until their ends are written."""
        if self._live:
            await asyncio.wait([subagent.end for subagent in self._live.values()])

    def _register(self, subagent: EngineSubagent) -> None:
        self._parent.subagents[subagent.run_id] = subagent.stop
        self._live[subagent.run_id] = subagent

        def unregister(end: asyncio.Future[EndedRun]) -> None:
            self._parent.subagents.pop(subagent.run_id, None)
            self._live.pop(subagent.run_id, None)

        subagent.end.add_done_callback(unregister)

    def _refuse_too_many(self) -> None:
        limits, live = self._engine_state.limits, len(self._parent.subagents)
        if self._parent.stop_reason is not None or self._engine_state.stopping:
            raise ToolError("the run is stopping; no sub-agent can be started any more")
        if self._parent.depth >= limits.subagent_depth:
            raise ToolError(f"a sub-agent at depth {self._parent.depth} cannot start another one; do it yourself")
        if live >= limits.live_subagents:
            raise ToolError(f"{live} sub-agents are running already; wait for one of them to end")


def _succeeded(done: asyncio.Future[Any]) -> bool:
    return not done.cancelled() and done.exception() is None
