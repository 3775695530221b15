"""A recovery that cannot be written is retried, and meanwhile cancels, closes and stops work (`W5`, `W6`, `C1`)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.errors import StoreUnwritable
from holdfast.runs import IntentFile
from holdfast.runs.intent_file import CancelIntent, StopIntent
from holdfast.schema.runs import Queue
from holdfast.store import Batch, LaneRow
from holdfast.store import writes as w
from tests.runs.test_recovery import ends, lane, row, write_crashed_state
from tests.support.engine_harness import LONG_LIMITS, WORKSPACE, EngineHarness, open_harness

LIMITS = replace(LONG_LIMITS, unwritable_seconds=0.01, retry_first_seconds=1_000, retry_most_seconds=1_000)
"""Only a command causes a retry."""


async def write_crash(path: Path) -> None:
    await write_crashed_state(path, row("one", seq=1, state="active"), row("two", seq=2, state="queued"), lane(3))


def full(harness: EngineHarness) -> Any:
    store: Any = harness.store
    store.refuse()
    return store


@pytest.mark.promise("W6", "R5", "R14")
async def test_a_server_that_starts_on_a_full_disk_goes_on_when_there_is_space(tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    await write_crash(path)
    async with open_harness(path, open_workspace=False, controlled=True) as harness:
        store = full(harness)
        assert await harness.engine.recover() == 0
        await harness.engine.open_workspace(WORKSPACE)
        with pytest.raises(StoreUnwritable):
            await harness.accept("three")
        assert (await harness.store.run("one")).state == "active"
        store.refusing = None
        assert (await harness.ended("two")).state == "completed"
        assert (await harness.ended(await harness.accept("three"))).state == "completed"
        assert (await ends(harness))["one"] == [("interrupted", "server_crash")]


@pytest.mark.promise("W6", "R5")
async def test_a_session_that_cannot_be_recovered_does_not_keep_another_from_going_on(tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    await write_crash(path)
    async with open_harness(path, open_workspace=False, controlled=True) as harness:
        await harness.session("ses_2")
        queued = replace(row("other", seq=1, state="queued").run, session_id="ses_2")
        rows = (w.InsertRun(run=queued, body_hash="h", decision="queued"), w.SetLane(LaneRow("ses_2", next_seq=2)))
        await harness.store.commit(Batch(rows))
        store: Any = harness.store
        commit = store.commit

        async def refuse_ses_1(batch: Batch, *, until_known: bool = True) -> Any:
            if any(getattr(event, "session_id", "") == "ses_1" for event in batch.events):
                raise StoreUnwritable("the database cannot be written: disk full")
            return await commit(batch, until_known=until_known)

        store.commit = refuse_ses_1
        await harness.engine.recover()
        await harness.engine.open_workspace(WORKSPACE)
        assert (await harness.ended("other")).state == "completed"
        assert (await harness.ended(await harness.accept("more", session_id="ses_2"))).state == "completed"
        assert harness.engine.is_loading(WORKSPACE)
        assert not harness.engine.is_loading("wsp_other")
        store.commit = commit
        assert (await harness.ended("two")).state == "completed"
        await harness.quiet()
        assert not harness.engine.is_loading()


@pytest.mark.promise("C1", "C3")
async def test_cancels_of_a_session_that_cannot_be_recovered_are_noted(tmp_path: Path) -> None:
    path, intents = tmp_path / "own.db", IntentFile(tmp_path / "intents")
    await write_crash(path)
    async with open_harness(path, open_workspace=False, controlled=True, limits=LIMITS, intents=intents) as harness:
        full(harness)
        await harness.engine.recover()
        receipts = await asyncio.gather(
            harness.engine.cancel_session("ses_1"), harness.engine.cancel_run("two"), harness.engine.cancel_run("one")
        )
        lines = [[(line.run_id, line.was, line.ended_as, line.stopped) for line in one.runs] for one in receipts]
        assert lines == [
            [("two", "queued", None, True)],
            [("two", "queued", None, True)],
            [("one", "active", None, True)],
        ]
        assert [(one.durable, one.error is None) for one in receipts] == [(True, False), (True, False), (False, False)]
    left = await asyncio.to_thread(IntentFile(tmp_path / "intents").open)
    assert set(left) == {CancelIntent("ses_1", mark=2), CancelIntent("ses_1", run_id="two"), StopIntent()}
    async with open_harness(path, intents=IntentFile(tmp_path / "intents"), open_workspace=False) as harness:
        await harness.engine.recover()
        await harness.engine.open_workspace(WORKSPACE)
        assert await ends(harness) == {"two": [("cancelled", "user_cancel")], "one": [("cancelled", "user_cancel")]}
        assert harness.turns.started == []


@pytest.mark.promise("C1", "C3", "W5")
async def test_a_cancel_after_the_stop_is_noted_and_not_retried(tmp_path: Path) -> None:
    path, intents = tmp_path / "own.db", IntentFile(tmp_path / "intents")
    await write_crash(path)
    async with open_harness(path, open_workspace=False, controlled=True, intents=intents) as harness:
        full(harness)
        await harness.engine.recover()
        assert await harness.engine.stop() is False
        receipt = await harness.engine.cancel_session("ses_1")
        assert ([line.run_id for line in receipt.runs], receipt.durable) == (["two"], True)
        await harness.quiet()
        assert harness.engine._state.mailboxes == {}
    assert CancelIntent("ses_1", mark=2) in await asyncio.to_thread(IntentFile(tmp_path / "intents").open)


@pytest.mark.promise("W5")
async def test_a_second_stop_that_does_not_wait_leaves_a_note(tmp_path: Path) -> None:
    path, intents = tmp_path / "own.db", IntentFile(tmp_path / "intents")
    await write_crash(path)
    async with open_harness(path, open_workspace=False, controlled=True, intents=intents) as harness:
        store: Any = harness.store
        store.open.clear()
        recovering = asyncio.ensure_future(harness.engine.recover())
        await harness.until(lambda: store.held == 1)
        first, second = (asyncio.ensure_future(harness.engine.stop()) for _ in range(2))
        await harness.until(lambda: harness.engine._state.stopping)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await asyncio.to_thread(IntentFile(tmp_path / "intents").open) == (StopIntent(),)
        store.open.set()
        assert await second
        await recovering


@pytest.mark.promise("W5", "C1")
def test_a_stop_before_the_file_was_read_keeps_what_the_last_server_left(tmp_path: Path) -> None:
    left = CancelIntent("ses_1", mark=3)
    assert IntentFile(tmp_path / "intents").note(left)
    assert IntentFile(tmp_path / "intents").note(StopIntent())
    assert IntentFile(tmp_path / "intents").open() == (left, StopIntent())


@pytest.mark.promise("W5")
async def test_closing_a_workspace_holds_a_queue_whose_recovery_waits_for_space(tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    await write_crash(path)
    async with open_harness(path, open_workspace=False, controlled=True, limits=LIMITS) as harness:
        store = full(harness)
        await harness.engine.open_workspace(WORKSPACE)
        store.refusing = None
        await harness.engine.close_workspace(WORKSPACE)
        assert await harness.engine.queue("ses_1") == Queue("ses_1", run_ids=("two",), paused="server_stop")
        assert harness.turns.started == []
