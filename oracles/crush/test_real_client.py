"""The real client of Crush on our server: `crush run`, its interface, and a server that is killed.

Run with ``HOLDFAST_CRUSH_BIN=/path/to/crush python -m pytest oracles/crush``. With ``HOLDFAST_CRUSH_RECORD=1`` the
recordings that tests/crush replays are written again.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from oracles.crush.crush_program import CrushProgram
from tests.crush.exchange import FIXTURES, RecordingApp, scripted_provider, wait_for
from tests.support.running_server import RunningServer, run_server


class Trial:
    def __init__(self, crush: CrushProgram, server: RunningServer, recorder: RecordingApp) -> None:
        self.crush = crush
        self.server = server
        self.recorder = recorder

    def record(self, name: str) -> None:
        if os.environ.get("HOLDFAST_CRUSH_RECORD"):
            self.recorder.write(FIXTURES / f"{name}.json", work=self.server.work)

    async def sessions(self) -> list[str]:
        page = await self.server.http.get(f"/v1/workspaces/{self.server.workspace_id}/sessions")
        return [session["id"] for session in page.ok()["items"]]


@asynccontextmanager
async def trial(place: Path, program: str) -> AsyncIterator[Trial]:
    recorders: list[RecordingApp] = []

    def wrap(app: object) -> RecordingApp:
        recorders.append(RecordingApp(app))  # type: ignore[arg-type]
        return recorders[-1]

    address = f"unix://{place}/crush.sock"
    async with run_server(place, scripted_provider(), crush=address, wrap_crush=wrap) as server:
        crush = CrushProgram(program, place, address=address, work=server.work)
        try:
            yield Trial(crush, server, recorders[0])
        finally:
            crush.close_interface()


async def test_crush_run_prints_the_answer_and_its_status(place: Path, crush_binary: str) -> None:
    async with trial(place, crush_binary) as t:
        assert await t.crush.run("hello") == (0, "You said: hello", "")
        t.record("crush_run")
        status, out, _ = await t.crush.run("and this", stdin=b"from stdin")
        assert (status, "from stdin" in out, "and this" in out) == (0, True, True)
        assert (await t.crush.run("list the files"))[:2] == (0, "The tool has answered.")
        status, _, error = await t.crush.run("please fail")
        assert (status, "the key is wrong" in error) == (1, True)
        assert len(await t.sessions()) == 4


async def test_crush_run_continues_sessions(place: Path, crush_binary: str) -> None:
    async with trial(place, crush_binary) as t:
        await t.crush.run("first")
        assert (await t.crush.run("--continue", "second"))[:2] == (0, "You said: second")
        (session_id,) = await t.sessions()
        assert (await t.crush.run("--session", session_id, "third"))[:2] == (0, "You said: third")
        assert await t.sessions() == [session_id]


async def test_two_at_once_in_one_session_each_get_their_own_answer(place: Path, crush_binary: str) -> None:
    async with trial(place, crush_binary) as t:
        await t.crush.run("first")
        found = await asyncio.gather(*(t.crush.run("--continue", f"number {n}") for n in range(3)))
        assert [one[:2] for one in found] == [(0, f"You said: number {n}") for n in range(3)]


async def test_ctrl_c_ends_the_command_and_not_the_run(place: Path, crush_binary: str) -> None:
    async with trial(place, crush_binary) as t:
        process = await t.crush.start_run("slowly")
        await wait_for(lambda: len(t.server.provider.requests) > 0)
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 1
        (session_id,) = await t.sessions()
        runs = (await t.server.http.get(f"/v1/sessions/{session_id}/runs")).ok()["items"]
        assert runs[0]["state"] == "active"


async def test_the_interface(place: Path, crush_binary: str) -> None:
    async with trial(place, crush_binary) as t:
        crush = t.crush
        await crush.run("the other session")
        crush.open_interface()
        await crush.until_shown("ctrl+p commands")
        crush.type("hello", "Enter")
        await crush.until_shown("You said: hello")
        crush.type("run a command", "Enter")
        await crush.until_shown("Permission Required")
        await asyncio.sleep(2)  # its dialog ignores keys for a moment, so that nobody allows something by accident
        crush.type("Enter")
        await crush.until_shown("The tool has answered.")
        assert (t.server.work / "made").exists()
        t.record("crush_interface")
        crush.type("slowly", "Enter")
        await crush.until_shown("word3")
        for prompt in ("queued one", "queued two"):
            crush.type(prompt, "Enter")
        await crush.until_shown("2 Queued")
        crush.type("Escape")
        await wait_for(lambda: "2 Queued" not in crush.screen())
        crush.type("Escape")
        await crush.until_shown("press again to cancel")
        crush.type("Escape")
        await crush.until_shown("Canceled")
        crush.type("C-l")
        await crush.until_shown("Switch Model")
        crush.type("Escape")
        await wait_for(lambda: "Switch Model" not in crush.screen())
        crush.type("C-s")
        await crush.until_shown("Enter session name")
        crush.type("Down", "Enter")
        await crush.until_shown("You said: the other session")
        assert "Canceled" not in crush.screen()
        crush.type("C-s")
        await crush.until_shown("Enter session name")
        crush.type("Down", "Enter")
        await crush.until_shown("Canceled")
        crush.type("C-c")
        await crush.until_shown("quit?")
        crush.type("y")
        await wait_for(lambda: not crush.is_open())


async def test_the_interface_recovers_from_a_server_that_is_killed_in_the_middle_of_an_answer(
    place: Path, crush_binary: str
) -> None:
    (place / "work").mkdir()
    async with scripted_provider() as provider:
        server = start_server(place, provider.url())
        crush = CrushProgram(crush_binary, place, address=f"unix://{place}/crush.sock", work=place / "work")
        try:
            await wait_for((place / "crush.sock").exists)
            crush.open_interface()
            await crush.until_shown("ctrl+p commands")
            crush.type("slowly", "Enter")
            await crush.until_shown("word9")
            server.kill()
            server.wait()
            await crush.until_shown("Lost connection")
            server = start_server(place, provider.url())
            await crush.until_shown("Interrupted")
            assert "word9" in crush.screen()
            crush.type("hello again", "Enter")
            await crush.until_shown("You said: hello again")
        finally:
            crush.close_interface()
            server.kill()
            server.wait()


def start_server(place: Path, url: str) -> "subprocess.Popen[bytes]":
    """A server of its own process."""
    env = {**os.environ, "HOLDFAST_HOME": str(place / "home"), "HOME": str(place)}
    script = (
        "import os, json; from holdfast.locations import Locations; l = Locations.from_env(os.environ); l.prepare();"
        "l.config_file.write_text(os.environ['TEST_CONFIG'])"
    )
    settings = "\n".join(
        [
            '[models]\nlarge = "test/test-model"',
            f'[providers.test]\nwire = "openai-chat"\nbase_url = {json.dumps(url)}\napi_key = "sk-test-0123456789"',
        ]
    )
    subprocess.run([sys.executable, "-c", script], env={**env, "TEST_CONFIG": settings}, check=True)
    (place / "crush.sock").unlink(missing_ok=True)
    command = [sys.executable, "-m", "holdfast", "serve", "--crush", f"unix://{place}/crush.sock"]
    return subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
