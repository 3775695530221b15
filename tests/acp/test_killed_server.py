"""The server is killed while an editor waits: the editor is told, and the session goes on."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from acp.exceptions import RequestError

from holdfast.testing import Answer, ReceivedRequest, TestProvider
from tests.acp.acp_peer import call_as_told, editor_with
from tests.cli.cli_shell import CONFIG, respond


def _respond(received: ReceivedRequest) -> Answer:
    """A tool call if the last prompt is one, else its order."""
    prompts = [str(one["content"]) for one in received.body["messages"] if one["role"] == "user"]
    last = [one for one in prompts if not one.startswith("<reminder>")][-1]
    return call_as_told(received) if last.startswith("bash ") else respond(received)


async def _holdfast(*words: str, env: dict[str, str]) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", *words),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=env,
    )
    out, _ = await process.communicate()
    return out.decode()


async def _kill_server(env: dict[str, str]) -> None:
    pid = int(json.loads(await _holdfast("status", "--json", env=env))["server"]["pid"])
    os.kill(pid, signal.SIGKILL)


@asynccontextmanager
async def _own_server(home: Path) -> AsyncIterator[dict[str, str]]:
    """The environment in which ``holdfast acp`` starts a server of its own, and starts it again when it is gone."""
    env = {**os.environ, "HOLDFAST_HOME": str(home / "h")}
    config = home / "h" / "config" / "config.toml"
    config.parent.mkdir(parents=True)
    async with TestProvider(_respond) as provider:
        config.write_text(CONFIG.format(url=provider.url()) + "[acp]\nterminals = true\n")
        try:
            yield env
        finally:
            await _holdfast("stop", env=env)


@pytest.mark.promise("W6", "W13")
async def test_the_server_is_killed_while_an_editor_waits(home: Path) -> None:
    work = home / "work"
    work.mkdir()
    async with _own_server(home) as env:
        async with editor_with(env) as peer:
            await peer.initialize(terminal=True)
            session = await peer.new(work)
            prompt = asyncio.create_task(peer.prompt(session, "!hang half an answer"))
            await peer.until(lambda: "half an answer" in peer.text())
            await _kill_server(env)
            with pytest.raises(RequestError) as killed:
                await prompt
            assert killed.value.data["state"] == "interrupted"
            command = {"command": "exec sleep 1000", "escalate": "unconfined", "reason": "a test"}
            prompt = asyncio.create_task(peer.prompt(session, f"bash {json.dumps(command)}"))
            await peer.until(lambda: "terminalId" in str(peer.call_view()))
            terminal = peer.terminals["term_1"]
            await _kill_server(env)
            with pytest.raises(RequestError) as killed:
                await prompt
            assert killed.value.data["state"] == "interrupted"
            await peer.until(lambda: terminal.is_released)
            assert await terminal.ended() == -signal.SIGKILL
            assert (await peer.prompt(session, "!say it goes on")).stop_reason == "end_turn"
            assert peer.text().endswith("it goes on")
        async with editor_with(env) as peer:
            await peer.initialize()
            await peer.connection.load_session(cwd=str(work), session_id=session, mcp_servers=[])
            shown = peer.text()
            assert shown.startswith("half an answer")
            assert shown.count("The run was interrupted, because the server ended.") == 2
            assert shown.endswith("it goes on")
            assert [call["status"] for call in peer.call_view()] == ["failed"]
