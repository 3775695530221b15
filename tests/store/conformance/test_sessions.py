"""Workspaces and sessions, and what remains of a deleted session."""

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.errors import Gone, NotFound, StoreConflict
from holdfast.schema.approvals import Grant
from holdfast.schema.events import (
    ApprovalResolved,
    FileChanged,
    MessageFinished,
    QueueChanged,
    SessionDeleted,
)
from holdfast.schema.messages import Text
from holdfast.schema.runs import Queue
from holdfast.schema.sessions import IdMatch, Todo, Workspace
from holdfast.schema.usage import Usage
from holdfast.store import Batch, CallOutput, FileSnapshot, LaneRow, Store
from holdfast.store import writes as w
from tests.store.batches import AT, DONE, a_message, a_run, accept, an_approval, end, new_session, new_workspace, says
from tests.store.conftest import Reopen


async def test_a_path_belongs_to_one_workspace(store: Store) -> None:
    await store.commit(new_workspace())
    trusted = Workspace(id="wsp_1", path="/at/wsp_1", trusted=True)
    await store.commit(Batch((w.PutWorkspace(trusted),)))
    with pytest.raises(StoreConflict):
        await store.commit(Batch((w.PutWorkspace(Workspace(id="wsp_2", path="/at/wsp_1")),)))
    assert await store.workspaces() == (trusted,)
    assert await store.workspace_at("/at/wsp_1") == await store.workspace("wsp_1") == trusted
    assert await store.workspace_at("/elsewhere") is None
    with pytest.raises(NotFound):
        await store.workspace("wsp_2")


async def test_a_session_is_inserted_with_its_lane(store: Store) -> None:
    await store.commit(new_workspace())
    (put,) = new_session().writes
    assert isinstance(put, w.PutSession)
    row = LaneRow("ses_1", next_seq=3, mark=1, hold="paused", last_end="failed")
    await store.commit(Batch((replace(put, lane=row),)))
    assert (await store.lane("ses_1")).lane == row


async def test_a_new_session_cannot_take_the_message_of_another(ledger: Store) -> None:
    await ledger.commit(says("msg_1", "mine"))
    made, stolen = new_session("ses_2"), says("msg_1", "stolen", session_id="ses_2")
    with pytest.raises(StoreConflict):
        await ledger.commit(Batch((*made.writes, *stolen.writes), made.events))
    with pytest.raises(NotFound):
        await ledger.session("ses_2")
    assert (await ledger.message("msg_1")).session_id == "ses_1"


async def test_sessions_are_paged_with_the_last_prompted_first(ledger: Store) -> None:
    for n in range(2, 6):
        await ledger.commit(new_session(f"ses_{n}"))
    await ledger.commit(accept(a_run("run_1", session_id="ses_2")))
    first = await ledger.sessions("wsp_1", limit=2)
    assert [session.id for session in first.items] == ["ses_2", "ses_5"]
    rest = await ledger.sessions("wsp_1", limit=9, before=first.next)
    assert ([session.id for session in rest.items], rest.next) == (["ses_4", "ses_3", "ses_1"], None)


async def test_sessions_are_filtered_by_title_archive_and_parent(ledger: Store) -> None:
    await ledger.commit(new_session("ses_2", title="Straße und Brücke"))
    await ledger.commit(new_session("ses_3", title="other", parent_id="ses_2"))
    await ledger.commit(Batch((w.UpdateSession(session_id="ses_1", archived=True, title="100% STRASSE"),)))

    async def ids(**filters: object) -> list[str]:
        page = await ledger.sessions("wsp_1", limit=9, **filters)  # type: ignore[arg-type]
        return [session.id for session in page.items]

    assert await ids() == ["ses_2"]
    assert await ids(q="strasse") == ["ses_2"]
    assert await ids(q="strasse", archived=None) == ["ses_2", "ses_1"]
    assert await ids(q="100%", archived=True) == ["ses_1"]
    assert await ids(q="%") == []
    assert await ids(parent_id="ses_2") == ["ses_3"]


async def test_a_session_shows_busy_and_the_number_of_queued_runs(ledger: Store) -> None:
    await ledger.commit(accept(a_run("run_1", seq=1, state="active")))
    await ledger.commit(accept(a_run("run_2", seq=2)))
    await ledger.commit(accept(a_run("run_3", seq=3)))
    session = await ledger.session("ses_1")
    assert (session.busy, session.queued) == (True, 2)
    for n in (1, 2, 3):
        await ledger.commit(end(a_run(f"run_{n}", seq=n)))
    session = await ledger.session("ses_1")
    assert (session.busy, session.queued) == (False, 0)


