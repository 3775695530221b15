"""Whole conversations with an editor: the library's client, a real server, a scripted provider."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from acp.exceptions import RequestError
from acp.schema import (
    EmbeddedResourceContentBlock,
    HttpMcpServer,
    ImageContentBlock,
    McpServerStdio,
    ResourceContentBlock,
    SseMcpServer,
    TextResourceContents,
)

from holdfast.testing import Call, calls, text
from tests.acp.acp_peer import EditorPeer, call_as_told, editor_in_process, editor_process, editor_server, recorded
from tests.support.mcp_peers import library_server, plain_command
from tests.support.running_server import RunningServer
from tests.support.snapshots import check_snapshot

GOLDEN = Path(__file__).with_name("golden")


@pytest.fixture
async def server(home: Path) -> AsyncIterator[RunningServer]:
    async with editor_server(home) as server:
        yield server


@asynccontextmanager
async def _editor(server: RunningServer, **capabilities: Any) -> AsyncIterator[EditorPeer]:
    async with editor_in_process(server) as peer:
        await peer.initialize(**capabilities)
        yield peer


def check_golden(name: str, peer: EditorPeer, server: RunningServer) -> None:
    check_snapshot(GOLDEN / f"{name}.txt", recorded(peer, directory=server.work))


async def test_a_prompt_over_real_stdio(server: RunningServer) -> None:
    """The command itself, as an editor starts it."""
    async with editor_process(server) as peer:
        await peer.initialize()
        session = await peer.new(server.work)
        done = await peer.prompt(session, "!say hello from the agent")
        assert done.stop_reason == "end_turn"
        assert done.usage.total_tokens == 120
        assert peer.text() == "hello from the agent"
        await peer.until(lambda: peer.updates("available_commands_update"))
        await peer.until(lambda: peer.updates("session_info_update"))
        assert peer.updates("usage_update")[-1]["used"] == 120
        check_golden("prompt", peer, server)


async def test_tool_calls_plans_and_permissions_are_shown(server: RunningServer) -> None:
    async with _editor(server) as peer:
        session = await peer.new(server.work)
        await peer.prompt(session, "!bash printf 'one\\ntwo\\n'")
        await peer.prompt(session, "!todos look around")
        await peer.prompt(session, "!write notes.txt")
        run, todos, write = peer.call_view()
        assert (run["kind"], run["status"], run["title"]) == ("execute", "completed", "Run printf 'one\\ntwo\\n'")
        assert "one\ntwo" in run["content"][0]["content"]["text"]
        assert todos["status"] == "completed"
        assert write["content"] == [
            {"type": "diff", "path": str(server.work / "notes.txt"), "newText": "this is notes.txt\n"}
        ]
        assert write["locations"] == [{"path": str(server.work / "notes.txt"), "line": 1}]
        assert peer.updates("plan") == [
            {
                "sessionUpdate": "plan",
                "entries": [{"content": "look around", "priority": "medium", "status": "in_progress"}],
            }
        ]
        (call, offered), *_ = peer.permissions[-1:]
        assert call["toolCallId"] == write["toolCallId"]
        assert call["content"][0]["newText"] == "this is notes.txt\n"
        assert offered[0] == "once"
        assert offered[-1] == "deny"
        assert (server.work / "notes.txt").read_text() == "this is notes.txt\n"
        check_golden("tools", peer, server)


async def test_load_replays_everything_and_resume_nothing(server: RunningServer) -> None:
    async with _editor(server) as peer:
        session = await peer.new(server.work)
        await peer.prompt(session, "!say one")
        await peer.prompt(session, "!bash echo two")
    async with _editor(server) as peer:
        listed = await peer.connection.list_sessions(cwd=str(server.work))
        assert [(one.session_id, one.cwd) for one in listed.sessions] == [(session, str(server.work))]
        everywhere = await peer.connection.list_sessions()
        assert [one.session_id for one in everywhere.sessions] == [session]
        await peer.connection.load_session(cwd=str(server.work), session_id=session, mcp_servers=[])
        assert peer.text("user_message_chunk") == "!say one!bash echo two"
        assert peer.text().startswith("one")
        assert [call["status"] for call in peer.call_view()] == ["completed"]
        check_golden("load", peer, server)
    async with _editor(server) as peer:
        await peer.connection.resume_session(cwd=str(server.work), session_id=session)
        forked = await peer.connection.fork_session(cwd=str(server.work), session_id=session)
        assert peer.updates("user_message_chunk") == []
        assert (await peer.prompt(forked.session_id, "!say three")).stop_reason == "end_turn"
        assert peer.text() == "three"
        assert await peer.call("session/delete", {"sessionId": forked.session_id}) == {}
        with pytest.raises(RequestError, match="deleted"):
            await peer.connection.load_session(cwd=str(server.work), session_id=forked.session_id, mcp_servers=[])


async def test_modes_and_options_are_used_for_the_next_prompts(server: RunningServer) -> None:
    async with _editor(server) as peer:
        opened = await peer.connection.new_session(cwd=str(server.work), mcp_servers=[])
        session = opened.session_id
        assert [mode.id for mode in opened.modes.available_modes] == ["ask", "accept_edits", "plan", "auto"]
        assert {option.id: option.current_value for option in opened.config_options} == {
            "mode": "ask",
            "model": "test/test-model",
            "delivery": "queue",
        }
        await peer.connection.set_session_mode(session_id=session, mode_id="plan")
        changed = await peer.connection.set_config_option(config_id="mode", session_id=session, value="auto")
        assert changed.config_options[0].current_value == "auto"
        assert [one["currentModeId"] for one in peer.updates("current_mode_update")] == ["auto"]
        await peer.prompt(session, "!write made.txt")
        assert peer.permissions == []
        for option, value in (("mode", "fast"), ("colour", "blue"), ("model", "no/model")):
            with pytest.raises(RequestError, match="known: "):
                await peer.connection.set_config_option(config_id=option, session_id=session, value=value)
        check_golden("options", peer, server)
    async with _editor(server) as peer:  # a loaded session goes on as it was
        loaded = await peer.connection.load_session(cwd=str(server.work), session_id=session, mcp_servers=[])
        assert loaded.modes.current_mode_id == "auto"


async def test_prompts_have_images_and_resources(server: RunningServer) -> None:
    (server.work / "read me.txt").write_text("a file")
    async with _editor(server) as peer:
        session = await peer.new(server.work)
        uri = f"file://{server.work}/read%20me.txt"
        await peer.prompt(
            session,
            "!echo look at ",
            ResourceContentBlock(type="resource_link", name="read me.txt", uri=uri),
            " and ",
            EmbeddedResourceContentBlock(
                type="resource", resource=TextResourceContents(uri=f"{uri}#L1-3", text="the text of the buffer")
            ),
        )
        assert "look at @read me.txt and @read me.txt:1-3" in peer.text()
        assert "the text of the buffer" in str([one.body["messages"] for one in server.provider.requests])
        image = ImageContentBlock(type="image", data="iVBORw0KGgo=", mime_type="image/png")
        with pytest.raises(RequestError, match="image"):  # the scripted model cannot see
            await peer.prompt(session, "what is this?", image)
        with pytest.raises(RequestError, match="empty"):
            await peer.prompt(session, "  ")
        check_golden("content", peer, server)


async def test_a_model_that_can_see_gets_the_image(home: Path) -> None:
    seeing = "[providers.test.models.test-model]\nimages = true\n"
    async with editor_server(home, config=seeing) as server, _editor(server) as peer:
        session = await peer.new(server.work)
        image = ImageContentBlock(type="image", data="iVBORw0KGgo=", mime_type="image/png")
        assert (await peer.prompt(session, "!say a picture", image)).stop_reason == "end_turn"
        assert any("iVBORw0KGgo=" in str(one.body["messages"]) for one in server.provider.requests)
        check_golden("images", peer, server)


@pytest.mark.promise("W4")
async def test_another_client_answers_first_and_the_editors_request_is_cancelled(server: RunningServer) -> None:
    async with _editor(server) as peer:
        session = await peer.new(server.work)
        asked = asyncio.Event()

        async def never(call: dict[str, Any], offered: list[str]) -> str | None:
            asked.set()
            await asyncio.Event().wait()
            return None

        peer.permit = never
        prompt = asyncio.create_task(peer.prompt(session, "!bash touch made"))
        await asked.wait()
        (approval,) = (await server.http.get(f"/v1/workspaces/{server.workspace_id}/approvals")).ok()["items"]
        (await server.http.post(f"/v1/approvals/{approval['id']}", {"decision": "once"})).ok()
        assert (await prompt).stop_reason == "end_turn"
        assert (server.work / "made").exists()
        sent = [m for who, m in peer.messages if who == "agent" and m.get("method") == "session/request_permission"]
        cancelled = [m for who, m in peer.messages if m.get("method") == "$/cancel_request"]
        assert [m["params"] for m in cancelled] == [{"requestId": sent[0]["id"]}]
        assert peer.call_view()[0]["status"] == "completed"
        check_golden("answered_elsewhere", peer, server)


@pytest.mark.parametrize(("option", "status"), [("deny", "failed"), ("always", "completed")])
async def test_the_editors_answer_decides(server: RunningServer, option: str, status: str) -> None:
    async with _editor(server) as peer:

        async def choose(call: dict[str, Any], offered: list[str]) -> str:
            assert offered == ["once", "session", "always", "everywhere", "deny"]
            return option

        peer.permit = choose
        session = await peer.new(server.work)
        await peer.prompt(session, "!bash touch made")
        await peer.prompt(session, "!bash touch again")
        assert [call["status"] for call in peer.call_view()] == [status, status]
        assert len(peer.permissions) == (2 if option == "deny" else 1)


async def test_questions_are_forms_or_choices(server: RunningServer) -> None:
    async with _editor(server, elicitation={"form": {}}) as peer:
        peer.form_answer = {"answer1": "blue"}
        session = await peer.new(server.work)
        await peer.prompt(session, "!ask which colour?")
        assert "blue" in peer.text()
        assert len(peer.forms) == 1
        check_golden("form", peer, server)
    async with _editor(server) as peer:

        async def first(call: dict[str, Any], offered: list[str]) -> str:
            return offered[0]

        peer.permit = first
        session = await peer.new(server.work)
        await peer.prompt(session, "!ask which colour?")
        assert "red" in peer.text()


@pytest.mark.promise("C1", "C5")
async def test_cancel_is_answered_after_the_receipt_and_the_end(server: RunningServer) -> None:
    async with _editor(server) as peer:
        session = await peer.new(server.work)
        first = asyncio.create_task(peer.prompt(session, "!hang half an answer"))
        await peer.until(lambda: "half an answer" in peer.text())
        second = asyncio.create_task(peer.prompt(session, "!say never"))
        await peer.until(lambda: "Queued: the prompt is number 1" in peer.text())
        await peer.connection.cancel(session)
        third = asyncio.create_task(peer.prompt(session, "!say after the cancel"))
        assert [(await one).stop_reason for one in (first, second, third)] == ["cancelled", "cancelled", "end_turn"]
        assert "never" not in peer.text()
        assert peer.text().endswith("after the cancel")
        runs = (await server.http.get(f"/v1/sessions/{session}/runs")).ok()["items"]
        assert [run["state"] for run in runs] == ["completed", "cancelled", "cancelled"]
        check_golden("cancel", peer, server)


async def test_one_request_is_cancelled_and_the_queue_goes_on(server: RunningServer) -> None:
    async with _editor(server) as peer:
        session = await peer.new(server.work)
        first = asyncio.create_task(peer.prompt(session, "!hang half"))
        await peer.until(lambda: "half" in peer.text())
        second = asyncio.create_task(peer.prompt(session, "!say next"))
        await peer.until(lambda: "Queued" in peer.text())
        number = next(m["id"] for who, m in peer.messages if m.get("method") == "session/prompt")
        await peer.connection._conn.send_notification("$/cancel_request", {"requestId": number})
        assert (await first).stop_reason == "cancelled"
        assert (await second).stop_reason == "end_turn"


@pytest.mark.promise("R10", "E2")
async def test_the_editor_is_killed_and_load_shows_all(server: RunningServer) -> None:
    async with editor_process(server) as peer:
        await peer.initialize()
        session = await peer.new(server.work)
        prompt = asyncio.create_task(peer.prompt(session, "!gate later"))
        await peer.until(lambda: "before the gate" in peer.text())
        assert peer.process is not None
        peer.process.kill()
        await peer.process.wait()
        with pytest.raises((ConnectionError, asyncio.CancelledError)):
            await prompt
    async with _editor(server) as peer:
        await peer.connection.load_session(cwd=str(server.work), session_id=session, mcp_servers=[])
        server.provider.open("later")
        await peer.until(lambda: peer.text().endswith("after the gate"))
        assert peer.text() == "before the gate, after the gate"


@pytest.mark.promise("W7")
async def test_several_editors_see_each_others_work(server: RunningServer) -> None:
    async with _editor(server) as one, _editor(server) as two:
        session = await one.new(server.work)
        await two.connection.resume_session(cwd=str(server.work), session_id=session)
        await one.prompt(session, "!bash echo from one")
        await two.until(lambda: [call["status"] for call in two.call_view()] == ["completed"])
        assert two.text("user_message_chunk") == "!bash echo from one"
        assert one.text("user_message_chunk") == ""
        running = asyncio.create_task(two.prompt(session, "!hang from two"))
        await one.until(lambda: "from two" in one.text())
        await one.connection.cancel(session)
        assert (await running).stop_reason == "cancelled"
        check_golden("two_editors", two, server)


async def test_built_in_commands_and_those_of_files(server: RunningServer) -> None:
    async with _editor(server) as peer:
        session = await peer.new(server.work)
        await peer.until(lambda: peer.updates("available_commands_update"))
        names = [one["name"] for one in peer.updates("available_commands_update")[-1]["availableCommands"]]
        assert names[:5] == ["compact", "accept", "undo", "redo", "init"]
        await peer.prompt(session, "!write notes.txt")
        assert (await peer.prompt(session, "/undo")).stop_reason == "end_turn"
        assert not (server.work / "notes.txt").exists()
        assert (await peer.prompt(session, "/redo")).stop_reason == "end_turn"
        assert (server.work / "notes.txt").exists()
        assert (await peer.prompt(session, "/compact")).stop_reason == "end_turn"
        check_golden("commands", peer, server)


async def test_failures_are_errors_and_limits_are_stop_reasons(server: RunningServer) -> None:
    async with _editor(server) as peer:
        session = await peer.new(server.work)
        with pytest.raises(RequestError) as failed:
            await peer.prompt(session, "!status 400")
        assert failed.value.data["state"] == "failed"
        assert (await peer.prompt(session, "!refuse")).stop_reason == "refusal"
        with pytest.raises(RequestError) as refused:
            await peer.prompt(session, "!status 401")
        assert refused.value.code == -32000
        check_golden("failures", peer, server)


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_mcp_servers_at_an_address_are_called(server: RunningServer, transport: str) -> None:
    """A server made with the protocol's library, on a real socket; the editor passes its address."""
    kinds = {"http": HttpMcpServer, "sse": SseMcpServer}
    served = {"http": "streamable-http", "sse": "sse"}[transport]
    async with library_server(served) as url, _editor(server) as peer:
        given = kinds[transport](type=transport, name="remote", url=url, headers=[])
        session = await peer.new(server.work, mcp_servers=[given])
        ready = (await server.http.get(f"/v1/sessions/{session}/mcp?wait=30")).ok()["items"]
        assert [(one["name"], one["state"]) for one in ready] == [("remote", "ready")]
        server.provider._respond = call_as_told
        assert (await peer.prompt(session, 'remote__add {"a": 2, "b": 40}')).stop_reason == "end_turn"
        (call,) = peer.call_view()
        assert call["status"] == "completed"
        assert "42" in peer.text()
        check_golden(f"mcp_{transport}", peer, server)


