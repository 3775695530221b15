"""One run that has the turn: the task that runs its `Turn`, from its start to the commit of its one end.

The driver counts its own cancels: the turn's task is cancelled only by a stop of the run, so a turn that comes back
cancelled without one has failed, and a cancel of the driver itself (the server goes down hard) always wins. Clean-up is
bounded: a turn that will not stop is left behind and named, and nothing it still tries is written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from holdfast.agent.protocol import Ending
from holdfast.agent.run_outcome import outcome_of
from holdfast.errors import Conflict, HoldfastError, StoreConflict, StoreUnwritable
from holdfast.runs.engine_state import EngineState
from holdfast.runs.lane.decisions import decide
from holdfast.runs.lane.ledger_batch import LaneState, Plan
from holdfast.runs.lane.protocol import End, RunFinished
from holdfast.runs.lane.state import StopWhy
from holdfast.runs.mailbox import Mailbox, Planner
from holdfast.runs.run_end import Care, end_details
from holdfast.runs.subagents import Children
from holdfast.runs.turn_handle import EngineTurnHandle
from holdfast.schema.runs import Now, Outcome, Run, RunError
from holdfast.schema.sessions import Session

_logger = logging.getLogger(__name__)


class Driver:
    def __init__(self, desk: EngineState, mailbox: Mailbox, run: Run, session: Session, *, depth: int) -> None:
        self.desk = desk
        self.mailbox = mailbox
        self.run = run
        """As it was when it started."""
        self.session = session
        self.depth = depth
        """How many runs are above it."""
        self.why: StopWhy | None = None
        self.doing = Now("starting", since=desk.now())
        self.killed: tuple[str, ...] = ()
        self.left_running: tuple[str, ...] = ()
        self.children = Children(desk, self)
        self._stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when its end is committed."""

    @property
    def is_over(self) -> bool:
        """Its end is committed."""
        return self.over.done()

    @property
    def now(self) -> Now:
        """What it is doing, also when that is waiting for the ledger (`R14`)."""
        if self.mailbox.stuck is not None:
            return Now("store", self.mailbox.stuck.message, self.doing.since)
        return self.doing

    def start(self) -> None:
        self.desk.drivers[self.run.id] = self
        self._task = self.desk.tasks.spawn(self._drive(), name=f"run:{self.run.id}")

    def stop(self, why: StopWhy) -> None:
        """Cancels the turn and its sub-agents. Once; the first reason counts."""
        if self.why is None and not self.is_over:
            self.why = why
            self.progress(Now("stopping", self.doing.what, self.desk.now()))
            self.children.stop(why)
            self._stop.set_result(None)

    def ended(self) -> None:
        """Its end is committed."""
        if not self.over.done():
            self.over.set_result(None)
        self.desk.drivers.pop(self.run.id, None)
        self.desk.hub.close_session(self.session.id)

    def progress(self, now: Now) -> None:
        if not self.is_over and (self.why is None or now.phase == "stopping"):
            self.doing = now
            self.desk.hub.report_progress(self.session.id, self.run.id, now)

    def report(self, *, killed: Sequence[str] = (), left_running: Sequence[str] = ()) -> None:
        self.killed = tuple(dict.fromkeys((*self.killed, *killed)))
        self.left_running = tuple(dict.fromkeys((*self.left_running, *left_running)))

    def reported(self, outcome: Outcome) -> Outcome:
        """With everything that was reported as left running on the way."""
        left = tuple(dict.fromkeys((*outcome.left_running, *self.left_running)))
        return replace(outcome, left_running=left)

    async def _drive(self) -> None:
        try:
            ending = await self._perform()
        except Exception as error:  # noqa: BLE001 - whatever is wrong, also with us, is this run's end
            ending = self._failed(error)
        if not self.is_over:
            await self.children.settle()
            await self._end(ending)

    async def _perform(self) -> Ending:
        """Runs the turn until it is over, or left behind."""
        turn = self.desk.turns.turn(self.run, self.session)
        task = self.desk.tasks.spawn(turn.run(EngineTurnHandle(self)), name=f"turn:{self.run.id}", may_fail=True)
        what_comes: tuple[asyncio.Future[Any], ...] = (task, self._stop, self.over)
        try:
            await asyncio.wait(what_comes, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await self._bring_to_an_end(task)
        except asyncio.CancelledError:
            task.cancel()
            raise
        return self._ending_of(task) if task.done() else Ending(_cut_off(self.why))

    async def _bring_to_an_end(self, task: asyncio.Task[Ending | None]) -> None:
        """After a stop at once; a turn that goes on after its run's end gets the same time before it is cancelled."""
        seconds = self.desk.bounds.stop_seconds * self.desk.bounds.child_stop_share**self.depth
        if self._stop.done():
            task.cancel()
        await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            task.cancel()
            self.report(left_running=(f"the turn of run {self.run.id}",))
            _logger.error("the turn of run %s did not stop within %.1f s; it is left behind", self.run.id, seconds)

    def _ending_of(self, task: asyncio.Task[Ending | None]) -> Ending:
        if task.cancelled():
            if self.why is not None:
                return Ending(_cut_off(self.why))
            return self._failed(RuntimeError("the turn was cancelled by something else than its run"))
        if (error := task.exception()) is not None:
            if self.why is None:
                return self._failed(error)
            _logger.warning("the turn of run %s failed while it stopped: %r", self.run.id, error)
            return Ending(_cut_off(self.why))
        ending = task.result()
        if ending is None and not self.is_over:
            return self._failed(RuntimeError("the turn returned without an end"))
        return ending or Ending(_cut_off(self.why))

    def _failed(self, error: BaseException) -> Ending:
        outcome = outcome_of(error)
        if not isinstance(error, HoldfastError):
            _logger.error("run %s failed", self.run.id, exc_info=error)
        return Ending(outcome)

    async def _end(self, ending: Ending) -> None:
        """Until it is written. What cannot be written as the turn gave it is written with less, never not at all."""
        attempts: list[Care] = ["whole", "whole", "closed", "closed", "bare"]
        delay = self.desk.bounds.retry_first_seconds
        while not self.is_over:
            care = attempts.pop(0) if len(attempts) > 1 else attempts[0]
            try:
                await self.mailbox.post(self._end_planner(ending, care=care), insists=True)
            except StoreUnwritable:
                return  # the server gave up on it while stopping; the next start's recovery ends the run
            except Conflict:
                self.ended()  # it does not have the turn any more: its end is written
            except Exception as error:
                if not isinstance(error, StoreConflict) or care == "bare":
                    _logger.exception("the end of run %s could not be written (%s)", self.run.id, care)
                if care == "bare":
                    await asyncio.sleep(delay)
                    delay = min(delay * 2, self.desk.bounds.retry_most_seconds)

    def _end_planner(self, ending: Ending, *, care: Care) -> Planner[None]:
        ending = replace(ending, outcome=self.reported(ending.outcome))

        async def plan(state: LaneState) -> Plan[None]:
            decision = decide(state.lane, End(self.run.id, ending.outcome))
            run = state.runs[self.run.id]
            ends = [change for change in decision.changes if isinstance(change, RunFinished)]
            end = next((change.state, change.reason) for change in ends if change.run_id == run.id)
            details = await end_details(self.desk, state, run=run, end=end, ending=ending, care=care)
            entry = self.desk.entry(state)
            entry.changes(decision.lane, decision.changes, ends={run.id: details})
            return entry.plan(decision.lane, None, changes=decision.changes)

        return plan


def _cut_off(why: StopWhy | None) -> Outcome:
    """What a stopped run's turn would have said; the lane has settled the end already, if the stop was written."""
    if why == "server_stop":
        return Outcome("interrupted", "server_stop")
    if why is not None:
        return Outcome("cancelled", why)
    return Outcome("failed", "internal", error=RunError("internal", "the turn did not come back"))
