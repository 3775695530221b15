"""Event streams on a real store."""

import asyncio
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import uvloop

from holdfast.events import Hub
from holdfast.events.live_state import MAX_DELTA_LENGTH
from holdfast.events.recent_events import RecentEvents
from holdfast.schema.events import ClientAttached, ConfigChanged, MessageFinished, MessageUpdated, SessionDeleted
from holdfast.schema.messages import Finish, Text, ToolResult
from holdfast.schema.runs import Now
from holdfast.schema.sessions import Client
from holdfast.store import Batch, SqliteStore, open_store
from holdfast.store.rows import event_log
from holdfast.store.writes import DeleteSession, PutMessage
from tests.events.stream_readers import Reader, pending, seen
from tests.store.batches import AT, a_message, a_run, accept, end, new_session, new_workspace, says

OLD, LATER = "2026-01-01T00:00:00.000Z", "2027-01-01T00:00:00.000Z"


def finished(message_id: str, *texts: str, session_id: str = "ses_1") -> Batch:
    parts = (*(Text(text) for text in texts), Finish("end_turn"))
    message = a_message(message_id, *parts, session_id=session_id)
    return Batch((PutMessage(message),), (MessageFinished(at=AT, session_id=session_id, message=message),))


@pytest.mark.promise("E2")
async def test_a_stream_without_a_cursor_is_live_from_now(store: SqliteStore, hub: Hub) -> None:
    await store.commit(says("msg_1", "before"))
    stream = hub.subscribe()
    assert seen(await pending(stream)) == ["hello"]
    await store.commit(says("msg_2", "after"))
    assert seen(await pending(stream)) == ["message.updated 3"]


@pytest.mark.promise("E2")
async def test_hello_has_the_cursor_and_the_heartbeat_interval(store: SqliteStore, hub: Hub) -> None:
    (hello,) = await pending(hub.subscribe())
    body = msgspec.json.decode(hello.body)
    assert (body["cursor"], body["heartbeat_seconds"], hello.id) == (f"{store.log_id}.1", 10.0, None)


@pytest.mark.promise("E2")
async def test_a_cursor_replays_missed_events_and_continues_live(store: SqliteStore, hub: Hub) -> None:
    cursor = hub.cursor
    for n in range(3):
        await store.commit(says(f"msg_{n}", "x"))
    stream = hub.subscribe(after=cursor)
    assert seen(await pending(stream)) == ["hello", *(f"message.updated {n}" for n in (2, 3, 4))]
    await store.commit(says("msg_9", "x"))
    assert seen(await pending(stream)) == ["message.updated 5"]


@pytest.mark.promise("E2")
async def test_a_cursor_continues_after_a_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("restart") / "db"
    store = await open_store(path)
    hub = Hub(store, heartbeat_seconds=10.0)
    await store.commit(new_workspace())
    await store.commit(new_session())
    cursor = hub.cursor
    await store.commit(says("msg_1", "x"))
    hub.close()
    await store.close()
    store = await open_store(path)
    hub = Hub(store, heartbeat_seconds=10.0)
    await store.commit(says("msg_2", "x"))
    assert seen(await pending(hub.subscribe(after=cursor))) == ["hello", "message.updated 2", "message.updated 3"]
    hub.close()
    await store.close()


@pytest.mark.promise("E2")
@pytest.mark.parametrize(
    ("cursor", "reason"), [("nonsense", "foreign"), ("0123abcd.1", "foreign"), ("{log}.99", "future")]
)
async def test_an_unusable_cursor_is_reset_and_the_stream_continues(
    store: SqliteStore, hub: Hub, cursor: str, reason: str
) -> None:
    stream = hub.subscribe(after=cursor.format(log=store.log_id))
    _, reset = await pending(stream)
    body = msgspec.json.decode(reset.body)
    assert (reset.kind, body["reason"], body["cursor"], reset.id) == ("reset", reason, hub.cursor, hub.cursor)
    await store.commit(says("msg_1", "x"))
    assert seen(await pending(stream)) == ["message.updated 2"]