async def test_only_the_given_fields_of_a_session_change(ledger: Store) -> None:
    await ledger.commit(Batch((w.UpdateSession(session_id="ses_1", title="New", updated_at="later"),)))
    await ledger.commit(Batch((w.UpdateSession(session_id="ses_1", archived=True),)))
    await ledger.commit(Batch((w.AddUsage(session_id="ses_1", day="2026-01-01", model="m", usage=Usage(input=2)),)))
    session = await ledger.session("ses_1")
    assert (session.title, session.archived, session.updated_at, session.usage.input) == ("New", True, "later", 2)
    assert session.created_at == AT


async def test_unknown_ids_are_not_found(ledger: Store) -> None:
    asked = [
        ledger.session("x"),
        ledger.run("x"),
        ledger.lane("x"),
        ledger.message("x"),
        ledger.messages("x", limit=1),
        ledger.messages_since_summary("x"),
        ledger.runs("x", limit=1),
        ledger.approval("x"),
        ledger.question("x"),
        ledger.job("x"),
        ledger.call_output("x"),
    ]
    for answer in asked:
        with pytest.raises(NotFound, match="'x'"):
            await answer


async def _filled(store: Store) -> None:
    """A session and a sub-agent's session with a record of every kind."""
    await store.commit(new_session("ses_2", parent_id="ses_1", title="private"))
    for n, session_id in ((1, "ses_1"), (2, "ses_2")):
        run = replace(a_run(f"run_{n}", session_id=session_id), prompt="private prompt")
        await store.commit(accept(run, body_hash=f"hash_{n}"))
        await store.commit(says(f"msg_{n}", "private text", session_id=session_id))
        await store.commit(end(run, replace(DONE, text="private answer")))
        snapshot = FileSnapshot(f"snp_{n}", session_id, run.id, "/private", before="old", after="new")
        await store.commit(
            Batch(
                (
                    w.PutTodos(session_id, (Todo("private"),)),
                    w.RecordRead(session_id=session_id, path="/private", content_hash="h"),
                    w.PutCallOutput(CallOutput(f"call_{n}", session_id, "/out")),
                    w.PutSnapshot(snapshot),
                    w.OpenApproval(an_approval(f"apr_{n}", session_id=session_id)),
                    w.AddGrant(Grant(f"grant_{n}", "wsp_1", "rule", session_id=session_id)),
                )
            )
        )


@pytest.mark.promise("E8", "R9", "R3")
async def test_only_ids_hashes_and_ends_of_runs_remain_of_a_deleted_session(reopen: Reopen) -> None:
    store = await reopen()
    await store.commit(new_workspace())
    await store.commit(new_session())
    await _filled(store)
    before = store.last_number
    gone = Batch((w.DeleteSession("ses_1", AT),), (SessionDeleted(at=AT, session_id="ses_1"),))
    await store.commit(gone)
    store = await reopen()
    for session_id, run_id in (("ses_1", "run_1"), ("ses_2", "run_2")):
        with pytest.raises(Gone):
            await store.session(session_id)
        with pytest.raises(Gone):
            await store.messages(session_id, limit=1)
        with pytest.raises(Gone):
            await store.run(run_id)
        record = await store.run_record(run_id)
        assert record is not None
        assert (record.deleted, record.run.state, record.run.reason) == (True, "completed", "end_turn")
        assert record.body_hash == run_id.replace("run", "hash")
        assert b"private" not in msgspec.json.encode(record.run)
        assert await store.todos(session_id) == ()
        assert await store.snapshots(session_id) == ()
        assert await store.read_hash(session_id, "/private") is None
        assert await store.grants("wsp_1", session_id=session_id) == ()
    assert await store.search("private") == ()
    assert (await store.open_approvals()).items == ()
    assert (await store.sessions("wsp_1", limit=9)).items == ()
    assert await store.known_contents(["old", "new"]) == frozenset()
    left = (await store.events_after(0, upto=store.last_number)).events
    assert [(event.number, event.kind) for event in left] == [(before + 1, "session.deleted")]


