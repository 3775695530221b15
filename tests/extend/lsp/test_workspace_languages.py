"""Language servers in a whole server: only after trust, only if one could serve, and gone when the workspace closes."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import NotFound
from holdfast.models.model_script import ScriptedCall
from holdfast.schema.events import ExtensionChanged
from holdfast.schema.messages import ToolResult
from tests.agent.test_no_process_left import processes
from tests.support.app_harness import AppHarness, open_app_harness, saying

TOOLS = {"diagnostics", "definition", "references", "symbols", "rename"}
_CONFIG = '[server]\nsandbox = "off"\n[tools]\nlsp_wait = "20s"\n'
_HOSTILE = Path(__file__).with_name("hostile_server.py")


def _install(directory: Path, name: str, script: str) -> None:
    program = directory / ".venv/bin" / name
    program.parent.mkdir(parents=True)
    program.write_text(script)
    program.chmod(0o755)


async def _results(harness: AppHarness, session_id: str) -> list[ToolResult]:
    messages = await harness.messages(session_id)
    return [part for message in messages for part in message.parts if isinstance(part, ToolResult)]


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_hostile_repository_starts_nothing_before_it_is_trusted(tmp_path: Path, trusted: bool) -> None:
    """Its programs, its configuration and its settings for servers all point to a canary."""
    canary = tmp_path / "canary"
    calls = (
        ScriptedCall("view", {"path": "a.py"}),
        ScriptedCall("write", {"path": "b.py", "content": "bad\n"}),
        ScriptedCall("diagnostics", {"path": "a.py"}),
    )
    script = saying(*((call,) for call in calls), "done")
    async with open_app_harness(
        tmp_path, script, config='[server]\nsandbox = "off"\n[tools]\nlsp_wait = "20s"\n'
    ) as harness:
        _install(harness.directory, "ruff", f"#!/bin/sh\necho ran >>{canary}\nexec {sys.executable} {_HOSTILE} good\n")
        (harness.directory / "a.py").write_text("one\n")
        (harness.directory / ".holdfast").mkdir()
        (harness.directory / ".holdfast/config.toml").write_text(
            f'[lsp.evil]\ncommand = ["/bin/sh", "-c", "echo evil >>{canary}"]\nfiles = ["*.py"]\n'
        )
        if trusted:
            await harness.app.services.workspaces.trust(harness.workspace_id)
        run = await harness.run("go", mode="auto")
        assert run.state == "completed"
        _, written, diagnostics = await _results(harness, run.session_id)
        listed = await harness.app.services.extensions.list_statuses(harness.workspace_id, wait=0.0)
        states = {status.name: status.state for status in listed.items if status.kind == "lsp"}
        if trusted:
            assert "b.py:1:1: error: bad word [ruff]" in written.text
            assert diagnostics.status == "ok"
            assert states["ruff"] == "ready"
            assert "ran" in canary.read_text()
            events = [event.extension for event in await harness.events() if isinstance(event, ExtensionChanged)]
            assert [event.state for event in events if event.name == "ruff"][:2] == ["starting", "ready"]
        else:
            assert "ruff" not in written.text
            assert "does not exist" in diagnostics.text
            assert states == {"ruff": "disabled"}
            assert not canary.exists()
        await harness.app.services.workspaces.trust(harness.workspace_id, trusted=False)
        opened = await harness.app.open_workspaces.live(harness.workspace_id)
        assert {status.state for status in opened.languages.statuses()} <= {"disabled"}, "they are stopped at once"
        listed = await harness.app.services.extensions.list_statuses(harness.workspace_id, wait=0.0)
        assert {status.state for status in listed.items if status.kind == "lsp"} <= {"disabled"}


async def test_tools_are_offered_only_if_a_server_could_serve_and_the_same_in_the_whole_session(tmp_path: Path) -> None:
    async with open_app_harness(tmp_path, saying("done")) as harness:
        await harness.app.services.workspaces.trust(harness.workspace_id)
        opened = await harness.app.open_workspaces.live(harness.workspace_id)
        settings = (await opened.setup()).settings

        async def names(session_id: str) -> set[str]:
            tools = await opened.languages.tools_for(session_id, settings, {"PATH": ""})
            return {tool.name for tool in tools}

        (harness.directory / "a.py").write_text("one\n")
        assert await names("ses_1") == set()
        _install(harness.directory, "ruff", "#!/bin/sh\n")
        assert await names("ses_1") == set(), "the definitions of a session stay as they are"
        assert await names("ses_2") == TOOLS
        (harness.directory / "a.py").unlink()
        assert await names("ses_2") == TOOLS
        assert await names("ses_3") == set()


async def test_a_server_can_be_restarted_and_its_log_read(tmp_path: Path) -> None:
    script = saying((ScriptedCall("write", {"path": "b.py", "content": "fine\n"}),), "done")
    async with open_app_harness(tmp_path, script, config=_CONFIG) as harness:
        program = f"#!/bin/sh\necho hello from the server >&2\nexec {sys.executable} {_HOSTILE} good\n"
        _install(harness.directory, "ruff", program)
        await harness.app.services.workspaces.trust(harness.workspace_id)
        service = harness.app.services.language_servers
        with pytest.raises(NotFound, match="'holdfast lsp' lists"):
            await service.log(harness.workspace_id, "ruff")
        await harness.run("go", mode="auto")
        assert "hello from the server" in (await service.log(harness.workspace_id, "ruff")).text
        await service.restart(harness.workspace_id, "ruff")
        listed = await harness.app.services.extensions.list_statuses(harness.workspace_id, wait=20.0)
        assert {status.name: status.state for status in listed.items if status.kind == "lsp"} == {"ruff": "ready"}


@pytest.mark.promise("C7")
@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
@pytest.mark.parametrize("mode", ["hang-start", "silent"])
async def test_a_cancel_while_an_edit_waits_for_a_server_ends_the_run_and_closing_ends_the_server(
    tmp_path: Path, mode: str
) -> None:
    script = saying((ScriptedCall("write", {"path": "b.py", "content": "fine\n"}),), "done")
    async with open_app_harness(tmp_path, script, config=_CONFIG.replace("20s", "10m")) as harness:
        state = tmp_path / "lsp-state"
        _install(harness.directory, "ruff", f"#!/bin/sh\nexec {sys.executable} {_HOSTILE} {mode} {state}\n")
        await harness.app.services.workspaces.trust(harness.workspace_id)
        accepted = await harness.start("go", mode="auto")
        await harness.until(ExtensionChanged)
        receipt = await harness.app.engine.cancel_session(accepted.run.session_id)
        assert [line.ended_as for line in receipt.runs] == ["cancelled"]
        assert (await harness.ended(accepted)).state == "cancelled"
        await harness.app.services.workspaces.close(harness.workspace_id)
        assert await asyncio.to_thread(processes, str(state)) == []


def test_the_server_imports_no_language_server_before_one_is_needed() -> None:
    program = (
        "import sys, holdfast.app, holdfast.workspace.workspace_turn\n"
        "print([name for name in sys.modules if '.lsp.' in name])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=50)
    assert done.stdout.strip() == "['holdfast.extend.lsp.workspace_languages']"
