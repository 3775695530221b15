"""The receipt of a cancel: what was covered, what each was doing, how each ended (`C3`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from holdfast.runs.driver import Driver
from holdfast.runs.end_waiters import EndedRun
from holdfast.runs.engine_state import EngineState
from holdfast.runs.lane.decisions import decide
from holdfast.runs.lane.ledger_batch import LaneState, Plan
from holdfast.runs.lane.protocol import CancelActive, CancelRun, CancelSession, Covered, Delete
from holdfast.runs.mailbox import Planner
from holdfast.schema.runs import CoveredRun, EndState, Now, Receipt, Run, RunState


class _Line:
    """One covered run, as it was when the cancel was decided."""

    __slots__ = ("doing", "over", "run", "was")

    def __init__(self, run: Run, *, was: RunState, doing: Now | None, over: asyncio.Future[EndedRun]) -> None:
        self.run = run
        self.was = was
        self.doing = doing
        self.over = over

    def covered(self) -> CoveredRun:
        ended = self.over.result() if self.over.done() and not self.over.cancelled() else None
        end = ended.run if ended is not None else None
        return CoveredRun(
            run_id=self.run.id,
            session_id=self.run.session_id,
            was=self.was,
            doing=self.doing,
            ended_as=_end_state(end) if end else None,
            reason=end.reason if end else None,
            prompt=self.run.prompt,
            killed=ended.killed if ended else (),
            left_running=end.left_running if end else (),
        )


class PendingReceipt:
    """Collects the ends from before the commit on, so that none is missed."""

    def __init__(self, desk: EngineState) -> None:
        self._desk = desk
        self._mark = 0
        self._lines: list[_Line] = []

    def planner(self, command: CancelSession | CancelActive | CancelRun | Delete) -> Planner[None]:
        async def plan(state: LaneState) -> Plan[None]:
            decision = decide(state.lane, command)
            self._cover(state, decision.answer)
            entry = self._desk.entry(state)
            entry.changes(decision.lane, decision.changes)
            return entry.plan(decision.lane, None, changes=decision.changes)

        return plan

    def _cover(self, state: LaneState, covered: Covered) -> None:
        self._mark = covered.mark
        for run in covered.runs:
            driver = self._desk.drivers.get(run.id)
            self._add(state.runs[run.id], was=run.state, doing=driver.now if driver else None)
            if driver is not None:
                for child in _below(driver):
                    self._add(child.run, was="stopping" if child.why else "active", doing=child.now)

    def _add(self, run: Run, *, was: RunState, doing: Now | None) -> None:
        self._lines.append(_Line(run, was=was, doing=doing, over=self._desk.waiters.expect(run.id)))

    async def receipt(self) -> Receipt:
        """When all covered runs have ended, or when the time is over (`C3`)."""
        waiting = [line.over for line in self._lines]
        if waiting:
            await asyncio.wait(waiting, timeout=self._desk.bounds.receipt_seconds)
        receipt = Receipt(self._mark, tuple(line.covered() for line in self._lines))
        self.drop()
        return receipt

    def drop(self) -> None:
        for line in self._lines:
            line.over.cancel()


def receipt_of_ended(run: Run, *, mark: int) -> Receipt:
    """For a run that had ended before the cancel came: its own end, and nothing is changed."""
    line = CoveredRun(
        run_id=run.id,
        session_id=run.session_id,
        was=run.state,
        ended_as=_end_state(run),
        reason=run.reason,
        prompt=run.prompt,
        left_running=run.left_running,
    )
    return Receipt(mark, (line,))


def _end_state(run: Run) -> EndState:
    match run.state:
        case "completed" | "cancelled" | "failed" | "interrupted":
            return run.state
        case state:
            raise AssertionError(f"run {run.id!r} is {state}, it has not ended")


def _below(driver: Driver) -> Iterator[Driver]:
    """Its sub-agents, and theirs."""
    for child in driver.children.live.values():
        found = driver.desk.drivers.get(child.run_id)
        if found is not None:
            yield found
            yield from _below(found)