@pytest.mark.promise("E8")
async def test_deleting_a_session_with_an_unfinished_run_is_a_conflict(ledger: Store) -> None:
    await ledger.commit(new_session("ses_2", parent_id="ses_1"))
    await ledger.commit(accept(a_run(session_id="ses_2")))
    with pytest.raises(StoreConflict, match="run_1"):
        await ledger.commit(Batch((w.DeleteSession("ses_1", AT),)))
    assert (await ledger.session("ses_1")).id == "ses_1"


@pytest.mark.promise("E8")
async def test_events_of_a_deleting_commit_have_no_text(ledger: Store) -> None:
    run = a_run(state="active", prompt="private prompt")
    await ledger.commit(accept(run))
    message = a_message("msg_1", Text("private text"))
    approval = replace(an_approval("apr_1"), title="private command", state="cancelled")
    last = w.EndRun(run_id="run_1", outcome=replace(DONE, text="private answer"), finished_at=AT)
    finished = end(run, replace(DONE, text="private answer")).events
    batch = Batch(
        (w.PutMessage(message), last, w.DeleteSession("ses_1", AT), w.SetLane(LaneRow("ses_1", lifecycle="deleted"))),
        (
            MessageFinished(at=AT, session_id="ses_1", message=message),
            ApprovalResolved(at=AT, session_id="ses_1", approval=approval),
            FileChanged(at=AT, session_id="ses_1", run_id="run_1", path="/p", change="modified", diff="private diff"),
            *finished,
            QueueChanged(at=AT, session_id="ses_1", queue=Queue("ses_1")),
            SessionDeleted(at=AT, session_id="ses_1"),
        ),
    )
    committed = await ledger.commit(batch)
    assert [event.kind for event in committed.events][-3:] == ["run.finished", "queue.changed", "session.deleted"]
    page = await ledger.events_after(0, upto=ledger.last_number)
    assert [event.body for event in page.events if b"private" in event.body] == []


async def test_writing_to_a_deleted_session_is_a_conflict(ledger: Store) -> None:
    await ledger.commit(Batch((w.DeleteSession("ses_1", AT),)))
    for write in (
        w.PutMessage(a_message()),
        w.InsertRun(run=a_run(), body_hash="", decision="queued"),
        w.UpdateSession(session_id="ses_1", title="x"),
        w.PutTodos("ses_1", ()),
        w.DeleteSession("ses_1", AT),
    ):
        with pytest.raises(StoreConflict, match="deleted"):
            await ledger.commit(Batch((write,)))


async def test_a_fork_is_not_deleted_with_its_origin(ledger: Store) -> None:
    batch = new_session("ses_2")
    (put,) = batch.writes
    assert isinstance(put, w.PutSession)
    await ledger.commit(Batch((w.PutSession(replace(put.session, forked_from="ses_1")),)))
    await ledger.commit(Batch((w.DeleteSession("ses_1", AT),)))
    assert (await ledger.session("ses_2")).forked_from == "ses_1"


async def test_ids_are_found_by_their_beginning(ledger: Store) -> None:
    await ledger.commit(accept(a_run("run_ab1")))
    await ledger.commit(accept(a_run("run_ab2", seq=2)))
    await ledger.commit(says("msg_1", "hello"))
    assert await ledger.find_ids("run_a") == (IdMatch("run", "run_ab1"), IdMatch("run", "run_ab2"))
    assert await ledger.find_ids("run_a", limit=1) == (IdMatch("run", "run_ab1"),)
    assert await ledger.find_ids("run_ab2") == (IdMatch("run", "run_ab2"),)
    assert await ledger.find_ids("ses_", kinds=("session",)) == (IdMatch("session", "ses_1"),)
    assert await ledger.find_ids("msg_") == (IdMatch("message", "msg_1"),)
    assert await ledger.find_ids("run_", kinds=("job", "approval", "question")) == ()


async def test_an_id_that_is_the_beginning_of_another_is_found_alone_and_deleted_ones_are_not(ledger: Store) -> None:
    await ledger.commit(new_session("ses_12"))
    assert await ledger.find_ids("ses_1") == (IdMatch("session", "ses_1"),)
    await ledger.commit(Batch((w.DeleteSession("ses_1", AT),)))
    assert await ledger.find_ids("ses_1") == (IdMatch("session", "ses_12"),)
