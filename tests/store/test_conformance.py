"""What any ledger promises, whichever database it stands on."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.errors import Gone, NotFound, StoreConflict
from holdfast.schema.approvals import Approval, Grant, Question, QuestionItem
from holdfast.schema.events import (
    ApprovalResolved,
    ConfigChanged,
    FileChanged,
    MessageFinished,
    MessageUpdated,
    QueueChanged,
    SessionDeleted,
    read_event,
)
from holdfast.schema.messages import Finish, Reasoning, Summary, Text, ToolCall
from holdfast.schema.runs import Outcome, Queue, Run
from holdfast.schema.sessions import Job, Todo, Workspace
from holdfast.schema.usage import ToolRow, Usage, UsageRow
from holdfast.store import Batch, CallOutput, FileSnapshot, LaneRow, LoggedEvent, Store, StoredResponse, apply_run_write
from holdfast.store import writes as w
from tests.store.batches import AT, DONE, a_message, a_run, accept, end, new_session, new_workspace, says

Reopen = Callable[[], Awaitable[Store]]


@pytest.fixture
async def ledger(store: Store) -> Store:
    """With one workspace and one session."""
    await store.commit(new_workspace())
    await store.commit(new_session())
    return store


async def numbers(store: Store, **filters: str) -> list[int]:
    page = await store.events_after(0, upto=store.last_number, limit=1000, **filters)
    return [event.number for event in page.events]


# Commits


@pytest.mark.promise("R1")
async def test_what_was_committed_is_there_after_reopening(reopen: Reopen) -> None:
    store = await reopen()
    await store.commit(new_workspace())
    await store.commit(new_session(title="Plans"))
    await store.commit(accept(a_run(prompt="hello")))
    log_id, last = store.log_id, store.last_number
    store = await reopen()
    assert (await store.run("run_1")).prompt == "hello"
    assert (await store.session("ses_1")).title == "Plans"
    assert (store.log_id, store.last_number) == (log_id, last)


@pytest.mark.promise("R14")
async def test_a_batch_that_conflicts_leaves_nothing_behind(ledger: Store) -> None:
    await ledger.commit(accept(a_run()))
    before = ledger.last_number
    message = a_message("msg_1", Text("hi"))
    late = Batch(
        (w.PutMessage(message), w.UpdateRun(run_id="run_1", expect=("active",), state="stopping")),
        (MessageUpdated(at=AT, session_id="ses_1", message=message),),
    )
    with pytest.raises(StoreConflict, match="run 'run_1' is queued, not active"):
        await ledger.commit(late)
    assert (await ledger.messages("ses_1", limit=10)).items == ()
    assert ledger.last_number == before
    assert (await numbers(ledger))[-1] == before


@pytest.mark.promise("E1")
async def test_numbers_grow_by_one_in_commit_order_and_conflicts_leave_no_gap(ledger: Store) -> None:
    batches = [says(f"msg_{n}", "x") for n in range(20)]
    batches.insert(7, end(a_run("run_unknown")))
    results = await asyncio.gather(*(ledger.commit(batch) for batch in batches), return_exceptions=True)
    assert [type(result) for result in results if isinstance(result, BaseException)] == [StoreConflict]
    given = [number for result in results if not isinstance(result, BaseException) for number in result.numbers]
    assert given == list(range(2, 22))
    assert await numbers(ledger) == list(range(1, 22))


@pytest.mark.promise("E1")
async def test_numbers_never_go_back_even_when_the_last_events_are_removed(reopen: Reopen) -> None:
    store = await reopen()
    await store.commit(new_workspace())
    await store.commit(new_session())
    await store.commit(says("msg_1", "x"))
    await store.prune_events(before="2027-01-01T00:00:00.000Z")
    assert await numbers(store) == []
    store = await reopen()
    assert store.last_number == 2
    assert (await store.commit(says("msg_2", "x"))).numbers == (3,)


async def test_a_conflict_does_not_hurt_batches_that_are_committed_with_it(ledger: Store) -> None:
    good = [accept(a_run(f"run_{n}", seq=n)) for n in range(1, 30)]
    bad = [accept(a_run(f"run_x{n}", seq=n)) for n in range(1, 30)]
    mixed = [batch for pair in zip(good, bad, strict=True) for batch in pair]
    results = await asyncio.gather(*(ledger.commit(batch) for batch in mixed), return_exceptions=True)
    assert [isinstance(result, StoreConflict) for result in results] == [False, True] * 29
    assert len((await ledger.runs("ses_1", limit=100)).items) == 29


async def test_listeners_hear_each_commit_once_in_order_before_its_caller_goes_on(ledger: Store) -> None:
    heard: list[int] = []

    def listen(events: tuple[LoggedEvent, ...]) -> None:
        heard.extend(event.number for event in events)

    stop = ledger.listen(listen)

    async def commit(batch: Batch) -> None:
        committed = await ledger.commit(batch)
        assert heard[-1] >= committed.numbers[-1]

    await asyncio.gather(*(commit(says(f"msg_{n}", "x")) for n in range(50)))
    assert heard == list(range(2, 52))
    stop()
    await ledger.commit(says("msg_last", "x"))
    assert heard[-1] == 51


async def test_a_caller_that_leaves_does_not_recall_its_batch(ledger: Store) -> None:
    heard: list[str] = []
    ledger.listen(lambda events: heard.extend(event.kind for event in events))
    task = asyncio.create_task(ledger.commit(says("msg_1", "x")))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await ledger.commit(says("msg_2", "y"))
    assert [message.id for message in (await ledger.messages("ses_1", limit=9)).items] == ["msg_1", "msg_2"]
    assert heard == ["message.updated", "message.updated"]


async def test_an_event_of_an_unknown_session_is_refused(store: Store) -> None:
    with pytest.raises(StoreConflict, match="session 'ses_x' does not exist"):
        await store.commit(Batch((), (ConfigChanged(at=AT), SessionDeleted(at=AT, session_id="ses_x"))))
    assert store.last_number == 0
    assert (await store.commit(Batch((), (ConfigChanged(at=AT),)))).numbers == (1,)


# Runs and lanes


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
async def test_of_two_ends_at_once_one_wins(ledger: Store) -> None:
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
async def test_the_ledger_itself_refuses_a_second_active_run(ledger: Store) -> None:
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


async def test_only_the_given_fields_of_a_run_change_and_the_event_can_tell_the_same(ledger: Store) -> None:
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
async def test_a_repeated_id_finds_the_first_decision_and_the_run_as_it_is(ledger: Store) -> None:
    insert = w.InsertRun(run=a_run(), body_hash="first", decision="steered", position=None, host_run_id="run_0")
    await ledger.commit(Batch((insert,)))
    await ledger.commit(Batch((w.UpdateRun(run_id="run_1", rank=7),)))
    record = await ledger.run_record("run_1")
    assert record is not None
    assert (record.body_hash, record.decision, record.host_run_id) == ("first", "steered", "run_0")
    assert (record.run.rank, record.deleted, record.workspace_id) == (7, False, "wsp_1")
    assert await ledger.run_record("run_2") is None


async def test_a_lane_is_its_row_and_its_unfinished_runs_in_order(ledger: Store) -> None:
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


# Messages


async def test_messages_get_the_sessions_next_number_and_keep_it_when_replaced(ledger: Store) -> None:
    assert (await ledger.commit(says("msg_1", "a"))).seqs == {"msg_1": 1}
    assert (await ledger.commit(says("msg_2", "b"))).seqs == {"msg_2": 2}
    assert (await ledger.commit(says("msg_1", "a again"))).seqs == {"msg_1": 1}
    page = await ledger.messages("ses_1", limit=10)
    assert [(message.id, message.seq) for message in page.items] == [("msg_1", 1), ("msg_2", 2)]
    assert page.items[0].parts == (Text("a again"),)


async def test_the_events_of_a_message_carry_the_number_it_was_given(ledger: Store) -> None:
    committed = await ledger.commit(says("msg_1", "a"))
    event = read_event(committed.events[0].body)
    assert isinstance(event, MessageUpdated)
    assert event.message.seq == 1


async def test_a_message_of_another_session_is_not_taken_over(ledger: Store) -> None:
    await ledger.commit(new_session("ses_2"))
    await ledger.commit(says("msg_1", "mine"))
    with pytest.raises(StoreConflict):
        await ledger.commit(says("msg_1", "yours", session_id="ses_2"))
    assert (await ledger.message("msg_1")).parts == (Text("mine"),)


async def test_providers_opaque_data_is_stored_but_not_told(ledger: Store) -> None:
    parts = (
        Reasoning("thought", wire="w", opaque={"signature": "secret"}),
        ToolCall("call_1", "bash", opaque={"token": "secret"}),
    )
    message = a_message("msg_1", *parts)
    batch = Batch((w.PutMessage(message),), (MessageFinished(at=AT, session_id="ses_1", message=message),))
    committed = await ledger.commit(batch)
    assert (await ledger.message("msg_1")).parts == parts
    assert b"secret" not in committed.events[0].body
    page = await ledger.events_after(0, upto=ledger.last_number)
    assert [event.body for event in page.events if b"secret" in event.body] == []


async def test_messages_are_paged_from_either_end_always_in_order(ledger: Store) -> None:
    for n in range(1, 8):
        await ledger.commit(says(f"msg_{n}", "x"))

    async def page(**kw: int) -> tuple[list[int], int | None]:
        found = await ledger.messages("ses_1", **kw)  # type: ignore[arg-type]
        return [message.seq for message in found.items], found.next

    assert await page(limit=3) == ([1, 2, 3], 3)
    assert await page(limit=3, after=3) == ([4, 5, 6], 6)
    assert await page(limit=3, after=6) == ([7], None)
    assert await page(limit=3, before=100) == ([5, 6, 7], 5)
    assert await page(limit=3, before=5) == ([2, 3, 4], 2)
    assert await page(limit=3, before=2) == ([1], None)
    assert await page(limit=3, before=1) == ([], None)


async def test_a_request_is_built_from_the_last_summary_on(ledger: Store) -> None:
    await ledger.commit(says("msg_1", "a"))
    assert [m.id for m in await ledger.messages_since_summary("ses_1")] == ["msg_1"]
    for n in (2, 3):
        await ledger.commit(Batch((w.PutMessage(a_message(f"msg_{n}", Summary("so far"))),)))
    await ledger.commit(says("msg_4", "b"))
    assert [m.id for m in await ledger.messages_since_summary("ses_1")] == ["msg_3", "msg_4"]


async def test_search_finds_text_of_users_and_of_finished_answers(reopen: Reopen, ledger: Store) -> None:
    await ledger.commit(new_workspace("wsp_2"))
    await ledger.commit(new_session("ses_2", workspace_id="wsp_2", title="Bees"))
    await ledger.commit(says("msg_1", "Where do the honey bees sleep?"))
    await ledger.commit(says("msg_2", "About honey", session_id="ses_2"))
    unfinished = a_message("msg_3", Text("honey, unfinished"))
    await ledger.commit(Batch((w.PutMessage(unfinished),)))
    assert {hit.message_id for hit in await ledger.search("honey")} == {"msg_1", "msg_2"}
    await ledger.commit(Batch((w.PutMessage(replace(unfinished, parts=(*unfinished.parts, Finish("end_turn")))),)))
    for again in (False, True):
        store = await reopen() if again else ledger
        assert {hit.message_id for hit in await store.search("HONEY")} == {"msg_1", "msg_2", "msg_3"}
        assert [hit.message_id for hit in await store.search("bee slee")] == ["msg_1"]
        assert await store.search("oney") == ()
        (hit,) = await store.search("honey", workspace_id="wsp_2")
        assert (hit.session_id, hit.session_title, hit.excerpt) == ("ses_2", "Bees", "About honey")
        assert len(await store.search("honey", limit=2)) == 2


@pytest.mark.parametrize("q", ["", "  ", '"', "AND OR NOT", "a:b", "(x", "*", "-- ; DROP TABLE messages", "'\"^"])
async def test_any_search_text_is_only_text(reopen: Reopen, ledger: Store, q: str) -> None:
    await ledger.commit(says("msg_1", "plain words"))
    assert await ledger.search(q) == ()
    assert await (await reopen()).search(q) == ()


async def test_a_changed_text_is_found_by_its_new_words_only(reopen: Reopen, ledger: Store) -> None:
    await ledger.commit(says("msg_1", "red"))
    store = await reopen()
    await store.commit(says("msg_1", "blue"))
    for again in (False, True):
        store = await reopen() if again else store
        assert await store.search("red") == ()
        assert len(await store.search("blue")) == 1


# Sessions and workspaces


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


async def test_sessions_come_last_prompted_first_in_pages(ledger: Store) -> None:
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


async def test_a_session_knows_that_it_is_busy(ledger: Store) -> None:
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


# Deleting


async def _filled(store: Store) -> None:
    """A session and its child with something of every kind."""
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
                    w.OpenApproval(_approval(f"apr_{n}", session_id=session_id)),
                    w.AddGrant(Grant(f"grant_{n}", "wsp_1", "rule", session_id=session_id)),
                )
            )
        )


@pytest.mark.promise("E8", "R9", "R3")
async def test_a_deleted_session_leaves_only_its_runs_ids_hashes_and_ends(reopen: Reopen) -> None:
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
async def test_a_session_with_a_live_run_is_not_deleted(ledger: Store) -> None:
    await ledger.commit(new_session("ses_2", parent_id="ses_1"))
    await ledger.commit(accept(a_run(session_id="ses_2")))
    with pytest.raises(StoreConflict, match="run_1"):
        await ledger.commit(Batch((w.DeleteSession("ses_1", AT),)))
    assert (await ledger.session("ses_1")).id == "ses_1"


@pytest.mark.promise("E8")
async def test_the_commit_that_deletes_tells_nobodys_text(ledger: Store) -> None:
    run = a_run(state="active", prompt="private prompt")
    await ledger.commit(accept(run))
    message = a_message("msg_1", Text("private text"))
    approval = replace(_approval("apr_1"), title="private command", state="cancelled")
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


async def test_nothing_is_written_into_a_deleted_session(ledger: Store) -> None:
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


# The log


async def test_events_are_filtered_by_workspace_and_by_session_with_descendants(ledger: Store) -> None:
    await ledger.commit(new_workspace("wsp_2"))
    await ledger.commit(new_session("ses_2", workspace_id="wsp_2"))  # event 2
    await ledger.commit(new_session("ses_1_1", parent_id="ses_1"))  # event 3
    await ledger.commit(new_session("ses_1_1_1", parent_id="ses_1_1"))  # event 4
    await ledger.commit(Batch((), (ConfigChanged(at=AT),)))  # event 5, of no workspace
    await ledger.commit(Batch((), (ConfigChanged(at=AT, workspace_id="wsp_2"),)))  # event 6
    assert await numbers(ledger) == [1, 2, 3, 4, 5, 6]
    assert await numbers(ledger, workspace_id="wsp_1") == [1, 3, 4, 5]
    assert await numbers(ledger, workspace_id="wsp_2") == [2, 5, 6]
    assert await numbers(ledger, session_id="ses_1") == [1, 3, 4]
    assert await numbers(ledger, session_id="ses_1_1") == [3, 4]
    assert await numbers(ledger, session_id="ses_2") == [2]
    assert set(await ledger.descendants("ses_1")) == {"ses_1_1", "ses_1_1_1"}


async def test_a_page_of_the_log_says_how_far_it_looked(ledger: Store) -> None:
    await ledger.commit(new_session("ses_2"))
    for n in range(5):
        await ledger.commit(says(f"msg_{n}", "x" * 100, session_id="ses_2"))
    page = await ledger.events_after(0, upto=7, session_id="ses_1", limit=10)
    assert ([event.number for event in page.events], page.passed) == ([1], 7)
    page = await ledger.events_after(1, upto=7, session_id="ses_2", limit=2)
    assert ([event.number for event in page.events], page.passed) == ([2, 3], 3)
    page = await ledger.events_after(2, upto=7, max_bytes=1)
    assert ([event.number for event in page.events], page.passed) == ([3], 3)
    page = await ledger.events_after(2, upto=4)
    assert ([event.number for event in page.events], page.passed) == ([3, 4], 4)
    page = await ledger.events_after(7, upto=7)
    assert (page.events, page.passed) == ((), 7)


@pytest.mark.promise("E8")
async def test_old_events_are_pruned_but_never_past_an_unfinished_run(ledger: Store) -> None:
    run = a_run()
    old, young = "2026-01-01T00:00:00.000Z", "2026-01-09T00:00:00.000Z"
    await ledger.commit(Batch((), (ConfigChanged(at=old),)))  # 2
    await ledger.commit(accept(run, at=old))  # 3
    await ledger.commit(Batch((), (ConfigChanged(at=old),)))  # 4
    await ledger.commit(Batch((), (ConfigChanged(at=young),)))  # 5
    await ledger.commit(Batch((), (ConfigChanged(at=old),)))  # 6, told late: only a prefix is ever cut
    assert await ledger.prune_events(before="2026-01-05T00:00:00.000Z") == 2
    assert (await numbers(ledger), ledger.oldest_number) == ([3, 4, 5, 6], 3)
    await ledger.commit(end(run, at=young))  # 7
    assert await ledger.prune_events(before="2026-01-05T00:00:00.000Z") == 2
    assert (await numbers(ledger), ledger.oldest_number) == ([5, 6, 7], 5)
    assert (await ledger.events_after(0, upto=7)).pruned == 4
    assert await ledger.prune_events(before="2026-01-05T00:00:00.000Z") == 0


async def test_what_was_pruned_is_known_after_reopening(reopen: Reopen) -> None:
    store = await reopen()
    for _ in range(3):
        await store.commit(Batch((), (ConfigChanged(at=AT),)))
    await store.prune_events(before="2027-01-01T00:00:00.000Z")
    store = await reopen()
    assert (store.oldest_number, store.last_number) == (4, 3)


@pytest.mark.promise("E7")
async def test_every_page_names_the_event_it_is_true_at(ledger: Store) -> None:
    """While something else commits, a page's content is what the log says up to its number."""

    async def write() -> None:
        for n in range(1, 60):
            await ledger.commit(says(f"msg_{n}", "x"))

    async def read() -> None:
        while not writing.done():
            page = await ledger.messages("ses_1", limit=1000)
            assert page.at == len(page.items) + 1

    writing = asyncio.create_task(write())
    await asyncio.gather(writing, *(read() for _ in range(4)))


