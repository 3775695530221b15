"""A published client drives `holdfast acp`: `acpx` from npm, where it is installed. Nothing is installed here."""

import asyncio
import os
import shutil
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing import TestProvider
from tests.acp.acp_peer import editor_server, server_env
from tests.cli.cli_shell import respond
from tests.support.background_server import serve_in_background
from tests.tui.terminal_process import TerminalProcess

pytestmark = [pytest.mark.stress, pytest.mark.timeout(300)]


def _command(*words: str) -> list[str]:
    found = os.environ.get("HOLDFAST_TEST_ACPX") or shutil.which("acpx")
    if found is None:
        pytest.skip("acpx is not installed; install it with 'npm install -g acpx', or name it in HOLDFAST_TEST_ACPX")
    return [found, "--agent", f"{sys.executable} -m holdfast acp", "--ttl", "20", *words]


async def _acpx(*words: str, env: dict[str, str], directory: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *_command("--approve-all", *words),
        cwd=directory,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode()


async def test_acpx_prompts_loads_and_sets_the_mode(home: Path) -> None:
    async with editor_server(home) as server:
        env = server_env(server)

        async def acpx(*words: str) -> str:
            return await _acpx(*words, env=env, directory=server.work)

        said = await acpx("exec", "!say hello from acpx")
        assert "hello from acpx" in said
        assert "end_turn" in said
        await acpx("sessions", "new")
        assert "first.txt" in await acpx("prompt", "!write first.txt")
        assert (server.work / "first.txt").read_text() == "this is first.txt\n"
        assert "plan" in await acpx("set-mode", "plan")
        again = await acpx("prompt", "!say second")
        assert "second" in again
        assert "error" not in again.lower()
        listed = (await server.http.get(f"/v1/workspaces/{server.workspace_id}/sessions")).ok()["items"]
        assert len(listed) == 2
        runs = [(await server.http.get(f"/v1/sessions/{one['id']}/runs")).ok()["items"] for one in listed]
        assert sorted(len(one) for one in runs) == [1, 2]
        two = next(one for one in runs if len(one) == 2)
        assert two[0]["mode"] == "plan"


def test_a_person_uses_acpx_in_a_terminal(home: Path) -> None:
    """The answer is on the screen, a permission is asked for and answered with a key, and Ctrl-C cancels the run."""
    with serve_in_background(home, lambda: TestProvider(respond)) as background:
        server = background.server

        def typed(prompt: str) -> TerminalProcess:
            command = _command("--approve-reads", "exec", prompt)
            run = ("-c", "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])")
            return TerminalProcess(*command, program=run, env=server_env(server), cwd=server.work)

        def last_run() -> dict[str, Any]:
            listed = background.do(server.http.get(f"/v1/workspaces/{server.workspace_id}/sessions")).ok()["items"]
            runs = background.do(server.http.get(f"/v1/sessions/{listed[0]['id']}/runs")).ok()["items"]
            found: dict[str, Any] = runs[0]
            return found

        for prompt, key, is_done in (("!bash touch yes", "y", True), ("!bash touch no", "n", False)):
            with closing(typed(prompt)) as terminal:
                terminal.until("(y/N)")
                terminal.send(f"{key}\r")
                terminal.until("done:")
                assert terminal.ended() == (0 if is_done else 5)
            assert (server.work / prompt.rpartition(" ")[2]).exists() == is_done
            assert last_run()["state"] == "completed"
        with closing(typed("!hang the first words")) as terminal:
            terminal.until("the first words")
            terminal.send("\x03")
            status = terminal.ended()
            assert (status, "cancelled" in terminal.text) == (0, True), terminal.text
        assert background.do(server.ended(last_run()["id"]))["state"] == "cancelled"