@pytest.mark.promise("E2", "E8")
async def test_a_pruned_cursor_is_reset(store: SqliteStore, hub: Hub) -> None:
    cursor = hub.cursor
    await store.commit(says("msg_1", "x"))
    await store.commit(says("msg_2", "x"))
    await store.prune_events(before=LATER)
    assert seen(await pending(hub.subscribe(after=cursor))) == ["hello", "reset 3"]
    assert seen(await pending(hub.subscribe(after=hub.cursor))) == ["hello"]


@pytest.mark.promise("E2", "E8")
async def test_pruning_resets_a_reader_that_is_behind_and_it_continues(store: SqliteStore) -> None:
    hub = Hub(store, heartbeat_seconds=10.0, recent_events=RecentEvents(store.last_number, max_events=2))
    stream = hub.subscribe()
    for n in range(9):
        await store.commit(says(f"msg_{n}", "x"))
    hub.add_delta("ses_1", "msg_9", 0, text="open")
    await store.prune_events(before=LATER)
    assert seen(await pending(stream)) == ["hello", "reset 10", "snapshot 0: open"]
    await store.commit(says("msg_8", "again"))
    hub.add_delta("ses_1", "msg_9", 0, text=" more")
    assert seen(await pending(stream)) == ["message.updated 11", "delta 0@4  more"]
    for n in range(9):
        await store.commit(says(f"msg_{n}", "x"))
    await store.prune_events(before=LATER)
    assert seen(await pending(stream)) == ["reset 20", "snapshot 0: open more"]


@pytest.mark.promise("E8")
async def test_pruning_does_not_affect_readers_that_are_up_to_date(store: SqliteStore, hub: Hub) -> None:
    stream = hub.subscribe()
    await store.commit(says("msg_1", "x"))
    assert seen(await pending(stream)) == ["hello", "message.updated 2"]
    await store.prune_events(before=LATER)
    await store.commit(says("msg_2", "x"))
    assert seen(await pending(stream)) == ["message.updated 3"]


@pytest.mark.promise("E4")
async def test_a_reader_behind_the_recent_events_reads_the_log_in_limited_pages(store: SqliteStore) -> None:
    hub = Hub(store, heartbeat_seconds=10.0, recent_events=RecentEvents(store.last_number, max_events=4))
    reader = Reader(hub)
    for n in range(200):
        await store.commit(says(f"msg_{n}", "x" * 5000))
        assert len(hub.recent_events._events) <= 4
    held = []
    while len(reader.numbers) < 200:
        reader.take(await anext(reader.subscription))
        held.append(sum(len(item.body) for _, item in reader.subscription._log_page if item))
    assert max(held) > 0
    assert reader.numbers == list(range(2, 202))
    assert max(held) < 300_000


@pytest.mark.promise("E2", "E4")
@pytest.mark.parametrize("scope", [{"session_id": "ses_1"}, {"workspace_id": "wsp_1"}])
async def test_a_filtered_reader_far_behind_skips_events_outside_its_scope(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, scope: dict[str, str]
) -> None:
    monkeypatch.setattr(event_log, "MAX_SPAN", 7)
    hub = Hub(store, heartbeat_seconds=10.0, recent_events=RecentEvents(store.last_number, max_events=2))
    stream = hub.subscribe(**scope)
    await store.commit(new_workspace("wsp_2"))
    await store.commit(new_session("ses_2", workspace_id="wsp_2"))
    for n in range(30):
        await store.commit(says(f"msg_{n}", "x", session_id="ses_2"))
    assert seen(await pending(stream)) == ["hello"]
    hub.send_heartbeat()
    assert seen(await pending(stream)) == ["heartbeat 32"]
    await store.commit(says("msg_mine", "x"))
    assert seen(await pending(stream)) == ["message.updated 33"]
    hub.close()


