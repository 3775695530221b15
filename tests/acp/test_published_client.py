"""A published client drives `holdfast acp`: `acpx` from npm, where it is installed. Nothing is installed here."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.acp.acp_peer import editor_server, server_env

pytestmark = [pytest.mark.stress, pytest.mark.timeout(300)]


async def _acpx(*words: str, env: dict[str, str], directory: Path) -> str:
    found = os.environ.get("HOLDFAST_TEST_ACPX") or shutil.which("acpx")
    if found is None:
        pytest.skip("acpx is not installed; install it with 'npm install -g acpx', or name it in HOLDFAST_TEST_ACPX")
    process = await asyncio.create_subprocess_exec(
        *(found, "--agent", f"{sys.executable} -m holdfast acp", "--approve-all", "--ttl", "1", *words),
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
