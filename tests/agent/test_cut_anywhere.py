"""A run is stopped at every place where it waits: by a person, by the server's end, by its time limit.

The run thinks, calls tools side by side, waits for an approval, is retried, gets a summary and asks a sub-agent. At
each barrier the stop comes once. Whatever the place: one end, a whole record, every call answered, nothing counted
twice, nothing left open, and the next prompt is answered.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
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
from tests.support.wire_rules import check_every_wire

Stop = Literal["cancel", "server", "time"]

EXPECTED: dict[Stop, tuple[str, str, str]] = {
    "cancel": ("cancelled", "user_cancel", "cancelled"),
    "server": ("interrupted", "server_stop", "interrupted"),
    "time": ("failed", "limit_time", "limit"),
}


class Shop:
    """Many runs of the same script, each in a session of its own on one ledger."""

    def __init__(self, ledger: InterruptedStore, directory: Path) -> None:
        self.ledger = ledger
        self.directory = directory
        self.sessions = 0
        self.house: EngineHarness = self._house()

    def _house(self) -> EngineHarness:
        turns = InterruptedTurns(self.ledger, eventful_model(), self.directory)  # type: ignore[arg-type]
        turns.limits = turn_limits(max_steps=20, max_seconds=60)
        turns.approver.asking.add("alone")
        for gate in ("approval:z", "z"):
            turns.gates.open(gate)
        return EngineHarness(self.directory, self.ledger, turns=turns, limits=LONG_LIMITS)  # type: ignore[arg-type]

    @property
    def turns(self) -> InterruptedTurns:
        assert isinstance(self.house.turns, InterruptedTurns)
        return self.house.turns

    async def open(self) -> None:
        await self.house.engine.open_workspace(WORKSPACE)

    async def reopened(self) -> None:
        """Another server on the same ledger."""
        self.house.hub.close()
        self.house = self._house()
        await self.open()

    async def run(self, at: int | None, stop: Stop = "cancel") -> tuple[Run, Interrupter]:
        self.sessions += 1
        session_id = await self.house.session(f"ses_{self.sessions}")
        acts = {"cancel": self._cancel, "server": self._stop_server, "time": self._time_runs_out}
        interrupter = Interrupter(at, acts[stop])
        self.turns.model = eventful_model()
        self.ledger.interrupter = self.turns.interrupter = interrupter
        self.turns.totals.reported = Usage()
        self.turns.clock.limits.clear()
        accepted = await self.house.accept("work", session_id=session_id)
        await asyncio.wait_for(self.house.engine._state.end_waiters.expect(accepted.run.id), 20)
        if interrupter.acting is not None:
            await interrupter.acting
        self.ledger.interrupter = self.turns.interrupter = Interrupter()
        return await self.house.engine.get_run(accepted.run.id), interrupter

    async def _cancel(self) -> None:
        self.receipt = await self.house.engine.cancel_session(f"ses_{self.sessions}")

    async def _stop_server(self) -> None:
        await self.house.engine.stop()

    async def _time_runs_out(self) -> None:
        try:
            self.turns.clock.run_out(0)
        except (IndexError, RuntimeError):  # not begun, or over: its time cannot run out here
            self.turns.interrupter.release()

    async def close(self) -> None:
        await self.house.close()


@asynccontextmanager
async def shop(directory: Path) -> AsyncIterator[Shop]:
    store = await open_store(directory / "holdfast.db")
    await store.commit(Batch((PutWorkspace(Workspace(WORKSPACE, str(directory))),)))
    opened = Shop(InterruptedStore(store), directory)
    await opened.open()
    try:
        yield opened
    finally:
        await opened.close()


async def check(shop: Shop, run: Run, stop: Stop, *, where: str | None) -> None:
    """Everything that must hold for a run that was cut at any place, or not at all."""
    house, cut = shop.house, where is not None
    if not (run.state == "completed" and run.text == "all done"):
        assert cut
        assert (run.state, run.reason) == EXPECTED[stop][:2]
    sessions = (run.session_id, *await house.store.descendants(run.session_id))
    for session_id in sessions:
        messages = await house.messages(session_id)
        check_record(messages, "completed" if run.state == "completed" else EXPECTED[stop][2], own=run.session_id)
        check_results(messages, shop.turns.tools, where)
    assert run.message_id is not None
    assert run.text == text_of((await house.store.message(run.message_id)).parts)
    assert all(count == 1 for tool in house.turns.tools.values() for count in tool.ran.values()), "a tool ran twice"  # type: ignore[attr-defined]
    assert shop.turns.totals.open_streams == 0
    assert not (await house.store.open_approvals()).items
    told = shop.turns.totals.reported
    if not run.usage.estimated:
        assert run.usage.input <= told.input, "something was counted twice"
    if not cut:
        assert run.usage == told


async def check_next(shop: Shop, run: Run) -> None:
    """The session takes the next prompt, and what is sent is right for every wire."""
    model = shop.turns.model = eventful_model()
    again = await shop.house.ended(await shop.house.accept("the next prompt", session_id=run.session_id))
    assert (again.state, again.text) == ("completed", "fine")
    check_every_wire(model.requests[-1])


async def cut_at_each(directory: Path, stop: Stop, *, every: int, offset: int = 0) -> tuple[int, Counter[str]]:
    ends: Counter[str] = Counter()
    async with shop(directory) as opened:
        whole, interrupter = await opened.run(None)
        await check(opened, whole, stop, where=None)
        places = len(interrupter.points)
        for at in range(offset, places, every):
            try:
                run, interrupter = await opened.run(at, stop)
                await check(opened, run, stop, where=interrupter.where)
                if stop == "server":
                    await opened.reopened()
                await check_next(opened, run)
                await opened.house.quiet()
                assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("tool:")]
            except BaseException as error:
                error.add_note(f"{stop} at {at} of {places}: {interrupter.where!r}")
                raise
            ends[run.state] += 1
        await check_log_matches_tables(opened.house.store)
    return places, ends


@pytest.mark.promise("C5", "C6", "C7", "C8", "R7", "R8")
@pytest.mark.parametrize("offset", range(3))
async def test_a_cancel_at_any_place_leaves_a_whole_record(tmp_path: Path, offset: int) -> None:
    _, ends = await cut_at_each(tmp_path, "cancel", every=9, offset=offset * 3)
    assert ends["cancelled"] > 10 * ends["completed"]


@pytest.mark.promise("R7", "R8", "W5")
async def test_a_stop_of_the_server_at_any_place_leaves_a_whole_record(tmp_path: Path) -> None:
    _, ends = await cut_at_each(tmp_path, "server", every=11)
    assert ends["interrupted"] > 10 * ends["completed"]


@pytest.mark.promise("R7", "R12")
async def test_a_time_limit_at_any_place_leaves_a_whole_record(tmp_path: Path) -> None:
    _, ends = await cut_at_each(tmp_path, "time", every=11, offset=5)
    assert ends["failed"] > 10 * ends["completed"]


@pytest.mark.stress
@pytest.mark.timeout(900)
@pytest.mark.parametrize("stop", ["cancel", "server", "time"])
async def test_a_stop_at_every_single_place(tmp_path: Path, stop: Any) -> None:
    places, ends = await cut_at_each(tmp_path, stop, every=1)
    print(f"\n{stop} at each of {places} places: {dict(ends)}")
