"""The seat that the engine gives to a turn: every word of it goes through the session's mailbox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar, assert_never

from msgspec import UNSET

from holdfast.agent.protocol import Child, Crossing, Ended, Ending, GoOn, Spent, StopNow
from holdfast.errors import Conflict
from holdfast.ids import Prefix
from holdfast.runs.lane import protocol as lw
from holdfast.runs.lane.decisions import decide
from holdfast.runs.lane.ledger_batch import EndDetails, Entry, LaneState, Plan
from holdfast.runs.run_end import end_details
from holdfast.schema.events import DeltaKind, KnownDurable
from holdfast.schema.messages import Message
from holdfast.schema.runs import EndReason, Now, Outcome, Phase, Run, RunRequest
from holdfast.schema.sessions import Session
from holdfast.store import Committed
from holdfast.store import writes as w
from holdfast.tasks import finish_before_cancel

if TYPE_CHECKING:
    from holdfast.runs.driver import Driver

T = TypeVar("T")

_LANES_OWN = (w.InsertRun, w.EndRun, w.SetLane, w.DeleteSession)


class EngineTurnHandle:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._desk = driver.desk
        self._mailbox = driver.mailbox
        self._run_id = driver.run.id

    @property
    def run(self) -> Run:
        state = self._mailbox.state
        return _having_the_turn(state, self._run_id) if state else self._driver.run

    @property
    def session(self) -> Session:
        return self._driver.session

    @property
    def stopping(self) -> EndReason | None:
        return self._driver.why

    def now(self) -> str:
        return self._desk.now()

    def new_id(self, prefix: Prefix) -> str:
        return self._desk.ids.new(prefix)

    async def commit(
        self, writes: Sequence[w.AnyWrite], events: Sequence[KnownDurable] = (), *, spent: Spent | None = None
    ) -> Committed:
        _refuse_the_lanes_own(writes)

        async def plan(state: LaneState) -> Plan[None]:
            _having_the_turn(state, self._run_id)
            entry = self._desk.entry(state)
            entry.add(writes, events)
            entry.spend(self._run_id, spent)
            return entry.plan(state.lane, None)

        return (await finish_before_cancel(self._mailbox.post(plan))).committed

    async def boundary(
        self,
        *,
        outcome: Outcome | None = None,
        messages: Sequence[Message] = (),
        writes: Sequence[w.AnyWrite] = (),
        events: Sequence[KnownDurable] = (),
        spent: Spent | None = None,
    ) -> Crossing:
        _refuse_the_lanes_own(writes)
        if outcome is not None:
            await self._driver.children.settle()
        step = Ending(
            outcome=self._driver.reported(outcome or _GOING_ON),
            messages=tuple(messages),
            writes=tuple(writes),
            events=tuple(events),
            spent=spent,
        )

        async def plan(state: LaneState) -> Plan[Crossing]:
            run = _having_the_turn(state, self._run_id)
            decision = decide(state.lane, lw.Boundary(run.id, outcome))
            entry = self._desk.entry(state)
            ends: dict[str, EndDetails] = {}
            if isinstance(decision.answer, lw.Ended):
                ends[run.id] = await end_details(
                    self._desk, state, run=run, end=(step.outcome.state, step.outcome.reason), ending=step
                )
            else:
                entry.spend(run.id, spent)
                entry.add(writes, events)
                entry.messages(messages)
            entry.changes(decision.lane, decision.changes, ends=ends)
            return entry.plan(decision.lane, _crossing(decision.answer, entry), changes=decision.changes)

        return (await finish_before_cancel(self._mailbox.post(plan, insists=outcome is not None))).answer

    async def child(self, request: RunRequest, *, title: str) -> Child:
        return await self._driver.children.start(request, title=title)

    def progress(self, phase: Phase, what: str = "", *, since: str | None = None) -> None:
        self._driver.progress(Now(phase, what, since or self._desk.now()))

    def report(self, *, killed: Sequence[str] = (), left_running: Sequence[str] = ()) -> None:
        self._driver.report(killed=killed, left_running=left_running)

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
        if not self._driver.is_over:
            self._desk.hub.add_delta(
                self.session.id, message_id, part, text=text, of=of, attempt=attempt, call_id=call_id, name=name
            )

    def attempt(self, message_id: str, attempt: int) -> None:
        if not self._driver.is_over:
            self._desk.hub.start_attempt(self.session.id, message_id, attempt)


_GOING_ON = Outcome("completed", "end_turn")
"""Stands where no end was proposed; a boundary without one never ends a run."""


def _having_the_turn(state: LaneState, run_id: str) -> Run:
    active = state.lane.active
    if active is None or active.id != run_id:
        raise Conflict(f"run {run_id!r} is over; nothing more of it can be written", code="run_over")
    return state.runs[run_id]


def _refuse_the_lanes_own(writes: Sequence[w.AnyWrite]) -> None:
    for write in writes:
        if isinstance(write, _LANES_OWN) or (isinstance(write, w.UpdateRun) and write.state is not UNSET):
            raise TypeError(f"{type(write).__name__} is the lane's to write, not a turn's")


def _crossing(answer: lw.BoundaryAnswer, entry: Entry) -> Crossing:
    match answer:
        case lw.GoOn(joined):
            return GoOn(tuple(entry.runs[run_id] for run_id in joined))
        case lw.Ended():
            return Ended()
        case lw.StopNow(why):
            return StopNow(why)
        case _:
            assert_never(answer)
