"""Runs and lanes."""

import asyncio

import pytest
from msgspec.structs import replace

from holdfast.errors import StoreConflict
from holdfast.schema.messages import Text, ToolCall
from holdfast.schema.runs import Outcome, Run
from holdfast.schema.usage import Usage
from holdfast.store import Batch, LaneRow, Store, apply_run_write
from holdfast.store import writes as w
from tests.store.batches import (
    AT,
    DONE,
    a_message,
    a_run,
    accept,
    end,
    new_session,
    new_workspace,
)


async def test_a_known_run_id_or_seq_is_a_conflict(ledger: Store) -> None:
    await ledger.commit(accept(a_run()))
    with pytest.raises(StoreConflict):
        await ledger.commit(accept(a_run(seq=2)))
    with pytest.raises(StoreConflict):
        await ledger.commit(accept(a_run("run_2", seq=1)))


@pytest.mark.promise("R7")
async def test_a_run_ends_once(ledger: Store) -> None:
    run = a_run()
    await ledger.commit(accept(run))
    await ledger.commit(end(run))
    failed = Outcome(state="failed", reason="internal")
    with pytest.raises(StoreConflict, match="run 'run_1' is completed"):
        await ledger.commit(end(run, failed))
    ended = await ledger.run("run_1")
    assert (ended.state, ended.reason, ended.text) == ("completed", "end_turn", "done")
    kinds = [event.kind for event in (await ledger.events_after(0, upto=ledger.last_number)).events]
    assert kinds.count("run.finished") == 1


@pytest.mark.promise("R7")
async def test_the_first_of_two_concurrent_ends_wins(ledger: Store) -> None:
    run = a_run()
    await ledger.commit(accept(run))
    cancelled = Outcome(state="cancelled", reason="user_cancel")
    results = await asyncio.gather(ledger.commit(end(run)), ledger.commit(end(run, cancelled)), return_exceptions=True)
    assert [isinstance(result, StoreConflict) for result in results] == [False, True]
    assert (await ledger.run("run_1")).state == "completed"


async def test_an_ended_run_cannot_be_updated(ledger: Store) -> None:
    run = a_run()
    await ledger.commit(accept(run))
    await ledger.commit(end(run))
    with pytest.raises(StoreConflict):
        await ledger.commit(Batch((w.UpdateRun(run_id="run_1", prompt="other"),)))


@pytest.mark.promise("R4")
async def test_a_second_active_run_is_a_conflict(ledger: Store) -> None:
    await ledger.commit(accept(a_run("run_1", seq=1, state="active")))
    with pytest.raises(StoreConflict):
        await ledger.commit(accept(a_run("run_2", seq=2, state="active")))
    await ledger.commit(accept(a_run("run_2", seq=2)))
    with pytest.raises(StoreConflict):
        await ledger.commit(Batch((w.UpdateRun(run_id="run_2", state="active"),)))
    hand_over = (
        w.EndRun(run_id="run_1", outcome=DONE, finished_at=AT),
        w.UpdateRun(run_id="run_2", expect=("queued",), state="active", started_at=AT),
    )
    await ledger.commit(Batch(hand_over))
    assert (await ledger.run("run_2")).state == "active"


async def test_only_the_given_fields_of_a_run_change_and_apply_run_write_agrees(ledger: Store) -> None:
    run = replace(a_run(), model="a/b", arguments={"k": [1]})
    await ledger.commit(accept(run))
    update = w.UpdateRun(run_id="run_1", state="active", started_at=AT, usage=Usage(input=3), reason=None)
    await ledger.commit(Batch((update,)))
    assert await ledger.run("run_1") == apply_run_write(run, update)
    finish = w.EndRun(run_id="run_1", outcome=DONE, finished_at=AT, steps=2)
    await ledger.commit(Batch((finish,)))
    ended = await ledger.run("run_1")
    assert ended == apply_run_write(apply_run_write(run, update), finish)
    assert (ended.model, ended.usage, ended.steps, ended.finished_at) == ("a/b", Usage(input=3), 2, AT)