# Approvals, questions, grants


def _approval(approval_id: str, *, session_id: str = "ses_1") -> Approval:
    return Approval(
        id=approval_id,
        workspace_id="wsp_1",
        session_id=session_id,
        root_session_id="ses_1",
        run_id="run_1",
        call_id="call_1",
        tool="bash",
        title="rm -r build",
    )


@pytest.mark.promise("W4")
async def test_the_first_answer_to_an_approval_wins(ledger: Store) -> None:
    await ledger.commit(Batch((w.OpenApproval(_approval("apr_1")),)))
    assert [found.id for found in (await ledger.open_approvals(workspace_id="wsp_1")).items] == ["apr_1"]
    assert (await ledger.open_approvals(run_id="run_other")).items == ()

    def answer(who: str) -> Batch:
        resolve = w.ResolveApproval(
            approval_id="apr_1",
            state="answered",
            decision="always",
            pattern=("bash: rm *",),
            answered_by=who,
            resolved_at=AT,
        )
        return Batch((resolve,))

    results = await asyncio.gather(ledger.commit(answer("a")), ledger.commit(answer("b")), return_exceptions=True)
    assert isinstance(results[1], StoreConflict)
    assert results[1].detail == {"id": "apr_1", "state": "answered", "answered_by": "a"}
    found = await ledger.approval("apr_1")
    assert (found.state, found.decision, found.pattern, found.answered_by) == (
        "answered",
        "always",
        ("bash: rm *",),
        "a",
    )
    assert (await ledger.open_approvals()).items == ()


