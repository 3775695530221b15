"""The driver of an active run: it runs the turn as a task, stops it, and commits the run's single end.

Only a stop of the run cancels the turn's task. So a turn that is cancelled without a stop has failed, and a cancel of
the driver itself (the process is going down) is always raised. Clean-up is bounded: a turn that does not stop in time
is abandoned and named, and nothing that it tries to write later is accepted.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from msgspec.structs import replace

from holdfast.agent.protocol import Ending
from holdfast.agent.run_outcome import outcome_of, stopped_outcome
from holdfast.errors import CommitRefused, Conflict, HoldfastError, StoreConflict
from holdfast.runs.engine_state import ActiveRun, EngineState
from holdfast.runs.lane.commit_plan import CommitPlan, LaneState
from holdfast.runs.lane.decisions import decide
from holdfast.runs.lane.protocol import End, RunEnded
from holdfast.runs.mailbox import Planner
from holdfast.runs.run_end import EndContent, OpenParts, complete_ending, read_open_parts
from holdfast.runs.subagents import Subagents
from holdfast.runs.turn_handle import EngineTurnHandle
from holdfast.schema.runs import Ended, Outcome, RunError

_logger = logging.getLogger(__name__)

_END_ATTEMPTS: tuple[EndContent, ...] = ("everything", "everything", "stored_messages", "stored_messages", "end_only")
"""What the attempts to write an end contain. The last one is repeated."""


_STEPS_TO_RETURN = 4
"""Steps of the event loop in which nearly every turn returns after it learned that its end is committed."""


class Driver:
    def __init__(self, engine_state: EngineState, active: ActiveRun) -> None:
        self._engine_state = engine_state
        self._active = active
        self._run_id = active.run.id
        self._subagents = Subagents(engine_state, active)
        self._open_parts: asyncio.Task[OpenParts] | None = None

    def start(self) -> None:
        self._task = self._engine_state.tasks.spawn(self._drive(), name=f"run:{self._run_id}")

    async def _drive(self) -> None:
        try:
            self._active.announce()  # not when the run is made: its caller is answered first
            if not self._engine_state.turns_allowed.is_set():
                await self._wait_until_allowed()
            ending = await self._run_turn()
        except Exception as error:  # noqa: BLE001 - every error, also a bug of ours, ends this run
            ending = self._failed(error)
        if not self._active.has_ended:
            await self._subagents.stop()
            self._active.turn_over.set_result(None)
            await self._subagents.wait_for_ends()
            await self._commit_end(ending)

    async def _wait_until_allowed(self) -> None:
        """The start was being committed when the server had to stop its work. Wait until it may go on."""
        active = self._active
        allowed = asyncio.ensure_future(self._engine_state.turns_allowed.wait())
        try:
            await asyncio.wait(
                (allowed, active.stop_requested, active.end_committed), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            allowed.cancel()

    async def _run_turn(self) -> Ending:
        """Run the turn until it is over or abandoned."""
        active = self._active
        turn = self._engine_state.turns.turn(active.run, active.session)
        handle = EngineTurnHandle(self._engine_state, active, self._subagents)
        task = self._engine_state.tasks.spawn(turn.run(handle), name=f"turn:{self._run_id}", may_fail=True)
        if active.stop_reason is not None:
            task.cancel()
        active.turn_task = task
        signals: tuple[asyncio.Future[Any], ...] = (task, active.stop_requested, active.end_committed)
        try:
            await asyncio.wait(signals, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await self._stop_turn(task)
        except asyncio.CancelledError:
            task.cancel()
            raise
        return self._ending_of(task) if task.done() else Ending(self._cut_off())

    async def _stop_turn(self, task: asyncio.Task[Ending | None]) -> None:
        """A stop has cancelled the turn already. If it goes on after the run's end, give it time to return first."""
        for _ in range(_STEPS_TO_RETURN):
            await asyncio.sleep(0)
            if task.done():
                return
        limits = self._engine_state.limits
        seconds = limits.stop_seconds * limits.subagent_stop_share**self._active.depth
        await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            task.cancel()
            self._active.report(left_running=(f"the turn of run {self._run_id}",))
            _logger.error("the turn of run %s did not stop within %.1f s; it is abandoned", self._run_id, seconds)

    def _ending_of(self, task: asyncio.Task[Ending | None]) -> Ending:
        is_stopping = self._active.stop_reason is not None
        if task.cancelled():
            if is_stopping:
                return Ending(self._cut_off())
            return self._failed(RuntimeError("the turn was cancelled, but its run was not"))
        if (error := task.exception()) is not None:
            if not is_stopping:
                return self._failed(error)
            _logger.warning("the turn of run %s failed while it stopped: %r", self._run_id, error)
            return Ending(self._cut_off())
        ending = task.result()
        if ending is None and not self._active.has_ended:
            return self._failed(RuntimeError("the turn returned without an ending"))
        return ending or Ending(self._cut_off())

    def _failed(self, error: BaseException) -> Ending:
        outcome = outcome_of(error)
        if not isinstance(error, HoldfastError):
            _logger.error("run %s failed", self._run_id, exc_info=error)
        return Ending(outcome)

    def _cut_off(self) -> Outcome:
        """The outcome of a turn that returned none."""
        if self._active.stop_reason is not None:
            return stopped_outcome(self._active.stop_reason)
        return Outcome("failed", "internal", error=RunError("internal", "the turn did not return"))

    async def _commit_end(self, ending: Ending) -> None:
        """Retry until the end is written. If it cannot be written as the turn returned it, write less of it."""
        limits = self._engine_state.limits
        if not ending.closes_all:
            self._begin_reading()
        attempts = list(_END_ATTEMPTS)
        delay = limits.retry_first_seconds
        while not self._active.has_ended:
            content = attempts.pop(0) if len(attempts) > 1 else attempts[0]
            try:
                await self._active.mailbox.post_end(self._end_planner(ending, content=content))
            except CommitRefused:
                return  # the server stopped retrying; the recovery of the next start ends the run
            except Conflict:
                self._engine_state.remove_active_run(self._active)  # the run has lost the turn: its end is written
            except Exception as error:
                if not isinstance(error, StoreConflict) or content == "end_only":
                    _logger.exception("the end of run %s could not be written (%s)", self._run_id, content)
                if content == "end_only":
                    await asyncio.sleep(delay)
                    delay = min(delay * 2, limits.retry_most_seconds)

    def _begin_reading(self) -> None:
        """After a stop, read what the end must close while the stop is being written."""
        state, task = self._active.mailbox.state, self._active.turn_task
        if self._active.stop_reason is not None and state is not None and task is not None and task.done():
            reading = read_open_parts(self._engine_state, state, self._active.run)
            self._open_parts = self._engine_state.tasks.spawn(reading, name=f"end:{self._run_id}", may_fail=True)

    def _end_planner(self, ending: Ending, *, content: EndContent) -> Planner[Ended]:
        ending = replace(ending, outcome=self._active.with_left_running(ending.outcome))

        async def plan(state: LaneState) -> CommitPlan[Ended]:
            decision = decide(state.lane, End(self._run_id, ending.outcome))
            run = state.runs[self._run_id]
            ends = [change for change in decision.changes if isinstance(change, RunEnded)]
            end = next((change.state, change.reason) for change in ends if change.run_id == run.id)
            open_parts, self._open_parts = self._open_parts, None
            completed = await complete_ending(
                self._engine_state, state, run=run, end=end, ending=ending, content=content, open_parts=open_parts
            )
            return self._engine_state.plan_decision(state, decision, endings={run.id: completed})

        return plan