@pytest.mark.promise("E2", "W3")
async def test_filtered_streams_show_their_scope_and_advance_over_other_events(store: SqliteStore, hub: Hub) -> None:
    await store.commit(new_workspace("wsp_2"))
    await store.commit(new_session("ses_2", workspace_id="wsp_2"))
    streams = [
        hub.subscribe(workspace_id="wsp_1"),
        hub.subscribe(workspace_id="wsp_2"),
        hub.subscribe(session_id="ses_1"),
    ]
    await store.commit(says("msg_1", "x"))
    await store.commit(says("msg_2", "x", session_id="ses_2"))
    await store.commit(Batch((), (ConfigChanged(at=AT),)))
    shown = [seen(await pending(stream)) for stream in streams]
    assert shown == [
        ["hello", "message.updated 3", "config.changed 5"],
        ["hello", "message.updated 4", "config.changed 5"],
        ["hello", "message.updated 3"],
    ]
    hub.send_heartbeat()
    assert [seen(await pending(stream)) for stream in streams] == [["heartbeat 5"]] * 3
    await store.commit(says("msg_2", "y", session_id="ses_2"))
    hub.send_heartbeat()
    assert seen(await pending(streams[0])) == seen(await pending(streams[2])) == ["heartbeat 6"]


@pytest.mark.promise("E2")
@pytest.mark.parametrize("max_events", [1, 2048])
async def test_the_stream_of_a_session_includes_old_and_new_descendants(store: SqliteStore, max_events: int) -> None:
    hub = Hub(store, heartbeat_seconds=10.0, recent_events=RecentEvents(store.last_number, max_events=max_events))
    await store.commit(new_session("ses_a", parent_id="ses_1"))  # 2
    await store.commit(new_session("ses_other"))  # 3
    stream = hub.subscribe(after=f"{store.log_id}.1", session_id="ses_1")
    child = hub.subscribe(session_id="ses_a")
    await store.commit(new_session("ses_b", parent_id="ses_a"))  # 4
    assert seen(await pending(stream)) == ["hello", "session.created 2", "session.created 4"]
    await store.commit(new_session("ses_c", parent_id="ses_b"))  # 5
    await store.commit(says("msg_1", "x", session_id="ses_other"))  # 6
    await store.commit(says("msg_2", "x", session_id="ses_c"))  # 7
    hub.add_delta("ses_c", "msg_3", 0, text="live")
    hub.add_delta("ses_other", "msg_4", 0, text="not shown")
    live = ["session.created 5", "message.updated 7", "delta 0@0 live"]
    assert seen(await pending(stream)) == live
    assert seen(await pending(child)) == ["hello", "session.created 4", *live]
    assert seen(await pending(hub.subscribe(session_id="ses_c"))) == ["hello", "snapshot 0: live"]
    hub.close()


async def test_live_text_is_sent_only_to_streams_of_its_workspace(store: SqliteStore, hub: Hub) -> None:
    await store.commit(new_workspace("wsp_2"))
    await store.commit(new_session("ses_2", workspace_id="wsp_2"))
    streams = [hub.subscribe(workspace_id="wsp_1"), hub.subscribe(workspace_id="wsp_2"), hub.subscribe()]
    hub.add_delta("ses_2", "msg_1", 0, text="x")
    hub.report_progress("ses_2", "run_1", Now("tool", "bash"))
    shown = [seen(await pending(stream)) for stream in streams]
    assert shown == [["hello"], *[["hello", "delta 0@0 x", "run.progress"]] * 2]


@pytest.mark.promise("E3")
async def test_deltas_continue_each_other_and_a_burst_is_one_delta(store: SqliteStore, hub: Hub) -> None:
    stream = hub.subscribe()
    hub.add_delta("ses_1", "msg_1", 0, text="Grüße, ")
    assert seen(await pending(stream)) == ["hello", "delta 0@0 Grüße, "]
    for piece in ("😀", "b", "c"):
        hub.add_delta("ses_1", "msg_1", 0, text=piece)
    hub.add_delta("ses_1", "msg_1", 1, text="second")
    assert seen(await pending(stream)) == ["delta 0@7 😀bc", "delta 1@0 second"]
    assert await pending(stream) == []


@pytest.mark.promise("E3")
async def test_a_delta_has_no_id_and_does_not_advance_the_cursor(store: SqliteStore, hub: Hub) -> None:
    stream = hub.subscribe()
    hub.add_delta("ses_1", "msg_1", 0, text="x")
    _, delta = await pending(stream)
    assert delta.id is None
    assert stream.cursor == hub.cursor == f"{store.log_id}.1"


