"""Jobs, todos, file reads, call outputs, snapshots, stored responses and statistics."""

import pytest
from msgspec.structs import replace

from holdfast.errors import StoreConflict
from holdfast.schema.sessions import Job, Todo
from holdfast.schema.usage import ToolRow, Usage, UsageRow
from holdfast.store import Batch, CallOutput, FileSnapshot, Store, StoredResponse
from holdfast.store import writes as w
from tests.store.batches import AT


async def test_a_job_is_inserted_and_replaced_by_id(ledger: Store) -> None:
    job = Job("job_1", "wsp_1", "ses_1", "run_1", "sleep 9")
    await ledger.commit(Batch((w.PutJob(job), w.PutJob(replace(job, id="job_2", workspace_id="wsp_2")))))
    ended = replace(job, state="exited", exit_code=0)
    await ledger.commit(Batch((w.PutJob(ended),)))
    assert await ledger.job("job_1") == ended
    assert [found.id for found in (await ledger.jobs(running=True)).items] == ["job_2"]
    assert (await ledger.jobs(workspace_id="wsp_1")).items == (ended,)


async def test_the_latest_todos_reads_and_outputs_are_returned(ledger: Store) -> None:
    assert await ledger.todos("ses_1") == ()
    assert await ledger.read_hash("ses_1", "/f") is None
    for n in ("1", "2"):
        await ledger.commit(
            Batch(
                (
                    w.PutTodos("ses_1", (Todo(n),)),
                    w.RecordRead(session_id="ses_1", path="/f", content_hash=n),
                    w.PutCallOutput(CallOutput("call_1", "ses_1", f"/out/{n}", int(n))),
                )
            )
        )
    assert await ledger.todos("ses_1") == (Todo("2"),)
    assert await ledger.read_hash("ses_1", "/f") == "2"
    assert await ledger.call_output("call_1") == CallOutput("call_1", "ses_1", "/out/2", 2)


async def test_snapshots_are_numbered_and_change_only_from_the_expected_state(ledger: Store) -> None:
    first = FileSnapshot("snp_1", "ses_1", "run_1", "/a", before=None, after="h1")
    second = FileSnapshot("snp_2", "ses_1", "run_1", "/b", before="h1", after="h2")
    committed = await ledger.commit(Batch((w.PutSnapshot(first), w.PutSnapshot(second))))
    assert committed.seqs == {"snp_1": 1, "snp_2": 2}
    undo = w.MoveSnapshot(snapshot_id="snp_2", expect="applied", state="undone")
    await ledger.commit(Batch((undo,)))
    with pytest.raises(StoreConflict):
        await ledger.commit(Batch((undo,)))
    found = await ledger.snapshots("ses_1")
    assert [(snapshot.id, snapshot.state, snapshot.seq) for snapshot in found] == [
        ("snp_1", "applied", 1),
        ("snp_2", "undone", 2),
    ]
    assert [snapshot.id for snapshot in await ledger.snapshots("ses_1", path="/b")] == ["snp_2"]
    assert await ledger.known_contents(["h1", "h2", "h3"]) == {"h1", "h2"}


async def test_a_stored_response_is_kept_until_it_is_pruned(ledger: Store) -> None:
    answer = StoredResponse("key", "hash", 201, b"{}", AT)
    await ledger.commit(Batch((w.PutResponse(answer),)))
    assert await ledger.stored_response("key") == answer
    with pytest.raises(StoreConflict):
        await ledger.commit(Batch((w.PutResponse(replace(answer, body=b"other")),)))
    assert await ledger.prune_responses(before=AT) == 0
    assert await ledger.prune_responses(before="2026-01-02") == 1
    assert await ledger.stored_response("key") is None


async def test_statistics_are_summed_by_day_and_model_and_outlive_their_session(ledger: Store) -> None:
    usage = Usage(input=1, output=2, cache_read=3, cache_write=4, cost=0.5)
    for day, model, estimated in (("2026-01-01", "m", False), ("2026-01-01", "m", True), ("2026-01-02", "n", False)):
        spent = replace(usage, estimated=estimated)
        add = w.AddUsage(session_id="ses_1", day=day, model=model, usage=spent, runs=1, steps=2)
        await ledger.commit(Batch((add, w.AddToolUse(day=day, tool="bash", failed=1))))
    await ledger.commit(Batch((w.DeleteSession("ses_1", AT),)))
    both = UsageRow("2026-01-01", "m", replace(usage + usage, estimated=True), runs=2, steps=4)
    other = UsageRow("2026-01-02", "n", usage, runs=1, steps=2)
    assert await ledger.usage_stats(since="2026-01-01", until="2026-01-02") == (both, other)
    assert await ledger.usage_stats(since="2026-01-02", until="2026-12-31") == (other,)
    assert await ledger.tool_stats(since="2026-01-01", until="2026-01-01") == (ToolRow("2026-01-01", "bash", 2, 2),)
