"""What Crush's clients use besides prompts: workspaces, presence, permissions, questions, shell, settings, safety."""

import asyncio
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.app import listen_for_crush
from holdfast.errors import ConfigError
from holdfast.server import ServerParts
from holdfast.testing import Answer, Call, Gate, Say, calls, text
from holdfast.tools.process.process_table import IS_LINUX
from tests.crush.crush_wire import crush_wire, parts_of, text_of
from tests.server.test_tool_peers import answer_to, ask
from tests.support.app_harness import open_app_harness
from tests.support.running_server import answering

HELD = Answer(pieces=(Say("begun "), Gate("go"), Say("and done")))


async def test_a_workspace_is_shared_shown_and_never_stopped_by_a_client(home: Path) -> None:
    async with crush_wire(home) as wire:
        other = await wire.another()
        assert other.workspace_id == wire.workspace_id
        workspace = await wire.get("")
        assert workspace["path"] == str(wire.server.work)
        assert workspace["config"]["models"]["large"] == {"model": "test-model", "provider": "test"}
        assert "sk-planted" not in json.dumps(workspace)
        assert (await wire.http.post("/v1/control", {"command": "shutdown"})).status == 409
        version = (await wire.http.get("/v1/version")).ok()
        assert sorted(version) == ["build_id", "commit", "go_version", "platform", "version"]
        assert (await wire.http.get("/v1/health")).body == b""
        assert (await wire.http.send("DELETE", f"/v1/clients/{wire.client_id}")).status == 200
        late = await wire.http.post("/v1/workspaces", {"path": str(wire.server.work), "client_id": wire.client_id})
        assert late.status == 409
        assert (await other.get(""))["id"] == wire.workspace_id


@pytest.mark.promise("W7")
async def test_viewers_of_a_session_are_counted(home: Path) -> None:
    async with crush_wire(home) as wire:
        session_id = await wire.session("Mine")
        refused = await wire.post(f"/current-session?client_id={wire.client_id}", {"session_id": session_id})
        assert refused.status == 409
        async with wire.events():
            await wire.show(session_id)
            assert (await wire.get(f"/sessions/{session_id}"))["attached_clients"] == 1
            assert (await wire.server.app.services.sessions.view(session_id)).attached[0].name == "crush"
            await wire.show("")
            assert [one["attached_clients"] for one in await wire.get("/sessions")] == [0]


@pytest.mark.promise("W4")
async def test_a_permission_is_asked_for_answered_once_and_shown_to_clients_that_come_later(home: Path) -> None:
    provider = answering(calls(Call("bash", {"command": "touch made"})), text("done"))
    async with crush_wire(home, provider) as wire:
        session_id = await wire.session()
        async with wire.events() as events:
            await wire.show(session_id)
            await wire.accepted(session_id, "make it")
            asked = await events.until("permission_request")
            assert (asked["tool_name"], asked["params"]["command"]) == ("bash", "touch made")
        late = await wire.another()
        async with late.events() as theirs, wire.events() as again:
            assert (await theirs.until("permission_request"))["id"] == asked["id"]
            assert (await again.until("permission_request"))["id"] == asked["id"]  # also after a reconnect
            answers = [
                (await client.post("/permissions/grant", {"permission": asked, "action": action})).ok()["resolved"]
                for client, action in ((wire, "allow"), (late, "allow"), (late, "deny"))
            ]
            assert answers == [True, False, False]
            noted = await theirs.until("permission_notification")
            assert noted == {"tool_call_id": asked["tool_call_id"], "granted": True, "denied": False}
            await theirs.until("run_complete")
        assert (wire.server.work / "made").exists()
        wrong = await wire.post("/permissions/grant", {"permission": asked, "action": "maybe"})
        assert wrong.status == 400


async def test_a_run_that_nobody_watches_is_denied_what_needs_approval_and_skip_mode_allows_it(home: Path) -> None:
    call = calls(Call("bash", {"command": "touch made"}))
    async with crush_wire(home, answering(call, text("denied"), call, text("done"))) as wire, wire.events() as events:
        session_id = await wire.session()
        await wire.accepted(session_id, "make it", "r1")
        assert "approval" in (await events.until("run_complete", run_id="r1"))["error"]
        assert not (wire.server.work / "made").exists()
        assert (await wire.post("/permissions/skip", {"skip": True})).status == 200
        assert await wire.get("/permissions/skip") == {"skip": True}
        await wire.accepted(session_id, "make it", "r2")
        assert (await events.until("run_complete", run_id="r2"))["text"] == "done"
        assert (wire.server.work / "made").exists()