@pytest.mark.promise("W4")
async def test_the_first_answer_to_a_question_wins(ledger: Store) -> None:
    question = Question("qst_1", "wsp_1", "ses_1", "ses_1", "run_1", "call_1", (QuestionItem("Why?"),))
    await ledger.commit(Batch((w.OpenQuestion(question),)))
    assert (await ledger.open_questions(workspace_id="wsp_1")).items == (question,)
    resolve = w.ResolveQuestion(question_id="qst_1", state="answered", answers=(("so",),), resolved_at=AT)
    await ledger.commit(Batch((resolve,)))
    with pytest.raises(StoreConflict, match="already answered"):
        await ledger.commit(Batch((replace(resolve, state="cancelled", answers=None),)))
    assert (await ledger.question("qst_1")).answers == (("so",),)
    assert (await ledger.open_questions()).items == ()


async def test_grants_are_of_a_workspace_or_of_a_session(ledger: Store) -> None:
    await ledger.commit(new_session("ses_2"))
    own = Grant("g1", "wsp_1", "bash: ls", session_id="ses_1")
    everyones = Grant("g2", "wsp_1", "bash: ls")
    again = replace(everyones, id="g3")
    await ledger.commit(Batch(tuple(w.AddGrant(grant) for grant in (own, everyones, again))))
    assert await ledger.grants("wsp_1", session_id="ses_1") == (own, everyones)
    assert await ledger.grants("wsp_1", session_id="ses_2") == (everyones,)
    assert await ledger.grants("wsp_2") == ()
    await ledger.commit(Batch((w.RemoveGrants(workspace_id="wsp_1", grant_id="g2"),)))
    assert await ledger.grants("wsp_1", session_id="ses_1") == (own,)
    await ledger.commit(Batch((w.RemoveGrants(workspace_id="wsp_1"),)))
    assert await ledger.grants("wsp_1", session_id="ses_1") == ()