async def test_mcp_servers_of_the_editor_are_used_for_its_session(server: RunningServer) -> None:
    program, *arguments = plain_command()
    works = McpServerStdio(name="My tools", command=program, args=arguments, env=[])
    broken = McpServerStdio(name="broken", command="/no/such/program", args=[], env=[])
    async with _editor(server) as peer:
        session = await peer.new(server.work, mcp_servers=[works, broken])
        await peer.until(lambda: "broken" in peer.text())
        assert "My-tools" not in peer.text()
        await peer.prompt(session, "!say with them")
        offered = [tool["function"]["name"] for tool in server.provider.requests[-2].body.get("tools", [])]
        offered += [tool["function"]["name"] for tool in server.provider.requests[-1].body.get("tools", [])]
        assert any("My-tools" in name or "My_tools" in name for name in offered), offered
        other = await peer.new(server.work)
        before = len(server.provider.requests)
        await peer.prompt(other, "!say without")
        for request in server.provider.requests[before:]:
            assert "My-tools" not in str(request.body.get("tools", []))
    listed = (await server.http.get(f"/v1/sessions/{session}/mcp")).ok()["items"]
    assert listed == []  # the editor has left, and nothing runs
    refused = await server.http.send("PUT", f"/v1/sessions/{session}/mcp", {"servers": [{"name": "none"}]})
    assert refused.status == 400


