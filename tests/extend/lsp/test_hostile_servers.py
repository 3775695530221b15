"""A language server that crashes, hangs, floods or sends rubbish is contained and reported; nothing waits for it."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from holdfast.config.setting_types import Duration
from holdfast.config.settings import LanguageServerSettings, ServerSettings, Settings
from holdfast.errors import ToolError
from holdfast.extend.lsp import language_server
from holdfast.extend.lsp.language_server import MAX_FAILURES, LanguageServer
from holdfast.extend.lsp.language_tools import DefinitionTool, DiagnosticsTool
from holdfast.extend.lsp.message_framing import LanguageServerError
from holdfast.extend.lsp.rename_tool import RenameTool
from tests.support.language_servers import PATIENT, LanguageWorkspace, open_language_workspace, with_tools

_PROGRAM = Path(__file__).with_name("hostile_server.py")


@pytest.fixture
async def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LanguageWorkspace]:
    monkeypatch.setattr(language_server, "_FIRST_PAUSE", 0.01)
    async with open_language_workspace(tmp_path) as workspace:
        workspace.put("a.txt", "one\ntwo\n")
        yield workspace


def _use(workspace: LanguageWorkspace, mode: str) -> Path:
    """Configure the server, unconfined so that it can write its state. Returns the file of the state."""
    state = workspace.directory.parent / "state"
    command = (sys.executable, str(_PROGRAM), mode, str(state))
    own = LanguageServerSettings(command=command, files=("*.txt",), settings={"a": {"b": 7}})
    workspace.settings = Settings(tools=PATIENT, lsp={"hostile": own}, server=ServerSettings(sandbox="off"))
    return state


async def _server(workspace: LanguageWorkspace) -> LanguageServer:
    (server,) = await workspace.servers.servers_for(
        workspace.directory / "a.txt", workspace.settings, {"PATH": os.defpath}
    )
    return server


async def _wait_state(workspace: LanguageWorkspace, text: str) -> None:
    """Wait until a state was announced whose detail has a text."""
    async with asyncio.timeout(40):
        while not any(text in status.detail for status in workspace.statuses):
            await workspace.next_status()


async def _until(condition: Callable[[], bool]) -> None:
    def wait() -> None:
        while not condition():
            time.sleep(0.005)

    async with asyncio.timeout(40):
        await asyncio.to_thread(wait)


async def test_pushed_diagnostics_are_compared_with_those_before_the_edit(workspace: LanguageWorkspace) -> None:
    _use(workspace, "good")
    workspace.put("a.txt", "odd\ntwo\n")
    session = workspace.session()
    await session.view("a.txt")
    told = await workspace.edit(session, "a.txt", "two", "new\n😀 bad")
    assert told.splitlines() == [
        "[hostile: this edit caused 1 new problem:]",
        "a.txt:3:3: error: bad word [hostile]",
        "[hostile: 1 problem that was there before:]",
        "a.txt:1:1: warning: odd word [hostile]",
    ]
    told = await workspace.edit(session, "a.txt", "😀 bad", "good")
    assert told.splitlines()[0] == "[hostile: this edit removed 1 problem]"
    assert await workspace.write(session, "b.txt", "fine\n") == ""


async def test_a_flood_of_diagnostics_is_cut(workspace: LanguageWorkspace) -> None:
    _use(workspace, "flood")
    session = workspace.session()
    told = await workspace.write(session, "b.txt", "fine\n")
    assert told.splitlines()[0] == "[hostile: this edit caused 1,000 new problems:]"
    assert len(told) < 10_000


async def test_diagnostics_that_are_rubbish_are_left_out(workspace: LanguageWorkspace) -> None:
    _use(workspace, "rubbish-items")
    told = await workspace.write(workspace.session(), "b.txt", "bad\n")
    assert told.splitlines() == ["[hostile: this edit caused 1 new problem:]", "b.txt:1:1: error: bad word [hostile]"]


async def test_a_server_without_diagnostics_costs_only_the_configured_wait(workspace: LanguageWorkspace) -> None:
    _use(workspace, "silent")
    workspace.settings = with_tools(workspace.settings, lsp_wait=Duration(0.2))
    server = await _server(workspace)
    await server.wait_ready()
    told = await workspace.write(workspace.session(), "b.txt", "bad\n")
    assert told == "[hostile did not answer within 0.2 s; call diagnostics to get its diagnostics]"


@pytest.mark.parametrize("mode", ["crash", "rubbish-start"])
async def test_a_server_that_never_works_is_given_up_and_can_be_restarted(
    workspace: LanguageWorkspace, mode: str
) -> None:
    _use(workspace, mode)
    server = await _server(workspace)
    await _wait_state(workspace, "'holdfast lsp restart hostile' starts it again")
    assert server.state == "failed"
    pauses = [status.detail for status in workspace.statuses if "again in" in status.detail]
    assert len(pauses) == MAX_FAILURES - 1
    assert [float(detail.rpartition("again in ")[2].split()[0]) for detail in pauses] == [0.01, 0.02, 0.04, 0.08]
    reason = {"crash": "fatal: out of ideas", "rubbish-start": "something that is no message of the protocol"}[mode]
    assert reason in server.status().detail
    told = await workspace.write(workspace.session(), "b.txt", "bad\n")
    assert told.startswith("[hostile does not run: ")
    workspace.statuses.clear()
    await workspace.servers.restart("hostile")
    await _wait_state(workspace, "again in 0.01 s")
    if mode == "crash":
        assert "out of ideas" in workspace.servers.log("hostile")


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("die", "it exited with code -6"),
        ("wrong-length", "without a length|not valid"),
        ("huge-length", "99,999,999,999 bytes"),
        ("not-json", "not valid"),
        ("message-flood", "messages with"),
    ],
)
async def test_a_server_that_breaks_the_protocol_is_started_again(
    workspace: LanguageWorkspace, mode: str, told: str
) -> None:
    _use(workspace, mode)
    session = workspace.session()
    with pytest.raises(LanguageServerError, match=told):
        await workspace.call(DefinitionTool(workspace.servers), session, path="a.txt", line=1, symbol="one")
    async with asyncio.timeout(40):
        while [status.state for status in workspace.statuses].count("ready") < 2:
            await workspace.next_status()
    found = await workspace.call(DiagnosticsTool(workspace.servers), session, path="a.txt")
    assert found.text == "hostile: no errors or warnings"


async def test_an_answer_of_the_wrong_type_is_an_error_and_the_server_stays(workspace: LanguageWorkspace) -> None:
    _use(workspace, "rubbish-answer")
    with pytest.raises(LanguageServerError, match="not valid"):
        await workspace.call(DefinitionTool(workspace.servers), workspace.session(), path="a.txt", line=1, symbol="one")
    assert (await _server(workspace)).state == "ready"


async def test_a_server_that_does_not_answer_three_times_is_started_again(workspace: LanguageWorkspace) -> None:
    _use(workspace, "hang")
    server = await _server(workspace)
    await server.wait_ready()
    server._timeout = 0.05
    for _ in range(3):
        with pytest.raises(LanguageServerError, match=r"did not answer 'textDocument/definition' within 0\.05 s"):
            await workspace.call(
                DefinitionTool(workspace.servers), workspace.session(), path="a.txt", line=1, symbol="one"
            )
    await _wait_state(workspace, "it is started again")
    assert "3 requests were not answered" in server.log.text


async def test_a_cancel_reaches_the_server_and_leaves_no_request(workspace: LanguageWorkspace) -> None:
    state = _use(workspace, "hang")
    server = await _server(workspace)
    await server.wait_ready()
    work = workspace.call(DefinitionTool(workspace.servers), workspace.session(), path="a.txt", line=1, symbol="one")
    task = asyncio.create_task(work)
    await _until(lambda: server.pending == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert server.pending == 0
    await _until(state.exists)
    assert await asyncio.to_thread(state.read_text) == "cancelled\n"


async def test_a_server_that_hangs_at_its_start_is_killed_with_the_workspace(workspace: LanguageWorkspace) -> None:
    _use(workspace, "hang-start")
    server = await _server(workspace)
    workspace.settings = with_tools(workspace.settings, lsp_timeout=Duration(0.05))
    with pytest.raises(ToolError, match="still starting"):
        await workspace.call(DiagnosticsTool(workspace.servers), workspace.session(), path="a.txt")
    assert server.state == "starting"
    await workspace.servers.close()
    assert workspace.servers.statuses() == []


async def test_requests_of_a_server_are_answered_and_it_may_not_edit(workspace: LanguageWorkspace) -> None:
    state = _use(workspace, "asks")
    await (await _server(workspace)).wait_ready()
    await _until(lambda: state.exists() and state.read_text().count("\n") == 3)
    text = await asyncio.to_thread(state.read_text)
    edit, unknown, configuration = text.splitlines()
    assert '"applied": false' in edit.replace('":', '": ').replace(":  ", ": ")
    assert "-32601" in unknown
    assert '"result": [7, {"a": {"b": 7}}]' in configuration


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("rename-outside", "outside the workspace"),
        ("rename-traversal", "outside the workspace"),
        ("rename-link", "symlink"),
        ("rename-delete", "delete files"),
        ("rename-overlap", "overlap"),
        ("rename-changes", "another change than the one in the plan"),
    ],
)
async def test_a_rename_that_is_not_what_it_should_be_changes_nothing(
    workspace: LanguageWorkspace, mode: str, told: str
) -> None:
    _use(workspace, mode)
    outside = workspace.directory.parent / "outside.txt"
    outside.write_text("mine\n")
    (workspace.directory / "link.txt").symlink_to(outside)
    before = workspace.tree()
    with pytest.raises(ToolError, match=told) as caught:
        await workspace.call(
            RenameTool(workspace.servers), workspace.session(), path="a.txt", line=1, symbol="one", new_name="six"
        )
    assert caught.value.message.endswith("Nothing was changed.")
    assert workspace.tree() == before


async def test_huge_and_binary_files_are_not_sent(workspace: LanguageWorkspace) -> None:
    _use(workspace, "good")
    session = workspace.session()
    assert await workspace.write(session, "huge.txt", "bad\n" * 300_000) == (
        "['huge.txt' is too large for a language server]"
    )
    workspace.put("binary.txt", b"\0\1bad")
    with pytest.raises(ToolError, match="not text"):
        await workspace.call(DiagnosticsTool(workspace.servers), session, path="binary.txt")


async def test_a_line_without_the_symbol_is_an_error_that_says_where_it_is(workspace: LanguageWorkspace) -> None:
    _use(workspace, "good")
    with pytest.raises(ToolError, match=r"line 1 of 'a.txt' does not contain 'two'; it is in line 2"):
        await workspace.call(DefinitionTool(workspace.servers), workspace.session(), path="a.txt", line=1, symbol="two")
    with pytest.raises(ToolError, match=r"no language server serves 'b\.py'"):
        await workspace.call(DefinitionTool(workspace.servers), workspace.session(), path="b.py", line=1, symbol="two")


async def test_a_configured_server_that_is_not_installed_is_reported(workspace: LanguageWorkspace) -> None:
    own = LanguageServerSettings(command=("no-such-server",), files=("*.txt",))
    workspace.settings = Settings(tools=PATIENT, lsp={"missing": own})
    told = await workspace.write(workspace.session(), "b.txt", "bad\n")
    assert "[missing does not run: 'no-such-server' is not installed" in told


async def test_without_a_sandbox_a_server_that_runs_project_code_must_be_configured(
    workspace: LanguageWorkspace,
) -> None:
    workspace.put("a.rs", "fn main() {}\n")
    workspace.install("rust-analyzer", Path("/bin/false"))
    workspace.settings = Settings(tools=PATIENT, server=ServerSettings(sandbox="off"))
    told = await workspace.write(workspace.session(), "b.rs", "fn b() {}\n")
    assert "no sandbox works here" in told
    assert "[lsp.rust-analyzer]" in told