@pytest.mark.promise("E3")
async def test_a_late_subscriber_gets_a_snapshot_and_then_deltas(store: SqliteStore, hub: Hub) -> None:
    hub.add_delta("ses_1", "msg_1", 0, text="Once ", of="reasoning")
    hub.add_delta("ses_1", "msg_1", 1, text="upon ")
    hub.add_delta("ses_1", "msg_1", 1, text="a time")
    stream = hub.subscribe(after=hub.cursor)
    assert seen(await pending(stream)) == ["hello", "snapshot 0: Once , 1: upon a time"]
    hub.add_delta("ses_1", "msg_1", 1, text=" there")
    assert seen(await pending(stream)) == ["delta 1@11  there"]


@pytest.mark.promise("E3", "R13")
async def test_a_new_attempt_replaces_the_text_of_the_failed_one(store: SqliteStore, hub: Hub) -> None:
    watching, late = Reader(hub), Reader(hub)
    hub.add_delta("ses_1", "msg_1", 0, text="wrong")
    await watching.read()
    hub.start_attempt("ses_1", "msg_1", 2)
    await watching.read()
    assert watching.transcript.text("msg_1") == ""
    hub.add_delta("ses_1", "msg_1", 0, text="ignored", attempt=1)
    hub.add_delta("ses_1", "msg_1", 0, text="right", attempt=2)
    await watching.read()
    await late.read()
    assert watching.order == ["hello", "delta", "snapshot", "delta"]
    assert late.order == ["hello", "delta"]
    assert watching.transcript.text("msg_1") == late.transcript.text("msg_1") == "right"


@pytest.mark.promise("E3")
async def test_an_event_closes_only_the_parts_it_contains(store: SqliteStore, hub: Hub) -> None:
    reader = Reader(hub)
    hub.add_delta("ses_1", "msg_1", 0, text="first", of="reasoning")
    hub.add_delta("ses_1", "msg_1", 1, text="second ")
    await reader.read()
    message = a_message("msg_1", Text("first"))
    await store.commit(Batch((PutMessage(message),), (MessageUpdated(at=AT, session_id="ses_1", message=message),)))
    hub.add_delta("ses_1", "msg_1", 1, text="goes on")
    await reader.read()
    assert reader.order == ["hello", "delta", "delta", "message.updated", "delta"]
    assert [(part.part, part.text) for part in reader.transcript.open_parts("msg_1")] == [(1, "second goes on")]
    assert seen(await pending(hub.subscribe())) == ["hello", "snapshot 1: second goes on"]


@pytest.mark.promise("R13")
async def test_a_new_attempt_replaces_parts_that_were_stored(store: SqliteStore, hub: Hub) -> None:
    reader = Reader(hub)
    message = a_message("msg_1", Text("first try"))
    hub.add_delta("ses_1", "msg_1", 0, text="first try")
    await store.commit(Batch((PutMessage(message),), (MessageUpdated(at=AT, session_id="ses_1", message=message),)))
    hub.start_attempt("ses_1", "msg_1", 2)
    hub.add_delta("ses_1", "msg_1", 0, text="second try", attempt=2)
    await reader.read()
    assert reader.transcript.text("msg_1") == "second try"


@pytest.mark.promise("E5")
async def test_live_text_never_follows_the_event_that_contains_it(store: SqliteStore, hub: Hub) -> None:
    reader, slow = Reader(hub), Reader(hub)
    hub.add_delta("ses_1", "msg_1", 0, text="whole ")
    await reader.read()
    hub.add_delta("ses_1", "msg_1", 0, text="text")
    message = a_message("msg_1", Text("whole text"))
    await store.commit(Batch((PutMessage(message),), (MessageUpdated(at=AT, session_id="ses_1", message=message),)))
    hub.add_delta("ses_1", "msg_1", 0, text=" late")
    hub.add_delta("ses_1", "msg_1", 1, text="next part")
    await reader.read()
    await slow.read()
    assert reader.order == ["hello", "delta", "message.updated", "delta"]
    assert slow.order == ["hello", "message.updated", "delta"]
    assert reader.transcript.text("msg_1") == slow.transcript.text("msg_1") == "whole textnext part"
    await store.commit(finished("msg_1", "whole text", "next part"))
    hub.send_heartbeat()
    await reader.read()
    assert reader.order[4:] == ["heartbeat", "message.finished"]
    assert reader.transcript.open_parts("msg_1") == ()
    assert hub.live_state.find_message("msg_1") is None


