"""A run with all features is stopped at each of its awaits: by a cancel, by a shutdown, by its time limit.

Wherever the stop comes: the run has one end and complete messages, every call has a result, no usage is counted twice,
nothing is left open, and the next prompt is answered.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from holdfast.schema.messages import text_of
from holdfast.schema.runs import Run
from holdfast.schema.sessions import Workspace
from holdfast.schema.usage import Usage
from holdfast.store import Batch, open_store
from holdfast.store.writes import PutWorkspace
from tests.support.engine_harness import LONG_LIMITS, WORKSPACE, EngineHarness
from tests.support.eventful_run import check_record, check_results, eventful_model
from tests.support.interruption import InterruptedStore, InterruptedTurns, Interrupter
from tests.support.log_consistency import check_log_matches_tables
from tests.support.real_turns import turn_limits
from tests.support.stress import StressShare
from tests.support.wire_rules import check_every_wire

Stop = Literal["cancel", "server", "time"]

EXPECTED: dict[Stop, tuple[str, str, str]] = {
    "cancel": ("cancelled", "user_cancel", "cancelled"),
    "server": ("interrupted", "server_stop", "interrupted"),
    "time": ("failed", "limit_time", "limit"),
}


class StopTest:
    """Runs the same script many times on one store, each in a new session."""

    def __init__(self, store: InterruptedStore, directory: Path) -> None:
        self.store = store
        self.directory = directory
        self.sessions = 0
        self.harness: EngineHarness = self._new_harness()

    def _new_harness(self) -> EngineHarness:
        turns = InterruptedTurns(self.store, eventful_model(), self.directory)  # type: ignore[arg-type]
        turns.limits = turn_limits(max_steps=20, max_seconds=60)
        turns.approver.asking.add("alone")
        for gate in ("approval:z", "z"):
            turns.gates.open(gate)
        return EngineHarness(self.directory, self.store, turns=turns, limits=LONG_LIMITS)  # type: ignore[arg-type]

    @property
    def turns(self) -> InterruptedTurns:
        assert isinstance(self.harness.turns, InterruptedTurns)
        return self.harness.turns

    async def open(self) -> None:
        await self.harness.engine.open_workspace(WORKSPACE)

    async def reopen(self) -> None:
        """Start another engine on the same store."""
        self.harness.hub.close()
        self.harness = self._new_harness()
        await self.open()

    async def run(self, at: int | None, stop: Stop = "cancel") -> tuple[Run, Interrupter]:
        self.sessions += 1
        session_id = await self.harness.session(f"ses_{self.sessions}")
        actions = {"cancel": self._cancel, "server": self._stop_server, "time": self._expire_time_limit}
        interrupter = Interrupter(at, actions[stop])
        self.turns.model = eventful_model()
        self.store.interrupter = self.turns.interrupter = interrupter
        self.turns.totals.reported = Usage()
        self.turns.clock.limits.clear()
        accepted = await self.harness.accept("work", session_id=session_id)
        await asyncio.wait_for(self.harness.engine._state.end_waiters.expect(accepted.run.id), 20)
        if interrupter.acting is not None:
            await interrupter.acting
        self.store.interrupter = self.turns.interrupter = Interrupter()
        return await self.harness.engine.get_run(accepted.run.id), interrupter

    async def _cancel(self) -> None:
        self.receipt = await self.harness.engine.cancel_session(f"ses_{self.sessions}")

    async def _stop_server(self) -> None:
        await self.harness.engine.stop()

    async def _expire_time_limit(self) -> None:
        try:
            self.turns.clock.run_out(0)
        except (IndexError, RuntimeError):  # the turn has not begun, or is over
            self.turns.interrupter.release()

    async def close(self) -> None:
        await self.harness.close()


@asynccontextmanager
async def open_stop_test(directory: Path) -> AsyncIterator[StopTest]:
    store = await open_store(directory / "holdfast.db")
    await store.commit(Batch((PutWorkspace(Workspace(WORKSPACE, str(directory))),)))
    opened = StopTest(InterruptedStore(store), directory)
    await opened.open()
    try:
        yield opened
    finally:
        await opened.close()


async def check(test: StopTest, run: Run, stop: Stop, *, where: str | None) -> None:
    """Check a run that was stopped anywhere, or not at all."""
    harness, is_stopped = test.harness, where is not None
    if not (run.state == "completed" and run.text == "all done"):
        assert is_stopped
        assert (run.state, run.reason) == EXPECTED[stop][:2]
    sessions = (run.session_id, *await harness.store.descendants(run.session_id))
    for session_id in sessions:
        messages = await harness.messages(session_id)
        check_record(messages, "completed" if run.state == "completed" else EXPECTED[stop][2], own=run.session_id)
        check_results(messages, test.turns.tools, where)
    assert run.message_id is not None
    assert run.text == text_of((await harness.store.message(run.message_id)).parts)
    assert all(count == 1 for tool in harness.turns.tools.values() for count in tool.ran.values()), "a tool ran twice"  # type: ignore[attr-defined]
    assert test.turns.totals.open_streams == 0
    assert not (await harness.store.open_approvals()).items
    reported = test.turns.totals.reported
    if not run.usage.estimated:
        assert run.usage.input <= reported.input, "something was counted twice"
    if not is_stopped:
        assert run.usage == reported


async def check_next_prompt(test: StopTest, run: Run) -> None:
    """Check that the session takes the next prompt, with a request that every provider accepts."""
    model = test.turns.model = eventful_model()
    again = await test.harness.ended(await test.harness.accept("the next prompt", session_id=run.session_id))
    assert (again.state, again.text) == ("completed", "fine")
    check_every_wire(model.requests[-1])


async def stop_at_each(directory: Path, stop: Stop, places: Callable[[int], Iterable[int]]) -> Counter[str]:
    """Stop a run at some of its awaits. ``places`` chooses them when their number is known."""
    ends: Counter[str] = Counter()
    async with open_stop_test(directory) as opened:
        completed, interrupter = await opened.run(None)
        await check(opened, completed, stop, where=None)
        count = len(interrupter.points)
        for at in places(count):
            try:
                run, interrupter = await opened.run(at, stop)
                await check(opened, run, stop, where=interrupter.where)
                if stop == "server":
                    await opened.reopen()
                await check_next_prompt(opened, run)
                await opened.harness.quiet()
                assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("tool:")]
            except BaseException as error:
                error.add_note(f"{stop} at {at} of {count}: {interrupter.where!r}")
                raise
            ends[run.state] += 1
        await check_log_matches_tables(opened.harness.store)
    return ends


def every(step: int, *, offset: int = 0) -> Callable[[int], Iterable[int]]:
    return lambda count: range(offset, count, step)


@pytest.mark.promise("C5", "C6", "C7", "C8", "R7", "R8")
@pytest.mark.parametrize("offset", range(3))
async def test_a_cancel_at_any_await_leaves_complete_messages(tmp_path: Path, offset: int) -> None:
    ends = await stop_at_each(tmp_path, "cancel", every(9, offset=offset * 3))
    assert ends["cancelled"] > 10 * ends["completed"]


@pytest.mark.promise("R7", "R8", "W5")
async def test_a_shutdown_at_any_await_leaves_complete_messages(tmp_path: Path) -> None:
    ends = await stop_at_each(tmp_path, "server", every(11))
    assert ends["interrupted"] > 10 * ends["completed"]


@pytest.mark.promise("R7", "R12")
async def test_a_time_limit_at_any_await_leaves_complete_messages(tmp_path: Path) -> None:
    ends = await stop_at_each(tmp_path, "time", every(11, offset=5))
    assert ends["failed"] > 10 * ends["completed"]


@pytest.mark.stress(weight=2)
@pytest.mark.parametrize("stop", ["cancel", "server", "time"])
async def test_a_stop_at_every_await(tmp_path: Path, stop: Any, share: StressShare) -> None:
    ends = await stop_at_each(tmp_path, stop, lambda count: share.sample(range(count), what="awaits"))
    for state, number in ends.items():
        share.count(state, number)