# Work


async def test_jobs_are_put_and_replaced(ledger: Store) -> None:
    job = Job("job_1", "wsp_1", "ses_1", "run_1", "sleep 9")
    await ledger.commit(Batch((w.PutJob(job), w.PutJob(replace(job, id="job_2", workspace_id="wsp_2")))))
    ended = replace(job, state="exited", exit_code=0)
    await ledger.commit(Batch((w.PutJob(ended),)))
    assert await ledger.job("job_1") == ended
    assert [found.id for found in (await ledger.jobs(running=True)).items] == ["job_2"]
    assert (await ledger.jobs(workspace_id="wsp_1")).items == (ended,)


async def test_todos_reads_and_outputs_are_the_latest(ledger: Store) -> None:
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


async def test_snapshots_are_numbered_and_moved_only_from_the_expected_state(ledger: Store) -> None:
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


async def test_a_stored_answer_is_kept_until_it_is_old(ledger: Store) -> None:
    answer = StoredResponse("key", "hash", 201, b"{}", AT)
    await ledger.commit(Batch((w.PutResponse(answer),)))
    assert await ledger.stored_response("key") == answer
    with pytest.raises(StoreConflict):
        await ledger.commit(Batch((w.PutResponse(replace(answer, body=b"other")),)))
    assert await ledger.prune_responses(before=AT) == 0
    assert await ledger.prune_responses(before="2026-01-02") == 1
    assert await ledger.stored_response("key") is None


async def test_statistics_add_up_by_day_and_model_and_outlive_their_session(ledger: Store) -> None:
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


async def test_runs_and_messages_of_any_shape_come_back_as_they_were(ledger: Store) -> None:
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


async def test_search_takes_any_text(reopen: Reopen, ledger: Store) -> None:
    await ledger.commit(says("msg_1", "honey"))
    for again in (False, True):
        store = await reopen() if again else ledger
        for odd in ("\0", '"', "hon\0", "* OR", "NEAR(", "'--", "\ud7ff\uffff"):
            assert isinstance(await store.search(odd), tuple)
        assert [hit.message_id for hit in await store.search("\0honey\0")] == ["msg_1"]