async def test_questions_are_answered_and_dismissed(home: Path) -> None:
    ask_model = calls(Call("ask", {"questions": [{"text": "Which?", "kind": "single", "options": ["red", "blue"]}]}))
    provider = answering(ask_model, text("first"), ask_model, text("second"))
    async with crush_wire(home, provider) as wire, wire.events() as events:
        session_id = await wire.session()
        await wire.accepted(session_id, "ask me")
        batch = await events.until("question_batch_request")
        answer = {
            "batch_request_id": "",
            "responses": [{"request_id": batch["questions"][0]["id"], "selected_ids": ["1"]}],
        }
        assert (await wire.post("/questions/answer", answer)).ok() == {"resolved": True}
        assert (await wire.post("/questions/answer", answer)).ok() == {"resolved": False}
        assert (await events.until("question_batch_notification"))["batch_id"] == batch["id"]
        await events.until("run_complete")
        assert "blue" in json.dumps(await wire.messages(session_id))
        await wire.accepted(session_id, "ask again")
        await events.until("question_batch_request")
        assert (await wire.post("/questions/cancel")).ok() == {"resolved": True}
        assert (await wire.post("/questions/cancel")).ok() == {"resolved": False}


async def test_shell_commands_summaries_titles_and_changed_files(home: Path) -> None:
    write = calls(Call("write", {"path": "new.txt", "content": "one\ntwo\n"}))
    async with crush_wire(home, answering(write, text("written"), text("## Task\nsummed up"))) as wire:
        session_id = await wire.session("New Session")
        assert (await wire.post(f"/agent/sessions/{session_id}/shell", {"command": "echo hi; exit 3"})).ok() == {
            "output": (await wire.server.app.store.messages(session_id, limit=5)).items[-1].parts[0].output,  # type: ignore[union-attr]
            "exit_code": 3,
        }
        await wire.post("/permissions/skip", {"skip": True})
        async with wire.events() as events:
            await wire.accepted(session_id, "write it")
            assert (await events.until("file"))["session_id"] == session_id
            await events.until("run_complete")
        versions = await wire.get(f"/sessions/{session_id}/history")
        assert [(one["path"], one["version"], one["content"]) for one in versions] == [
            (str(wire.server.work / "new.txt"), 0, ""),
            (str(wire.server.work / "new.txt"), 1, "one\ntwo\n"),
        ]
        assert (await wire.post(f"/agent/sessions/{session_id}/summarize")).status == 200
        assert any(one.get("is_summary_message") for one in await wire.messages(session_id))
        renamed = await wire.http.send(
            "PUT", wire.path(f"/sessions/{session_id}"), {"id": session_id, "title": "Named"}
        )
        assert renamed.ok()["title"] == "Named"
        prompts = [text_of(one) for one in await wire.get("/messages/user")]
        assert prompts == ["write it"]
        assert (await wire.http.send("DELETE", wire.path(f"/sessions/{session_id}"))).status == 200
        assert await wire.get("/sessions") == []


async def test_models_and_options_are_chosen_and_announced(home: Path) -> None:
    async with crush_wire(home, answering(text("ok"))) as wire, wire.events() as events:
        chosen = {"model": "demo", "provider": "offline"}
        for_workspace = {"scope": 1, "model_type": "large", "model": chosen}
        answer = await wire.post("/config/model", for_workspace)
        unknown = await wire.post("/config/model", {**for_workspace, "model": {"model": "x", "provider": "y"}})
        assert unknown.status == 400
        assert answer.status == 200
        assert (await wire.get("/agent"))["model_cfg"] == chosen
        for_all = {"scope": 0, "model_type": "large", "model": {"model": "test-model", "provider": "test"}}
        assert (await wire.post("/config/model", for_all)).status == 200
        assert (await events.until("config_changed")) == {"workspace_id": wire.workspace_id}
        info = await wire.get("/agent")
        assert (info["is_ready"], info["model"]["id"]) == (True, "test-model")
        assert (await wire.post("/config/compact", {"scope": 0, "enabled": True})).status == 200
        assert (await wire.get("/config"))["options"]["tui"]["compact_mode"]
        assert (await wire.post("/config/set", {"key": "providers.x", "value": 1})).status == 400
        assert [one["id"] for one in await wire.get("/providers")] != []
        for path in ("/lsps", "/mcp/states", "/skills", "/mcp/prompts", "/project/needs-init"):
            await wire.get(path)
        refused = await wire.post("/mcp/auth", {"name": "x"})
        assert (refused.status, "holdfast mcp login" in refused.json()["message"]) == (400, True)


