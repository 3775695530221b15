"""The handle through which a turn writes: every write goes to the session's mailbox."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from msgspec import UNSET

from holdfast.agent.protocol import Ending, Spent, StartRecord, StepOpening, Subagent
from holdfast.errors import Conflict, StoreUnreachable
from holdfast.ids import Prefix
from holdfast.runs.engine_state import ActiveRun, EngineState
from holdfast.runs.lane.commit_plan import CommitPlan, LaneState
from holdfast.runs.lane.decisions import decide
from holdfast.runs.lane.protocol import Boundary, Decision
from holdfast.runs.mailbox import CommittedAnswer, Planner
from holdfast.runs.run_end import complete_ending
from holdfast.runs.subagents import Subagents
from holdfast.schema.events import DeltaKind, KnownDurable
from holdfast.schema.messages import Message
from holdfast.schema.runs import (
    BoundaryAnswer,
    Ended,
    EndReason,
    GoOn,
    Now,
    Outcome,
    Phase,
    Run,
    RunRequest,
    RunSettings,
)
from holdfast.schema.sessions import Session
from holdfast.store import Committed
from holdfast.store import writes as w
from holdfast.tasks import finish_before_cancel

A = TypeVar("A")

_LANE_WRITES = (w.InsertRun, w.EndRun, w.SetLane, w.DeleteSession)
_KEPT_DELTAS = ("text", "reasoning")
"""Deltas that survive a crash. A call with incomplete arguments is dropped, and live output is in the result."""


class EngineTurnHandle:
    def __init__(self, engine_state: EngineState, active: ActiveRun, subagents: Subagents) -> None:
        self._engine_state = engine_state
        self._active = active
        self._subagents = subagents
        self._mailbox = active.mailbox
        self._run_id = active.run.id
        self._run: Run = active.run
        self._run_state: LaneState | None = None
        """The committed state that `_run` is of."""

    @property
    def run(self) -> Run:
        state = self._mailbox.state
        if state is not None and state is not self._run_state:  # it is asked often between two commits
            self._run, self._run_state = _require_turn(state, self._run_id), state
        return self._run

    @property
    def session(self) -> Session:
        return self._active.session

    async def may_begin(self) -> None:
        await self._engine_state.start_order.turn_may_begin()

    @property
    def started_with(self) -> StartRecord:
        return self._active.started_with

    @property
    def stopping(self) -> EndReason | None:
        return self._active.stop_reason

    def now(self) -> str:
        return self._engine_state.now()

    def new_id(self, prefix: Prefix) -> str:
        return self._engine_state.ids.new(prefix)

    async def commit(
        self, writes: Sequence[w.AnyWrite], events: Sequence[KnownDurable] = (), *, spent: Spent | None = None
    ) -> Committed:
        _refuse_lane_writes(writes)

        async def plan(state: LaneState) -> CommitPlan[None]:
            _require_turn(state, self._run_id)
            builder = self._engine_state.plan_builder(state)
            builder.add(writes, events)
            builder.add_usage(self._run_id, spent)
            return builder.plan_unchanged()

        return (await self._post(plan)).committed

    async def boundary(
        self,
        *,
        outcome: Outcome | None = None,
        messages: Sequence[Message] = (),
        writes: Sequence[w.AnyWrite] = (),
        events: Sequence[KnownDurable] = (),
        spent: Spent | None = None,
        opening: StepOpening | None = None,
    ) -> BoundaryAnswer:
        _refuse_lane_writes(writes)
        goes_on = False
        if outcome is not None:
            await self._subagents.stop()
            await self._subagents.wait_for_ends()

        async def plan(state: LaneState) -> CommitPlan[BoundaryAnswer]:
            nonlocal goes_on
            run = _require_turn(state, self._run_id)
            decision: Decision[BoundaryAnswer] = (
                Decision(state.lane, (), GoOn()) if goes_on else decide(state.lane, Boundary(run.id, outcome))
            )
            builder = self._engine_state.plan_builder(state)
            if outcome is None or not isinstance(decision.answer, Ended):
                builder.add_usage(run.id, spent)
                builder.add(writes, events)
                builder.add_messages(messages)
                if opening is not None and decision.answer == GoOn():
                    builder.add(opening.writes, opening.events)
                    if not goes_on:
                        goes_on = True  # it stands if the commit is repeated, and changes nothing in the lane
                        opening.on_decided()
                return builder.plan(decision)
            ending = Ending(
                outcome=self._active.with_left_running(outcome),
                messages=tuple(messages),
                writes=tuple(writes),
                events=tuple(events),
                spent=spent,
            )
            end = outcome.state, outcome.reason
            ending = await complete_ending(self._engine_state, state, run=run, end=end, ending=ending)
            return builder.plan(decision, endings={run.id: ending})

        return (await self._post(plan, must_be_written=outcome is not None)).answer

    async def _post(self, planner: Planner[A], *, must_be_written: bool = False) -> CommittedAnswer[A]:
        """Commit. While the database does not answer, the turn waits until it is stopped (`R14`)."""
        while True:
            try:
                posted = self._mailbox.post(planner, must_be_written=must_be_written, until_known=True)
                return await finish_before_cancel(posted)
            except StoreUnreachable:
                if self._active.stop_reason is not None:
                    raise
            await asyncio.sleep(self._engine_state.limits.retry_first_seconds)

    async def start_subagent(self, request: RunRequest, *, title: str) -> Subagent:
        return await self._subagents.start(request, title=title)

    def progress(self, phase: Phase, what: str = "", *, since: str | None = None, seconds: float | None = None) -> None:
        until = "" if seconds is None else self._engine_state.now(later=seconds)
        self._active.set_progress(Now(phase, what, since or self.now(), until))

    def use_settings(self, in_effect: RunSettings) -> None:
        self._active.use_settings(in_effect)

    def report(self, *, killed: Sequence[str] = (), left_running: Sequence[str] = ()) -> None:
        self._active.report(killed=killed, left_running=left_running)

    def delta(
        self,
        message_id: str,
        part: int,
        *,
        text: str,
        of: DeltaKind = "text",
        attempt: int = 1,
        call_id: str | None = None,
        name: str | None = None,
    ) -> None:
        if self._active.has_ended:
            return
        session_id = self.session.id
        self._engine_state.hub.add_delta(
            session_id, message_id, part, text=text, of=of, attempt=attempt, call_id=call_id, name=name
        )
        if of in _KEPT_DELTAS:
            self._engine_state.store.append_draft(
                session_id, message_id, part, text, attempt=attempt, is_reasoning=of == "reasoning"
            )

    def attempt(self, message_id: str, attempt: int) -> None:
        if not self._active.has_ended:
            self._engine_state.hub.start_attempt(self.session.id, message_id, attempt)


def _require_turn(state: LaneState, run_id: str) -> Run:
    active = state.lane.active
    if active is None or active.id != run_id:
        raise Conflict(f"run {run_id!r} has ended; its turn can write nothing more", code="run_over")
    return state.runs[run_id]


def _refuse_lane_writes(writes: Sequence[w.AnyWrite]) -> None:
    for write in writes:
        if isinstance(write, _LANE_WRITES) or (isinstance(write, w.UpdateRun) and write.state is not UNSET):
            raise TypeError(f"a turn cannot write {type(write).__name__}; only the lane can")
