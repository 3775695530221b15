"""The receipt of a cancel: which runs it covered, what each was doing and how each ended (`C3`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from holdfast.runs.engine_state import ActiveRun, EndedRun, EngineState
from holdfast.runs.lane.commit_plan import CommitPlan, LaneState
from holdfast.runs.lane.decisions import decide
from holdfast.runs.lane.protocol import CancelActive, CancelRun, CancelSession, Covered, Delete
from holdfast.runs.mailbox import Planner
from holdfast.schema.runs import CoveredRun, EndState, Now, Receipt, Run, RunState


class _Line:
    """One covered run, as it was when the cancel was decided."""

    __slots__ = ("doing", "end", "run", "was")

    def __init__(self, run: Run, *, was: RunState, doing: Now | None, end: asyncio.Future[EndedRun]) -> None:
        self.run = run
        self.was = was
        self.doing = doing
        self.end = end

    def covered_run(self) -> CoveredRun:
        ended = self.end.result() if self.end.done() and not self.end.cancelled() else None
        run = ended.run if ended is not None else None
        return CoveredRun(
            run_id=self.run.id,
            session_id=self.run.session_id,
            was=self.was,
            doing=self.doing,
            ended_as=_end_state(run) if run else None,
            reason=run.reason if run else None,
            prompt=self.run.prompt,
            killed=ended.killed if ended else (),
            left_running=run.left_running if run else (),
        )


class PendingReceipt:
    """Collects the ends of the covered runs. It listens before the commit, so it misses none."""

    def __init__(self, engine_state: EngineState) -> None:
        self._engine_state = engine_state
        self._mark = 0
        self._lines: list[_Line] = []

    def planner(self, command: CancelSession | CancelActive | CancelRun | Delete) -> Planner[None]:
        async def plan(state: LaneState) -> CommitPlan[None]:
            decision = decide(state.lane, command)
            self._cover(state, decision.answer)
            return self._engine_state.plan_decision(state, decision).with_answer(None)

        return plan

    def _cover(self, state: LaneState, covered: Covered) -> None:
        self._mark = covered.mark
        for run in covered.runs:
            active = self._engine_state.active_runs.get(run.id)
            self._add(state.runs[run.id], was=run.state, doing=active.progress if active else None)
            if active is not None:
                for subagent in self._subagents_below(active):
                    was: RunState = "stopping" if subagent.stop_reason else "active"
                    self._add(subagent.run, was=was, doing=subagent.progress)

    def _subagents_below(self, active: ActiveRun) -> Iterator[ActiveRun]:
        """The sub-agents of a run, and theirs."""
        for run_id in active.subagents:
            found = self._engine_state.active_runs.get(run_id)
            if found is not None:
                yield found
                yield from self._subagents_below(found)

    def _add(self, run: Run, *, was: RunState, doing: Now | None) -> None:
        self._lines.append(_Line(run, was=was, doing=doing, end=self._engine_state.end_waiters.expect(run.id)))

    async def receipt(self) -> Receipt:
        """Wait until all covered runs have ended or the time is over (`C3`)."""
        ends = [line.end for line in self._lines]
        if ends:
            await asyncio.wait(ends, timeout=self._engine_state.limits.receipt_seconds)
        receipt = Receipt(self._mark, tuple(line.covered_run() for line in self._lines))
        self.close()
        return receipt

    def close(self) -> None:
        """Stop waiting for ends."""
        for line in self._lines:
            line.end.cancel()


def receipt_of_ended(run: Run, *, mark: int) -> Receipt:
    """The receipt for a run that had ended before the cancel: its own end."""
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
            raise AssertionError(f"run {run.id!r} is {state}; it has not ended")