@pytest.mark.promise("R1")
async def test_after_a_restart_the_same_client_gets_the_partial_answer_and_the_end_it_missed(home: Path) -> None:
    async with crush_wire(home, answering(HELD)) as wire:
        client_id, workspace_id = wire.client_id, wire.workspace_id
        session_id = await wire.session()
        async with wire.events() as events:
            await wire.accepted(session_id, "hello", "r1")
            await events.until_text("begun")
    async with crush_wire(home) as later:
        later.client_id = client_id
        assert later.workspace_id == workspace_id
        async with later.events() as events:
            assert (await events.until("run_complete", run_id="r1"))["error"]
        last = (await later.messages(session_id))[-1]
        assert (text_of(last), parts_of(last, "finish")[0]["message"]) == ("begun ", "Interrupted")


async def test_a_client_that_joins_in_the_middle_gets_the_text_so_far(home: Path) -> None:
    async with crush_wire(home, answering(HELD)) as wire:
        session_id = await wire.session()
        async with wire.events() as events:
            await wire.accepted(session_id, "hello", "r1")
            await events.until_text("begun")
            late = await wire.another()
            async with late.events() as theirs:
                joined = await theirs.until_text("begun")
                assert (joined["session_id"], joined["role"]) == (session_id, "assistant")
                wire.server.provider.open("go")
                await theirs.until_text("begun and done")


@pytest.mark.promise("W8")
@pytest.mark.skipif(not IS_LINUX, reason="reads /proc")
async def test_the_socket_is_private_and_refuses_the_agents_commands(home: Path) -> None:
    async with crush_wire(home) as wire:
        socket = home / "crush.sock"
        assert stat.S_IMODE(socket.stat().st_mode) == 0o600
        request = ask(("AF_UNIX", str(socket), ""))
        assert await answer_to(wire.server.app.shared.launcher, request) == "403"
        origin = await wire.http.get("/v1/workspaces", Origin="http://evil.example")
        assert origin.status == 403


def test_nothing_of_the_face_is_imported_without_it(tmp_path: Path) -> None:
    script = "import holdfast.app, sys; print([name for name in sys.modules if 'crush' in name])"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_serve_refuses_an_address_that_is_no_socket(holdfast_home: Path) -> None:
    command = [sys.executable, "-m", "holdfast", "serve", "--crush", "tcp://127.0.0.1:1"]
    env = {**os.environ, "HOLDFAST_HOME": str(holdfast_home)}
    found = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert (found.returncode, "--crush needs a Unix socket" in found.stderr) == (2, True), found.stderr


async def test_a_configured_socket_is_left_to_a_server_that_uses_it(home: Path) -> None:
    address = f"unix://{home}/c.sock"
    async with open_app_harness(home, config=f'[server]\ncrush = "{address}"\n') as harness:
        app = harness.app
        parts = ServerParts(services=app.services, redactor=lambda: app.shared.keyring.redactor)
        (listener,) = await asyncio.to_thread(listen_for_crush, app, parts, None)
        try:
            assert str(listener) == f"unix:{home}/c.sock"
            assert await asyncio.to_thread(listen_for_crush, app, parts, None) == []
            with pytest.raises(ConfigError, match="Crush's own server answers"):
                await asyncio.to_thread(listen_for_crush, app, parts, address)
        finally:
            listener.socket.close()


async def test_one_end_each_when_many_sessions_are_prompted_together(home: Path) -> None:
    """Crush's own server panics here."""
    async with crush_wire(home, answering(*[text("ok")] * 8)) as wire, wire.events() as events:
        sessions = [await wire.session() for _ in range(8)]
        await asyncio.gather(*(wire.accepted(one, "go", f"r{n}") for n, one in enumerate(sessions)))
        while len({payload["run_id"] for kind, _, payload in events.seen if kind == "run_complete"}) < 8:
            await events.until("run_complete")
        assert [len(events.ends(f"r{n}")) for n in range(8)] == [1] * 8
