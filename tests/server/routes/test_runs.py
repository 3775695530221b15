"""Runs, from acceptance to end, as a client sees them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing import Answer, Gate, Hang, Say, text
from tests.support.running_server import RunningServer, answering, hold_stop, run_server, until

HELD = Answer(pieces=(Say("begun "), Gate("go"), Say("and done")))
HANGING = Answer(pieces=(Say("begun "), Hang()))


async def streaming(server: RunningServer, run_id: str) -> dict[str, Any]:
    """The run, when its model has begun to answer."""
    async with server.http.stream(f"/v1/workspaces/{server.workspace_id}/events") as stream:
        while True:
            run: dict[str, Any] = (await server.http.get(f"/v1/runs/{run_id}")).ok()
            if run["now"] and run["now"]["phase"] == "streaming":
                return run
            await stream.data()


@pytest.mark.promise("R1", "R2")
async def test_what_is_answered_is_in_the_ledger_and_says_what_was_decided(home: Path) -> None:
    async with run_server(home, answering(HELD)) as server:
        session_id = await server.session()
        first = await server.prompt(session_id, run_id="run_a")
        assert (first["decision"], first["position"]) == ("started", None)
        assert (await server.app.store.run("run_a")).prompt == "hello"
        second = await server.prompt(session_id)
        assert (second["decision"], second["position"]) == ("queued", 1)
        steer = await server.prompt(session_id, delivery="steer")
        assert (steer["decision"], steer["host_run_id"]) == ("steered", "run_a")
        assert steer["run"]["client"] == "test/1 cli_test"
        server.provider.open("go")
        ends = [await server.ended(answer["run"]["id"]) for answer in (first, second, steer)]
        assert [run["state"] for run in ends] == ["completed"] * 3
        assert ends[2]["host_run_id"] == "run_a"


@pytest.mark.promise("R3")
async def test_the_same_id_is_the_same_run_however_its_body_was_written(home: Path) -> None:
    async with run_server(home, answering(HELD)) as server:
        session_id, other_id = await server.session(), await server.session()
        target = f"/v1/sessions/{session_id}/runs"
        body = b'{"run_id": "r", "prompt": "hi", "output_schema": {"title": "t", "description": "d"}}'
        same = b'{"output_schema":{"description":"d","title":"t"},"mode":null,"prompt":"\\u0068i","run_id":"r"}'
        answers = await asyncio.gather(
            *(server.http.send("POST", target, body=sent) for sent in (body, same, body, same))
        )
        assert {answer.ok(202)["run"]["id"] for answer in answers} == {"r"}
        assert {answer.json()["decision"] for answer in answers} == {"started"}
        changed = await server.http.post(target, {"run_id": "r", "prompt": "other"})
        elsewhere = await server.http.post(f"/v1/sessions/{other_id}/runs", {"run_id": "r", "prompt": "hi"})
        assert [(answer.status, answer.code) for answer in (changed, elsewhere)] == [(409, "run_id_reused")] * 2
        server.provider.open("go")
        assert (await server.ended("r"))["reason"] == "output_schema"
        late = (await server.http.send("POST", target, body=body)).ok(202)
        assert (late["decision"], late["run"]["state"]) == ("started", "failed")
        (await server.http.send("DELETE", f"/v1/sessions/{session_id}")).ok()
        gone = await server.http.send("POST", target, body=body)
        assert (gone.status, gone.code) == (410, "session_deleted")


@pytest.mark.promise("R3")
async def test_a_known_run_is_answered_also_while_the_server_stops(home: Path) -> None:
    async with run_server(home, answering(HANGING)) as server:
        session_id = await server.session()
        body = {"run_id": "r", "prompt": "hi"}
        (await server.http.post(f"/v1/sessions/{session_id}/runs", body)).ok(202)
        await streaming(server, "r")
        held = hold_stop(server)
        server.stop()
        assert (await server.ended("r"))["state"] == "interrupted"
        again = (await server.http.post(f"/v1/sessions/{session_id}/runs", body)).ok(202)
        assert (again["run"]["state"], again["run"]["reason"]) == ("interrupted", "server_stop")
        new = await server.http.post(f"/v1/sessions/{session_id}/runs", {"prompt": "new"})
        assert (new.status, new.code) == (503, "stopping")
        held.set()


@pytest.mark.promise("R9", "R10")
async def test_a_run_whose_caller_left_at_once_goes_on_and_its_end_can_be_read(home: Path) -> None:
    async with run_server(home, answering(HELD)) as server:
        session_id = await server.session()
        _, writer = await server.http.connect()
        body = b'{"prompt": "hi", "run_id": "r"}'
        head = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        writer.write(server.http.head("POST", f"/v1/sessions/{session_id}/runs", head) + body)
        writer.close()
        await server.provider.wait_for_requests(1)
        short = (await server.http.get("/v1/runs/r?wait=0.01")).ok()
        assert short["state"] == "active"
        waiting = asyncio.create_task(server.ended("r"))
        server.provider.open("go")
        end = await waiting
        assert (end["state"], end["text"]) == ("completed", "begun and done")
        assert (await server.http.get("/v1/runs/r")).ok() == end


async def test_a_disconnect_ends_a_wait(home: Path) -> None:
    async with run_server(home, answering(HELD)) as server:
        run = await server.prompt(await server.session())
        reader, writer = await server.http.connect()
        writer.write(server.http.head("GET", f"/v1/runs/{run['run']['id']}?wait=600", {}))
        await until(lambda: server.app.services.state.active_requests == 1)
        writer.close()
        await until(lambda: server.app.services.state.active_requests == 0)
        assert await reader.read() == b""
        server.provider.open("go")


@pytest.mark.promise("C2")
async def test_an_idle_cancel_changes_nothing(home: Path) -> None:
    async with run_server(home) as server:
        session_id = await server.session()
        assert (await server.http.post(f"/v1/sessions/{session_id}/cancel")).ok()["runs"] == []
        run = await server.prompt(session_id)
        assert (await server.ended(run["run"]["id"]))["state"] == "completed"


@pytest.mark.promise("C1", "C3", "C9", "C10")
async def test_a_cancel_by_one_client_is_a_cancelled_end_for_the_other_and_no_error(home: Path) -> None:
    async with run_server(home, answering(HANGING)) as server:
        session_id = await server.session()
        run = await server.prompt(session_id, "do it")
        queued = await server.prompt(session_id, "then that")
        run_id, queued_id = run["run"]["id"], queued["run"]["id"]
        prompter = asyncio.create_task(server.ended(run_id))
        await streaming(server, run_id)
        receipt = (await server.tcp.post(f"/v1/sessions/{session_id}/cancel")).ok()
        assert [(line["run_id"], line["was"], line["ended_as"], line["prompt"]) for line in receipt["runs"]] == [
            (run_id, "active", "cancelled", "do it"),
            (queued_id, "queued", "cancelled", "then that"),
        ]
        end = await prompter
        assert (end["state"], end["reason"], end["error"], end["text"]) == (
            "cancelled",
            "user_cancel",
            None,
            "begun ",
        )
        again = (await server.http.post(f"/v1/runs/{run_id}/cancel")).ok()
        assert [(line["was"], line["ended_as"]) for line in again["runs"]] == [("cancelled", "cancelled")]
        assert await server.ended(run_id) == end


@pytest.mark.promise("C4")
async def test_a_cancel_can_be_of_the_active_run_of_one_run_or_of_all(home: Path) -> None:
    async with run_server(home, answering(HANGING, text("second"))) as server:
        session_id = await server.session()
        active, second, third = [(await server.prompt(session_id))["run"]["id"] for _ in range(3)]
        await streaming(server, active)
        one = (await server.http.post(f"/v1/runs/{third}/cancel", {})).ok()
        assert [line["run_id"] for line in one["runs"]] == [third]
        only = (await server.http.post(f"/v1/sessions/{session_id}/cancel", {"scope": "active"})).ok()
        assert [line["run_id"] for line in only["runs"]] == [active]
        assert (await server.ended(second))["state"] == "completed"
        unknown = await server.http.post("/v1/runs/run_unknown/cancel")
        assert (unknown.status, unknown.code) == (404, "run_not_found")


@pytest.mark.promise("C4", "R6")
async def test_a_joined_run_is_cancelled_with_its_host_only(home: Path) -> None:
    async with run_server(home, answering(HELD, HANGING)) as server:
        session_id = await server.session()
        host = (await server.prompt(session_id))["run"]["id"]
        await streaming(server, host)
        steer = (await server.prompt(session_id, delivery="steer"))["run"]["id"]
        async with server.http.stream(f"/v1/workspaces/{server.workspace_id}/events?session={session_id}") as stream:
            server.provider.open("go")
            await stream.until("run.joined")
        refused = await server.http.post(f"/v1/runs/{steer}/cancel")
        assert (refused.status, refused.code) == (409, "run_joined")
        assert host in refused.body.decode()
        (await server.http.post(f"/v1/runs/{host}/cancel")).ok()
        assert (await server.ended(steer))["state"] == "cancelled"


@pytest.mark.promise("R6")
async def test_a_steer_that_names_the_settings_of_the_active_run_joins_it(home: Path) -> None:
    async with run_server(home, answering(HELD, HELD)) as server:
        models = (await server.http.get(f"/v1/models?workspace={server.workspace_id}")).ok()
        named = {"model": models["large"], "mode": "ask", "limits": {"max_steps": 500}}
        change = {"limits.max_steps": 500}
        (await server.http.send("PATCH", f"/v1/workspaces/{server.workspace_id}/config", {"changes": change})).ok()
        for host, steer in (({}, named), (named, {})):
            session_id = await server.session()
            hosting = (await server.prompt(session_id, **host))["run"]["id"]
            accepted = await server.prompt(session_id, delivery="steer", **steer)
            assert (accepted["decision"], accepted["host_run_id"]) == ("steered", hosting)
            for other in ({"model": "offline/demo"}, {"mode": "plan"}, {"limits": {"max_steps": 7}}):
                refused = await server.prompt(session_id, delivery="steer", **(named | other))
                assert (refused["decision"], refused["not_steered"]) == ("queued", "settings")
            (await server.http.post(f"/v1/sessions/{session_id}/cancel")).ok()


@pytest.mark.promise("R5")
async def test_a_paused_queue_can_be_edited_moved_and_goes_on_when_resumed(home: Path) -> None:
    async with run_server(home, answering(HANGING)) as server:
        session_id = await server.session()
        active, first, second = [(await server.prompt(session_id, word))["run"]["id"] for word in ("a", "b", "c")]
        await streaming(server, active)
        queue = (await server.http.post(f"/v1/sessions/{session_id}/pause")).ok()
        assert (queue["paused"], queue["run_ids"], queue["active"]) == ("user", [first, second], active)
        moved = (await server.http.send("PATCH", f"/v1/runs/{second}", {"position": 1, "prompt": "d"})).ok()
        assert moved["prompt"] == "d"
        view = (await server.http.get(f"/v1/sessions/{session_id}")).ok()
        assert view["queue"]["run_ids"] == [second, first]
        refused = await server.http.send("PATCH", f"/v1/runs/{active}", {"prompt": "late"})
        assert (refused.status, refused.code) == (409, "not_queued")
        nothing = await server.http.send("PATCH", f"/v1/runs/{first}", {})
        assert nothing.status == 400
        (await server.http.post(f"/v1/runs/{active}/cancel")).ok()
        (await server.http.post(f"/v1/sessions/{session_id}/resume")).ok()
        ends = [await server.ended(run_id) for run_id in (second, first)]
        assert [(run["state"], run["prompt"]) for run in ends] == [("completed", "d"), ("completed", "b")]
        listed = (await server.http.get(f"/v1/sessions/{session_id}/runs?state=completed&limit=1")).ok()
        assert len(listed["items"]) == 1
        rest = (await server.http.get(f"/v1/sessions/{session_id}/runs?limit=50&before={listed['next']}")).ok()
        assert [run["seq"] for run in rest["items"]] == sorted((run["seq"] for run in rest["items"]), reverse=True)


async def test_a_session_and_its_first_run_are_made_together(home: Path) -> None:
    async with run_server(home) as server:
        target = f"/v1/workspaces/{server.workspace_id}/runs"
        made = (await server.http.post(target, {"prompt": "hi", "title": "Mine", "run_id": "r"})).ok(202)
        again = (await server.http.post(target, {"prompt": "hi", "title": "Mine", "run_id": "r"})).ok(202)
        assert made["run"]["session_id"] == again["run"]["session_id"]
        other = await server.http.post(target, {"prompt": "hi", "title": "Yours", "run_id": "r"})
        assert other.code == "run_id_reused"
        session = (await server.http.get(f"/v1/sessions/{made['run']['session_id']}")).ok()
        assert session["title"] == "Mine"
        unknown = await server.http.post("/v1/workspaces/wsp_unknown/runs", {"prompt": "hi"})
        assert (unknown.status, unknown.code) == (404, "workspace_not_found")


@pytest.mark.promise("W2", "R3")
async def test_a_prompt_opens_a_workspace_that_was_closed(home: Path) -> None:
    async with run_server(home) as server:
        session_id = await server.session()
        closed = (await server.http.send("DELETE", f"/v1/workspaces/{server.workspace_id}")).ok()
        assert closed["open"] is False
        run = await server.prompt(session_id)
        assert (await server.ended(run["run"]["id"]))["state"] == "completed"
        assert (await server.http.get(f"/v1/workspaces/{server.workspace_id}")).ok()["open"] is True


@pytest.mark.promise("W2", "W9")
async def test_a_queue_is_held_changed_and_released_after_its_workspace_was_closed(home: Path) -> None:
    async with run_server(home, answering(HANGING)) as server:
        session_id = await server.session()
        active, queued = [(await server.prompt(session_id))["run"]["id"] for _ in range(2)]
        await streaming(server, active)
        for what in ("pause", "resume", "cancel"):
            (await server.http.send("DELETE", f"/v1/workspaces/{server.workspace_id}")).ok()
            answer = (await server.http.post(f"/v1/sessions/{session_id}/{what}")).ok()
            if what == "pause":
                assert (answer["run_ids"], answer["paused"]) == ([queued], "user")
                changed = (await server.http.send("DELETE", f"/v1/workspaces/{server.workspace_id}")).ok()
                assert changed["open"] is False
                (await server.http.send("PATCH", f"/v1/runs/{queued}", {"prompt": "other"})).ok()
        (await server.http.send("DELETE", f"/v1/workspaces/{server.workspace_id}")).ok()
        idle = await server.session()
        for what in ("pause", "resume", "cancel"):
            (await server.http.post(f"/v1/sessions/{idle}/{what}")).ok()


@pytest.mark.promise("W9")
async def test_a_prompt_that_cannot_be_run_stores_nothing(home: Path) -> None:
    async with run_server(home) as server:
        session_id = await server.session()
        before = server.app.store.last_number
        file = {"name": "a", "media_type": "text/plain"}
        for body, status, code in (
            ({"prompt": "  "}, 400, "invalid_request"),
            ({"prompt": "x", "run_id": "../x"}, 400, "invalid_request"),
            ({"prompt": "x", "model": "nobody/has-this"}, 409, "no_model"),
            ({"prompt": "x", "limits": {"max_steps": 0}}, 400, "invalid_request"),
            ({"prompt": "x", "kind": "delete"}, 400, "invalid_request"),
            ({"prompt": "x", "attachments": [file]}, 400, "invalid_request"),
            ({"prompt": "x", "attachments": [{**file, "data": "?"}]}, 400, "invalid_request"),
        ):
            refused = await server.http.post(f"/v1/sessions/{session_id}/runs", body)
            assert (refused.status, refused.code) == (status, code), body
        assert server.app.store.last_number == before


async def test_an_attached_text_is_enough_and_half_a_surrogate_pair_is_replaced(home: Path) -> None:
    async with run_server(home) as server:
        session_id = await server.session()
        attached = {"type": "file", "name": "a.txt", "media_type": "text/plain", "text": "words"}
        run = await server.prompt(session_id, "", attachments=[attached])
        assert run["run"]["attachments"] == [attached]
        target = f"/v1/sessions/{session_id}/runs"
        mended = await server.http.send("POST", target, body=b'{"prompt": "a\\ud83d b"}')
        assert mended.ok(202)["run"]["prompt"] == "a\ufffd b"


async def test_shell_compact_undo_and_redo_go_through_the_lane(home: Path) -> None:
    async with run_server(home) as server:
        session_id = await server.session()
        for what, body in (("shell", {"command": "echo out"}), ("undo", None), ("redo", {}), ("compact", {})):
            accepted = (await server.http.post(f"/v1/sessions/{session_id}/{what}", body)).ok(202)
            assert accepted["run"]["kind"] == what
            end = await server.ended(accepted["run"]["id"])
            assert end["state"] in ("completed", "failed"), end
        messages = (await server.http.get(f"/v1/sessions/{session_id}/messages")).ok()["items"]
        shells = [part for message in messages for part in message["parts"] if part["type"] == "shell"]
        assert shells[-1]["output"].startswith("out\n")