@pytest.mark.promise("E5")
async def test_events_come_in_commit_order_and_the_message_before_the_end_of_its_run(
    store: SqliteStore, hub: Hub
) -> None:
    stream = hub.subscribe()
    run = a_run(state="active")
    await store.commit(accept(run))
    last, over = finished("msg_1", "bye"), end(run)
    hub.report_progress("ses_1", "run_1", Now("streaming"))
    await store.commit(Batch((*last.writes, *over.writes), (*last.events, *over.events)))
    assert seen(await pending(stream)) == ["hello", "run.accepted 2", "message.finished 3", "run.finished 4"]


async def test_live_output_has_its_call_id_and_ends_with_the_result(store: SqliteStore, hub: Hub) -> None:
    stream, reader = hub.subscribe(), Reader(hub)
    hub.add_delta("ses_1", "msg_1", 0, text="thinking")
    assert seen(await pending(stream)) == ["hello", "delta 0@0 thinking"]
    hub.add_delta("ses_1", "msg_1", 1, text="line 1\n", of="output", call_id="call_1", name="bash")
    hub.add_delta("ses_1", "msg_1", 2, text="other", of="output", call_id="call_2", name="bash")
    assert seen(await pending(stream)) == ["snapshot 0: thinking, 1: line 1\n, 2: other"]
    hub.add_delta("ses_1", "msg_1", 1, text="line 2\n", of="output", call_id="call_1", name="bash")
    assert seen(await pending(stream)) == ["delta 1@7 line 2\n"]
    await reader.read()
    assert (reader.transcript.output("call_1"), reader.transcript.output("call_2")) == ("line 1\nline 2\n", "other")
    result = a_message("msg_2", ToolResult("call_1", "bash", text="line 1\nline 2\n"), role="tool")
    await store.commit(Batch((PutMessage(result),), (MessageFinished(at=AT, session_id="ses_1", message=result),)))
    await reader.read()
    assert (reader.transcript.output("call_1"), reader.transcript.output("call_2")) == (None, "other")
    assert seen(await pending(hub.subscribe())) == ["hello", "snapshot 0: thinking, 2: other"]
    hub.add_delta("ses_1", "msg_1", 1, text="a", of="output", call_id="call_3")
    await reader.read()
    assert reader.transcript.output("call_3") == "a"


async def test_closing_a_message_without_an_event_withdraws_its_text(store: SqliteStore, hub: Hub) -> None:
    reader = Reader(hub)
    hub.add_delta("ses_1", "msg_1", 0, text="gone")
    hub.add_delta("ses_1", "msg_2", 0, text="too")
    await reader.read()
    hub.close_session("ses_1")
    await reader.read()
    assert reader.order == ["hello", "delta", "delta", "snapshot", "snapshot"]
    assert reader.transcript.text("msg_1") == reader.transcript.text("msg_2") == ""
    assert seen(await pending(hub.subscribe())) == ["hello"]


async def test_deleting_a_session_closes_its_messages(store: SqliteStore, hub: Hub) -> None:
    reader = Reader(hub)
    hub.add_delta("ses_1", "msg_1", 0, text="x")
    await reader.read()
    deleted = SessionDeleted(at=AT, session_id="ses_1")
    await store.commit(Batch((DeleteSession("ses_1", AT),), (deleted,)))
    await reader.read()
    assert reader.transcript.text("msg_1") == ""
    assert seen(await pending(hub.subscribe())) == ["hello"]


async def test_only_the_latest_progress_and_presence_is_sent(store: SqliteStore, hub: Hub) -> None:
    stream = hub.subscribe(workspace_id="wsp_1")
    for what in ("a", "b", "c"):
        hub.report_progress("ses_1", "run_1", Now("tool", what))
    hub.publish(ClientAttached(at=AT, client=Client("cli_1")), key="cli_1", workspace_id="wsp_1")
    hub.publish(ClientAttached(at=AT, client=Client("cli_2")), key="cli_2", workspace_id="wsp_2")
    items = await pending(stream)
    assert seen(items) == ["hello", "run.progress", "client.attached"]
    assert msgspec.json.decode(items[1].body)["now"]["what"] == "c"


