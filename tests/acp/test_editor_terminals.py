"""Commands in terminals of the editor: real processes, which the editor owns."""

import asyncio
import json
from pathlib import Path

import pytest

from holdfast.tools.process.command_process import CommandLauncher
from tests.acp.acp_peer import recorded
from tests.acp.test_editor_files import opened, running, told
from tests.support.snapshots import check_snapshot

GOLDEN = Path(__file__).with_name("golden")
CONFIG = "[acp]\nterminals = true\n"
FREE = {"escalate": "unconfined", "reason": "a test"}


async def test_a_command_runs_in_a_terminal_of_the_editor(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-the-editor")
    async with running(home, CONFIG) as server, opened(server, fs={}, terminal=True) as (peer, session):
        command = "printf 'one\\ntwo\\n'; echo \"key=$ANTHROPIC_API_KEY\"; pwd; exit 3"
        result = await told(peer, session, "bash", command=command, **FREE)
        assert "one\ntwo\nkey=\n" in result
        assert f"{server.work}\n[exit code 3," in result
        assert "in a terminal of the user's editor" in result
        (call,) = peer.call_view()
        assert call["content"] == [{"type": "terminal", "terminalId": "term_1"}]
        assert call["status"] == "failed"
        assert peer.terminals["term_1"].is_released
        job = await told(peer, session, "bash", command="echo background", background=True)
        assert "editor" not in job
        assert list(peer.terminals) == ["term_1"]


@pytest.mark.promise("C1")
async def test_a_cancel_kills_the_command_in_the_terminal(home: Path) -> None:
    async with running(home, CONFIG) as server, opened(server, fs={}, terminal=True) as (peer, session):
        prompt = asyncio.create_task(
            peer.prompt(session, f"bash {json.dumps({'command': 'echo begun; exec sleep 1000', **FREE})}")
        )
        await peer.until(lambda: "terminalId" in str(peer.call_view()))
        terminal = peer.terminals["term_1"]
        await peer.connection.cancel(session)
        assert (await prompt).stop_reason == "cancelled"
        assert terminal.is_released
        assert await terminal.ended() == -9
        (run,) = (await server.http.get(f"/v1/sessions/{session}/runs")).ok()["items"]
        assert run["state"] == "cancelled"
        assert run.get("left_running", []) == []


async def test_only_commands_outside_the_sandbox_run_in_the_editor(home: Path) -> None:
    async with running(home, CONFIG) as server:
        if await CommandLauncher().sandbox.backend("auto") is None:
            pytest.skip("this machine has no sandbox")
        async with opened(server, fs={}, terminal=True) as (peer, session):
            assert "[exit code 0" in await told(peer, session, "bash", command="touch made")
            assert peer.terminals == {}
            assert "free\n[exit code 0" in await told(peer, session, "bash", command="echo free", **FREE)
            assert list(peer.terminals) == ["term_1"]
            assert len(peer.permissions) == 1
            check_snapshot(GOLDEN / "terminals.txt", recorded(peer, directory=server.work))
