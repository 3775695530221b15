"""The streams over real connections: replay, snapshots, heartbeats, resets, presence, slow and gone readers."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.schema.events import read_event
from holdfast.testing import Answer, Call, Gate, Hang, Say, Think
from tests.support.http_client import Refused
from tests.support.running_server import RunningServer, answering, run_server, until

WORDS = "".join(f"word {number} ünï😀 " for number in range(200))
SLOW = Answer(pieces=(Think("hmm"), Say(WORDS[:1000]), Gate("go"), Say(WORDS[1000:])))


def events(server: RunningServer, **query: str) -> str:
    shown = "&".join(f"{name}={value}" for name, value in query.items())
    return f"/v1/workspaces/{server.workspace_id}/events" + (f"?{shown}" if shown else "")


@pytest.mark.promise("E2", "E6", "E7")
async def test_a_stream_begins_with_hello_and_goes_on_from_the_cursor_of_an_answer(home: Path) -> None:
    async with run_server(home) as server:
        cursor = (await server.http.get(f"/v1/workspaces/{server.workspace_id}")).ok()["cursor"]
        first = await server.session(title="one")
        listed = (await server.http.get(f"/v1/workspaces/{server.workspace_id}/sessions")).ok()
        second = await server.session(title="two")
        async with server.http.stream(events(server, after=cursor)) as stream:
            hello = await stream.data()
            assert (hello["kind"], hello["cursor"], hello["heartbeat_seconds"]) == ("hello", cursor, 10.0)
            assert stream.headers["content-type"] == "text/event-stream"
            assert stream.headers["cache-control"] == "no-cache"
            assert stream.headers["x-accel-buffering"] == "no"
            assert [(await stream.data())["session_id"] for _ in range(2)] == [first, second]
            assert stream.retry == 1000
            server.app.hub.send_heartbeat()
            assert (await stream.data())["kind"] == "heartbeat"
            assert stream.last_id == server.app.hub.cursor
        async with server.http.stream(events(server, after=listed["cursor"])) as stream:
            await stream.data()
            assert (await stream.data())["session_id"] == second
        async with server.http.stream(events(server)) as live:
            await live.data()
            third = await server.session()
            assert (await live.data())["session_id"] == third


@pytest.mark.promise("E2")
async def test_the_header_wins_over_the_parameter_and_what_no_log_gave_is_a_reset(home: Path) -> None:
    async with run_server(home) as server:
        start = server.app.hub.cursor
        made = await server.session()
        async with server.http.stream(events(server, after="nonsense"), Last_Event_ID=start) as stream:
            await stream.data()
            assert (await stream.data())["session_id"] == made
        log_id = server.app.store.log_id
        for cursor, reason in (("nonsense", "foreign"), ("ffff.1", "foreign"), (f"{log_id}.999", "future")):
            async with server.http.stream(events(server, after=cursor)) as stream:
                await stream.data()
                reset = await stream.data()
                assert (reset["kind"], reset["reason"]) == ("reset", reason)
                assert stream.last_id == reset["cursor"] == server.app.hub.cursor
                again = await server.session()
                assert (await stream.data())["session_id"] == again


@pytest.mark.promise("E8", "E2")
async def test_a_pruned_cursor_is_a_reset_and_an_unfinished_run_keeps_its_events(home: Path) -> None:
    async with run_server(home, answering(SLOW)) as server:
        start = server.app.hub.cursor
        session_id = await server.session()
        run = await server.prompt(session_id)
        await server.app.store.prune_events(before="2999-01-01T00:00:00.000Z")
        async with server.http.stream(events(server, after=start)) as stream:
            await stream.data()
            assert (await stream.data())["reason"] == "pruned"
        cursor = (await server.http.get(f"/v1/sessions/{session_id}")).ok()["cursor"]
        server.provider.open("go")
        async with server.http.stream(events(server, after=cursor)) as stream:
            await stream.until("run.finished")
        assert (await server.ended(run["run"]["id"]))["text"] == WORDS


@pytest.mark.promise("E3", "E5")
async def test_a_late_client_gets_the_open_text_and_then_its_continuation(home: Path) -> None:
    async with run_server(home, answering(SLOW)) as server:
        session_id = await server.session()
        async with server.http.stream(events(server)) as early:
            await server.prompt(session_id)
            seen = ""
            while len(seen) < 1000:
                delta = await early.until("delta")
                if delta["of"] == "text":
                    assert delta["offset"] == len(seen)
                    seen += delta["text"]
            async with server.http.stream(events(server, session=session_id)) as late:
                snapshot = await late.until("snapshot")
                text = next(part["text"] for part in snapshot["parts"] if part["of"] == "text")
                assert text == WORDS[:1000]
                server.provider.open("go")
                while (event := await late.data())["kind"] not in ("message.updated", "message.finished"):
                    if event["kind"] == "delta":
                        assert event["offset"] == len(text)
                        text += event["text"]
                assert WORDS.startswith(text)
                finished = event if event["kind"] == "message.finished" else await late.until("message.finished")
                whole = [part["text"] for part in finished["message"]["parts"] if part["type"] == "text"]
                assert whole == [WORDS]


@pytest.mark.promise("E2")
async def test_a_filtered_stream_shows_one_session_and_its_cursor_still_advances(home: Path) -> None:
    async with run_server(home) as server:
        mine, other = await server.session(), await server.session()
        async with server.http.stream(events(server, session=mine)) as stream:
            await stream.data()
            await server.http.send("PATCH", f"/v1/sessions/{other}", {"title": "not shown"})
            server.app.hub.send_heartbeat()
            assert (await stream.data())["kind"] == "heartbeat"
            assert stream.last_id == server.app.hub.cursor
            await server.http.send("PATCH", f"/v1/sessions/{mine}", {"title": "shown"})
            assert (await stream.data())["session"]["title"] == "shown"


async def test_unknown_sessions_and_sessions_of_other_workspaces_are_refused(home: Path) -> None:
    async with run_server(home) as server:
        elsewhere = home / "elsewhere"
        elsewhere.mkdir()
        mine = await server.session()
        other = await server.open(elsewhere)
        for target, code in (
            (events(server, session="ses_unknown"), "session_not_found"),
            (f"/v1/workspaces/{other}/events?viewing={mine}", "session_not_found"),
            ("/v1/workspaces/wsp_unknown/events", "workspace_not_found"),
        ):
            with pytest.raises(Refused) as refused:
                await server.http.open_stream(target)
            assert (refused.value.answer.status, refused.value.answer.code) == (404, code)
        (await server.http.send("DELETE", f"/v1/sessions/{mine}")).ok()
        with pytest.raises(Refused) as refused:
            await server.http.open_stream(events(server, session=mine))
        assert refused.value.answer.status == 410


@pytest.mark.promise("W7")
async def test_clients_see_who_attaches_and_detaches_and_what_they_view(home: Path) -> None:
    async with run_server(home) as server:
        session_id = await server.session()
        async with server.http.stream(events(server)) as watching:
            await watching.data()
            guest = server.http.named("web/2 cli_guest")
            first = await guest.open_stream(events(server, viewing=session_id))
            attached = await watching.until("client.attached")
            assert attached["session_id"] == session_id
            assert (attached["client"]["id"], attached["client"]["name"]) == ("cli_guest", "web/2")
            second = await guest.open_stream(events(server, viewing=session_id))
            view = (await server.http.get(f"/v1/sessions/{session_id}")).ok()
            assert (view["clients"], [client["id"] for client in view["attached"]]) == (1, ["cli_guest"])
            clients = (await server.http.get(f"/v1/workspaces/{server.workspace_id}/clients")).ok()["items"]
            assert {client["id"] for client in clients} == {"cli_test", "cli_guest"}
            (listed,) = (await server.http.get(f"/v1/workspaces/{server.workspace_id}/sessions")).ok()["items"]
            assert listed["clients"] == 1
            await first.close()
            await second.close()
            detached = await watching.until("client.detached")
            assert (detached["client"]["id"], detached["session_id"]) == ("cli_guest", session_id)
            assert (await server.http.get(f"/v1/sessions/{session_id}")).ok()["clients"] == 0


@pytest.mark.promise("E4")
async def test_a_stalled_reader_delays_no_other_client_and_misses_nothing(home: Path) -> None:
    long = "".join(f"{number:07d} " for number in range(60_000))
    answer = Answer(pieces=(Say(long, chunk=400), Say("end")))
    async with run_server(home, answering(answer)) as server:
        session_id = await server.session()
        stalled = await server.http.open_stream(events(server))
        async with server.http.stream(events(server)) as reading:
            run = await server.prompt(session_id)
            end = await reading.until("run.finished")
            assert end["run"]["text"] == long + "end"
        assert (await server.ended(run["run"]["id"]))["state"] == "completed"
        kinds = []
        while not kinds or kinds[-1] != "run.finished":
            kinds.append((await stalled.data())["kind"])
        durable = [kind for kind in kinds if kind.startswith(("run.", "message.")) and kind != "run.progress"]
        assert durable.count("message.finished") == 1
        assert durable[-1] == "run.finished"
        await stalled.close()


async def test_streams_are_bounded_and_one_that_ended_makes_room(home: Path) -> None:
    async with run_server(home, max_streams=2) as server:
        first, second = [await server.http.open_stream(events(server)) for _ in range(2)]
        with pytest.raises(Refused) as refused:
            await server.tcp.open_stream("/v1/events")
        assert (refused.value.answer.status, refused.value.answer.code) == (429, "too_many_streams")
        await first.close()
        await until(lambda: server.app.services.presence.streams == 1)
        async with server.tcp.stream("/v1/events") as third:
            assert (await third.data())["kind"] == "hello"
        await second.close()
        await until(lambda: server.app.services.presence.streams == 0)
        assert server.app.hub.subscriber_count == 0


async def test_a_head_request_opens_no_stream(home: Path) -> None:
    async with run_server(home) as server:
        answer = await server.http.send("HEAD", "/v1/events")
        assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream")
        assert server.app.services.presence.streams == 0


async def test_the_stream_of_all_workspaces_shows_all(home: Path) -> None:
    async with run_server(home) as server:
        elsewhere = home / "elsewhere"
        elsewhere.mkdir()
        other = await server.open(elsewhere)
        async with server.http.stream("/v1/events") as every, server.http.stream(events(server)) as one:
            await every.data()
            await one.data()
            foreign = (await server.http.post(f"/v1/workspaces/{other}/sessions", {})).ok(201)["id"]
            own = await server.session()
            assert [(await every.until("session.created"))["session_id"] for _ in range(2)] == [foreign, own]
            assert (await one.until("session.created"))["session_id"] == own


@pytest.mark.promise("W8", "E5")
async def test_neither_events_nor_answers_have_the_system_prompt_or_what_belongs_to_providers(home: Path) -> None:
    thinking = Answer(pieces=(Think("hmm", opaque="sig-secret"), Call("ls", {"path": "."})))
    async with run_server(home, answering(thinking)) as server:
        session_id = await server.session()
        start = server.app.hub.cursor
        run = await server.prompt(session_id)
        await server.ended(run["run"]["id"])
        stored = await server.app.store.messages(session_id, limit=100)
        assert any(getattr(part, "blocks", ()) for message in stored.items for part in message.parts)
        seen: list[Any] = []
        async with server.http.stream(events(server, after=start)) as stream:
            while not seen or b"run.finished" not in seen[-1].data:
                seen.append(await stream.next())
        answers = [
            (await server.http.get(f"/v1/sessions/{session_id}/{what}")).body
            for what in ("messages", "export", "export?format=markdown")
        ]
        for told in (*(event.data for event in seen), *answers):
            assert b"blocks" not in told
            assert b"sig-secret" not in told
        assert all(read_event(event.data) is not None for event in seen)


async def test_streams_end_when_the_server_stops_and_say_how_the_run_ended(home: Path) -> None:
    async with run_server(home, answering(Answer(pieces=(Say("begun"), Hang())))) as server:
        session_id = await server.session()
        stream = await server.http.open_stream(events(server))
        await server.prompt(session_id)
        await stream.until("delta")
        server.stop()
        told = await stream.rest()
        (finished,) = [event for event in told if event["kind"] == "run.finished"]
        assert (finished["run"]["state"], finished["run"]["reason"]) == ("interrupted", "server_stop")
        await stream.close()
