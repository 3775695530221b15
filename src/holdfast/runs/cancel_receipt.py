"""The receipt of a cancel: which runs it covered, what each was doing and how each ended (`C3`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, TypeAlias

from msgspec.structs import replace

from holdfast.errors import CommitRefused, HoldfastError, StoreUnreachable
from holdfast.runs.engine_state import ActiveRun, EndedRun, EngineState
from holdfast.runs.intent_file import CancelIntent
from holdfast.runs.lane.commit_plan import CommitPlan, LaneState
from holdfast.runs.lane.decisions import decide
from holdfast.runs.lane.protocol import (
    CancelActive,
    CancelRun,
    CancelSession,
    Change,
    Covered,
    Delete,
    TurnStopping,
)
from holdfast.runs.mailbox import Mailbox, Planner
from holdfast.schema.runs import CoveredRun, EndState, Now, Receipt, Run, RunError, RunState

CancelCommand: TypeAlias = CancelSession | CancelActive | CancelRun


class _Line:
    """One covered run, as it was when the cancel came."""

    __slots__ = ("active", "doing", "end", "run", "was")

    def __init__(
        self, run: Run, *, was: RunState, active: ActiveRun | None, doing: Now | None, end: asyncio.Future[EndedRun]
    ) -> None:
        self.run = run
        self.was = was
        self.active = active
        self.doing = doing
        self.end = end

    @property
    def is_stopped(self) -> bool:
        """Whether nothing of the run is running any more."""
        return self.end.done() or self.active is None or self.active.turn_over.done()

    def covered_run(self) -> CoveredRun:
        ended = self.end.result() if self.end.done() and not self.end.cancelled() else None
        run = ended.run if ended is not None else None
        active = self.active
        return CoveredRun(
            run_id=self.run.id,
            session_id=self.run.session_id,
            was=self.was,
            doing=self.doing,
            ended_as=_end_state(run) if run else None,
            reason=run.reason if run else None,
            prompt=self.run.prompt,
            killed=ended.killed if ended else active.killed if active else (),
            left_running=run.left_running if run else active.left_running if active else (),
            stopped=self.is_stopped,
        )


class PendingReceipt:
    """Sends a cancel to its lane, and collects the ends of the covered runs.

    The run that has the turn is stopped as soon as the lane has decided, before the commit: a cancel works on a full
    disk too (`C7`). A commit that is already on its way may end that run, but if it does not, the cancel covers the run
    when it is decided again after that commit. So no run is touched that the cancel does not cover (`C1`).
    """

    def __init__(self, engine_state: EngineState, session_id: str) -> None:
        self._engine_state = engine_state
        self._session_id = session_id
        self._mark = 0
        self._lines: dict[str, _Line] = {}
        self._refused: asyncio.Future[CommitRefused] = asyncio.get_running_loop().create_future()
        self._intent: CancelIntent | None = None
        self._is_decided = False
        """Whether the cancel had its turn in the mailbox. Before that, a prompt may still be accepted before it."""

    async def cancel(self, command: CancelCommand) -> Receipt:
        """Return when all covered runs have ended, when they have stopped but that cannot be written, or in time."""
        mailbox = self._engine_state.mailbox(self._session_id)
        if mailbox.state is not None:
            self._stop_covered(mailbox.state, command)
        posted = mailbox.post_cancel(self._planner(command, stop=True), on_refused=self._set_refused)
        seconds = self._engine_state.limits.receipt_seconds
        work = asyncio.ensure_future(self._until_ended_or_refused(posted))
        try:
            await asyncio.wait({work}, timeout=seconds)
            if work.done():
                work.result()
            return await self._receipt(posted, mailbox)
        finally:
            work.cancel()

    async def delete(self) -> Receipt:
        """Delete the session: nothing is stopped before the deletion is committed."""
        mailbox = self._engine_state.mailbox(self._session_id)
        await mailbox.post(self._planner(Delete(), stop=False), uses_reserve=True)
        await self._until_ended()
        return Receipt(self._mark, tuple(line.covered_run() for line in self._lines.values()))

    def close(self) -> None:
        """Stop waiting for ends."""
        for line in self._lines.values():
            line.end.cancel()

    def _planner(self, command: CancelCommand | Delete, *, stop: bool) -> Planner[None]:
        async def plan(state: LaneState) -> CommitPlan[None]:
            decision = decide(state.lane, command)
            self._is_decided = True
            self._cover(state, decision.answer, command)
            if stop:
                self._stop(decision.changes)
            return self._engine_state.plan_decision(state, decision).with_answer(None)

        return plan

    def _stop_covered(self, state: LaneState, command: CancelCommand) -> None:
        """Decide on the committed lane, although a commit may be on its way. The planner decides again after it."""
        try:
            decision = decide(state.lane, command)
        except HoldfastError:
            return  # the planner raises it
        self._cover(state, decision.answer, command)
        self._stop(decision.changes)

    def _stop(self, changes: tuple[Change, ...]) -> None:
        for change in changes:
            if isinstance(change, TurnStopping) and (active := self._engine_state.active_runs.get(change.run_id)):
                active.stop(change.reason)

    def _cover(self, state: LaneState, covered: Covered, command: CancelCommand | Delete) -> None:
        self._mark = covered.mark
        self._intent = _intent_of(command, self._session_id, covered)
        for run in covered.runs:
            active = self._engine_state.active_runs.get(run.id)
            self._add(state.runs[run.id], was=run.state, active=active)
            if active is not None:
                for subagent in self._subagents_below(active):
                    self._add(subagent.run, was="active", active=subagent)

    def _subagents_below(self, active: ActiveRun) -> Iterator[ActiveRun]:
        """The sub-agents of a run, and theirs."""
        for run_id in active.subagents:
            found = self._engine_state.active_runs.get(run_id)
            if found is not None:
                yield found
                yield from self._subagents_below(found)

    def _add(self, run: Run, *, was: RunState, active: ActiveRun | None) -> None:
        known = self._lines.get(run.id)
        if known is not None and known.active is None:  # a commit that was on its way may have started it
            known.was, known.active = was, active
        if known is None:
            end = self._engine_state.end_waiters.expect(run.id)
            doing = active.progress if active else None
            was = "stopping" if active and active.stop_reason else was
            self._lines[run.id] = _Line(run, was=was, active=active, doing=doing, end=end)

    def _set_refused(self, error: CommitRefused) -> None:
        if not self._refused.done():
            self._refused.set_result(error)

    async def _until_ended_or_refused(self, posted: asyncio.Future[Any]) -> None:
        await asyncio.wait({posted, self._refused}, return_when=asyncio.FIRST_COMPLETED)
        if self._refused.done():
            await self._until_stopped()
            return
        try:
            await asyncio.shield(posted)
        except CommitRefused as error:
            self._set_refused(error)
            return
        await self._until_ended()

    async def _until_ended(self) -> None:
        ends = [line.end for line in self._lines.values()]
        if ends:
            await asyncio.wait(ends, timeout=self._engine_state.limits.receipt_seconds)

    async def _until_stopped(self) -> None:
        """Wait until no covered run is running any more. Their ends cannot be written now."""
        for line in self._lines.values():
            if line.active is not None:
                signals: tuple[asyncio.Future[Any], ...] = (line.end, line.active.turn_over)
                await asyncio.wait(signals, return_when=asyncio.FIRST_COMPLETED)

    async def _receipt(self, posted: asyncio.Future[Any], mailbox: Mailbox) -> Receipt:
        durable = _is_written(posted) or await self._note_intent(posted)
        error = self._refused.result() if self._refused.done() else mailbox.write_error
        if error is None and not (durable and self._is_decided):
            error = StoreUnreachable(
                "the database has not answered yet; the server keeps trying to store the cancel, which also covers "
                "prompts that were sent before it"
            )
        return Receipt(
            self._mark,
            tuple(line.covered_run() for line in self._lines.values()),
            durable=durable,
            error=RunError(error.error_code, error.message) if error is not None else None,
        )

    async def _note_intent(self, posted: asyncio.Future[Any]) -> bool:
        """Note the cancel where it needs no space, until it is written."""
        intents, intent = self._engine_state.intents, self._intent
        if intents is None or intent is None or not await asyncio.to_thread(intents.note, intent):
            return False

        def forget(done: asyncio.Future[Any]) -> None:
            if _is_written(done):
                self._engine_state.forget_intents(intent)

        posted.add_done_callback(forget)
        return True


def _is_written(posted: asyncio.Future[Any]) -> bool:
    return posted.done() and not posted.cancelled() and posted.exception() is None


def _intent_of(command: CancelCommand | Delete, session_id: str, covered: Covered) -> CancelIntent | None:
    if not covered.runs or isinstance(command, Delete):
        return None
    if isinstance(command, CancelSession):
        return CancelIntent(session_id, mark=covered.mark)
    return CancelIntent(session_id, run_id=covered.runs[0].id)


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
        stopped=True,
    )
    return Receipt(mark, (line,))


def with_unended(receipt: Receipt, run: Run, *, stopped: bool) -> Receipt:
    """The receipt for a run whose lane cannot be loaded: a crash left it active, and its end cannot be written yet."""
    line = CoveredRun(
        run_id=run.id, session_id=run.session_id, was=run.state, ended_as=None, prompt=run.prompt, stopped=stopped
    )
    return replace(receipt, runs=(line,))


def _end_state(run: Run) -> EndState:
    match run.state:
        case "completed" | "cancelled" | "failed" | "interrupted":
            return run.state
        case state:
            raise AssertionError(f"run {run.id!r} is {state}; it has not ended")