@pytest.mark.promise("R3")
async def test_a_run_record_has_the_first_decision_and_the_current_run(ledger: Store) -> None:
    insert = w.InsertRun(run=a_run(), body_hash="first", decision="steered", position=None, host_run_id="run_0")
    await ledger.commit(Batch((insert,)))
    await ledger.commit(Batch((w.UpdateRun(run_id="run_1", rank=7),)))
    record = await ledger.run_record("run_1")
    assert record is not None
    assert (record.body_hash, record.decision, record.host_run_id) == ("first", "steered", "run_0")
    assert (record.run.rank, record.deleted, record.workspace_id) == (7, False, "wsp_1")
    assert await ledger.run_record("run_2") is None


async def test_a_lane_record_has_its_row_and_its_unfinished_runs_in_order(ledger: Store) -> None:
    runs = [a_run(f"run_{n}", seq=n) for n in (1, 2, 3)]
    for run in reversed(runs):
        await ledger.commit(accept(run))
    await ledger.commit(end(runs[1]))
    row = LaneRow("ses_1", next_seq=4, mark=2, hold="user", last_end="failed", lifecycle="closed")
    await ledger.commit(Batch((w.SetLane(row),)))
    lane = await ledger.lane("ses_1")
    assert (lane.lane, lane.workspace_id) == (row, "wsp_1")
    assert lane.runs == (runs[0], runs[2])


async def test_a_new_session_has_an_empty_lane(ledger: Store) -> None:
    assert (await ledger.lane("ses_1")).lane == LaneRow("ses_1")


async def test_unfinished_runs_of_a_workspace_or_of_all(ledger: Store) -> None:
    await ledger.commit(new_workspace("wsp_2"))
    await ledger.commit(new_session("ses_2", workspace_id="wsp_2"))
    await ledger.commit(accept(a_run("run_1")))
    await ledger.commit(accept(a_run("run_2", session_id="ses_2")))
    await ledger.commit(accept(a_run("run_3", session_id="ses_2", seq=2)))
    await ledger.commit(end(a_run("run_3", session_id="ses_2", seq=2)))
    assert [run.id for run in await ledger.unfinished_runs()] == ["run_1", "run_2"]
    assert [run.id for run in await ledger.unfinished_runs(workspace_id="wsp_2")] == ["run_2"]
    assert [run.id for run in await ledger.unfinished_runs(session_id="ses_1")] == ["run_1"]


async def test_runs_are_paged_newest_first_and_by_state(ledger: Store) -> None:
    for n in range(1, 6):
        await ledger.commit(accept(a_run(f"run_{n}", seq=n)))
    await ledger.commit(end(a_run("run_4", seq=4)))
    first = await ledger.runs("ses_1", limit=2)
    assert ([run.id for run in first.items], first.next) == (["run_5", "run_4"], 4)
    rest = await ledger.runs("ses_1", limit=9, before=first.next)
    assert ([run.id for run in rest.items], rest.next) == (["run_3", "run_2", "run_1"], None)
    queued = await ledger.runs("ses_1", limit=9, states=["queued", "active"])
    assert [run.id for run in queued.items] == ["run_5", "run_3", "run_2", "run_1"]


async def test_runs_and_messages_are_stored_unchanged(ledger: Store) -> None:
    run = Run(
        id="run_1",
        session_id="ses_1",
        seq=1,
        prompt="Grüße \u0000 😀",
        arguments={"a": [1, None, {"b": "\n"}]},
        output_schema={"type": "object"},
    )
    await ledger.commit(accept(run))
    assert await ledger.run("run_1") == run
    message = a_message("msg_1", Text("a\u2028b\u0000"), ToolCall("c", "n", {"x": {"y": [True]}}), role="assistant")
    await ledger.commit(Batch((w.PutMessage(message),)))
    assert await ledger.message("msg_1") == replace(message, seq=1)