async def test_files_are_read_as_the_editor_has_them(server: RunningServer) -> None:
    file = server.work / "notes.txt"
    file.write_text("on the disk\n")
    view = calls(Call("view", {"path": "notes.txt"}))
    server.provider._respond = lambda received: (
        view if received.body["messages"][-1]["role"] == "user" else text(str(received.body["messages"][-1]["content"]))
    )
    async with _editor(server, fs={"readTextFile": True}) as peer:
        session = await peer.new(server.work)
        tools = f"/v1/sessions/{session}/tools"
        while not (await server.http.get(tools)).ok()["items"]:  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.01)
        peer.buffers[str(file)] = "in the editor\n"
        await peer.prompt(session, "read it")
        assert "in the editor" in peer.text()
        assert "not saved" in peer.text()
        assert "editor_read_file" not in str(server.provider.requests[-1].body.get("tools"))
        peer.buffers.clear()
        await peer.prompt(session, "read it again")
        assert peer.text().count("on the disk") == 1
        check_golden("files", peer, server)
    async with _editor(server) as peer:  # this one does not offer files
        session = await peer.new(server.work)
        await peer.prompt(session, "read it")
        assert "on the disk" in peer.text()


async def test_closing_cancels_and_an_unused_session_is_deleted(server: RunningServer) -> None:
    async with _editor(server) as peer:
        session, unused = await peer.new(server.work), await peer.new(server.work)
        prompt = asyncio.create_task(peer.prompt(session, "!hang half"))
        await peer.until(lambda: "half" in peer.text())
        await peer.connection.close_session(session)
        assert (await prompt).stop_reason == "cancelled"
        await peer.connection.close_session(unused)
        with pytest.raises(RequestError, match="not open here"):
            await peer.prompt(session, "hello")
    found = (await server.http.get(f"/v1/workspaces/{server.workspace_id}/sessions")).ok()["items"]
    assert [one["id"] for one in found] == [session]