async def test_progress_is_sent_with_the_next_event(
    store: SqliteStore, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.events.hub._UNHURRIED_SECONDS", 3600)
    stream = hub.subscribe()
    await pending(stream)
    reading = asyncio.create_task(stream.read_batch())
    await asyncio.sleep(0)
    hub.report_progress("ses_1", "run_1", Now("first_token"))
    await store.commit(says("msg_1", "x"))
    assert seen(await reading) == ["message.updated 2", "run.progress"]


async def test_progress_without_an_event_is_sent_too(store: SqliteStore, hub: Hub) -> None:
    stream = hub.subscribe()
    await pending(stream)
    reading = asyncio.create_task(stream.read_batch())
    await asyncio.sleep(0)
    hub.report_progress("ses_1", "run_1", Now("tool", "bash"))
    assert seen(await reading) == ["run.progress"]


async def test_a_new_stream_begins_with_the_progress_of_active_runs(store: SqliteStore, hub: Hub) -> None:
    hub.report_progress("ses_1", "run_1", Now("tool", "bash"))
    hub.publish(ClientAttached(at=AT, client=Client("cli_1")), key="cli_1", workspace_id="wsp_1")
    stream = hub.subscribe()
    assert seen(await pending(stream)) == ["hello", "run.progress"]
    assert seen(await pending(stream)) == []


async def test_all_subscribers_share_one_encoding(store: SqliteStore, hub: Hub) -> None:
    streams = [hub.subscribe() for _ in range(20)]
    for stream in streams:
        await pending(stream)
    await store.commit(says("msg_1", "x"))
    hub.add_delta("ses_1", "msg_2", 0, text="y")
    items = [await pending(stream) for stream in streams]
    assert len({id(found[0]) for found in items}) == len({id(found[1]) for found in items}) == 1
    assert items[0][0].frame is items[19][0].frame
    assert items[0][0].frame.startswith(b"event: message.updated\nid: ")
    assert items[0][0].frame.endswith(b"}\n\n")
    assert items[0][1].frame.startswith(b"event: delta\ndata: {")


@pytest.mark.promise("E4")
async def test_a_reader_that_stalls_for_10_mb_holds_no_text_and_then_gets_all_of_it(
    store: SqliteStore, hub: Hub
) -> None:
    """Other readers get every piece as it arrives, and at the end all texts are equal."""
    stalled, steady = Reader(hub), Reader(hub)
    piece = "0123456789" * 10
    count = 100_000
    for n in range(count):
        hub.add_delta("ses_1", "msg_1", 0, text=piece)
        if n % 1000 == 0:
            await steady.read()
            assert sum(len(part.text) for part in steady.transcript.open_parts("msg_1")) == (n + 1) * 100
            assert not stalled.subscription._log_page
            assert not hub.live_state.find_message("msg_1")._positions.get(stalled.subscription)
    pieces = hub.live_state.find_message("msg_1").parts[0].text._pieces
    assert len(pieces) < 1200
    first = await pending(stalled.subscription)
    assert max(len(item.body) for item in first) < MAX_DELTA_LENGTH + 1000
    for item in first:
        stalled.take(item)
    await steady.read()
    assert len(steady.transcript.text("msg_1")) == 10_000_000
    assert stalled.transcript.text("msg_1") == steady.transcript.text("msg_1") == piece * count


@pytest.mark.promise("E4")
async def test_memory_does_not_grow_with_readers_that_do_not_read(store: SqliteStore, hub: Hub) -> None:
    streams = [hub.subscribe() for _ in range(200)]
    for _ in range(50):
        hub.add_delta("ses_1", "msg_1", 0, text="warm up")
    tracemalloc.start()
    for n in range(20_000):
        hub.add_delta("ses_1", "msg_1", 0, text="0123456789" * 5)
        if n % 500 == 0:
            hub.send_heartbeat()
            hub.report_progress("ses_1", "run_1", Now("streaming", str(n)))
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 3_000_000  # the text has 1 MB; 200 queues would hold 200 MB
    assert hub.subscriber_count == len(streams)


async def test_a_closed_subscription_is_removed(store: SqliteStore, hub: Hub) -> None:
    hub.add_delta("ses_1", "msg_1", 0, text="x")
    with hub.subscribe() as stream:
        await pending(stream)
        assert hub.subscriber_count == 1
    assert hub.subscriber_count == 0
    assert not hub.live_state.find_message("msg_1")._positions
    assert [item async for item in stream] == []


async def test_closing_the_hub_ends_a_waiting_reader(store: SqliteStore, hub: Hub) -> None:
    stream = hub.subscribe()

    async def read() -> list[str]:
        return [item.kind async for item in stream]

    reading = asyncio.create_task(read())
    await asyncio.sleep(0)
    hub.close()
    assert await reading == ["hello"]
    assert await stream.read_batch() == []


async def test_read_batch_returns_available_items_up_to_its_limits(store: SqliteStore, hub: Hub) -> None:
    stream = hub.subscribe()
    for n in range(5):
        await store.commit(says(f"msg_{n}", "x"))
    hub.add_delta("ses_1", "msg_9", 0, text="y")
    assert len(await stream.read_batch(max_items=3)) == 3
    assert len(await stream.read_batch(max_bytes=1)) == 1
    assert seen(await stream.read_batch()) == ["message.updated 5", "message.updated 6", "delta 0@0 y"]
    waiting = asyncio.ensure_future(stream.read_batch())
    await asyncio.sleep(0)
    await store.commit(says("msg_6", "x"))
    assert seen(await waiting) == ["message.updated 7"]


@pytest.mark.promise("E6", "E2")
async def test_heartbeats_come_at_a_fixed_interval_with_the_highest_number_passed(store: SqliteStore, hub: Hub) -> None:
    stream = hub.subscribe(session_id="ses_1")
    await pending(stream)
    slept: list[float] = []
    ticks: asyncio.Queue[None] = asyncio.Queue()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await ticks.get()

    beating = asyncio.create_task(hub.send_heartbeats(sleep=sleep))
    for expected in (2, 3, 4):
        await store.commit(new_session(f"ses_{expected}"))
        ticks.put_nowait(None)
        beat = await anext(stream)
        assert seen([beat]) == [f"heartbeat {expected}"]
        assert msgspec.json.decode(beat.body) == {"kind": "heartbeat", "at": "2026-01-01T00:00:00.000Z"}
    beating.cancel()
    await asyncio.gather(beating, return_exceptions=True)
    assert set(slept) == {10.0}


@pytest.mark.promise("E6")
async def test_a_busy_stream_gets_heartbeats_and_a_stalled_one_gets_one(store: SqliteStore, hub: Hub) -> None:
    stream = hub.subscribe()
    for n in range(3):
        await store.commit(says(f"msg_{n}", "x"))
        hub.send_heartbeat()
    assert seen(await pending(stream)) == [
        "hello",
        "heartbeat 1",
        *(f"message.updated {n}" for n in (2, 3, 4)),
    ]


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_store_and_hub_work_on_asyncio_and_uvloop(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def play() -> list[str]:
        store = await open_store(tmp_path / "holdfast.db")
        hub = Hub(store, heartbeat_seconds=10.0)
        with hub.subscribe() as stream:
            await store.commit(new_workspace())
            await store.commit(new_session())
            await store.commit(says("msg_1", "x"))
            hub.add_delta("ses_1", "msg_2", 0, text="y")
            found = seen(await stream.read_batch())
        hub.close()
        await store.close()
        return found

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(play()) == ["hello", "session.created 1", "message.updated 2", "delta 0@0 y"]


async def test_the_answer_to_a_request_that_commits_is_given_before_a_stream_is_written(
    store: SqliteStore, hub: Hub
) -> None:
    stream = hub.subscribe()
    await pending(stream)
    order: list[str] = []

    async def read() -> None:
        order.append(seen(await stream.read_batch())[0])

    async def commit() -> None:
        await store.commit(says("msg_1", "x"))

    async def request() -> None:
        await asyncio.create_task(commit())
        order.append("answer")

    reading = asyncio.create_task(read())
    await asyncio.sleep(0)
    await asyncio.gather(request(), reading)
    assert order == ["answer", "message.updated 2"]
