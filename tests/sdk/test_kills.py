"""What is left of a call of a Python tool when the server, or the program that executes it, is killed."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.locations import Locations
from holdfast.schema.messages import ToolResult
from holdfast.testing import Answer, Call, Say, calls
from tests.support.running_server import CONFIG, KEY, answering, run_server

CALLING = calls(Call("work", {}))
DONE = Answer(pieces=(Say("Done."),))


async def results_of(client: Client, session_id: str) -> list[tuple[str, str]]:
    messages, _ = await client.all_messages(session_id)
    return [(part.status, part.text) for message in messages for part in message.parts if isinstance(part, ToolResult)]


@asynccontextmanager
async def own_server(home: Path, *answers: Answer) -> AsyncIterator[Client]:
    """A client with a server process that it starts, and starts again when it is gone."""
    environment = {**os.environ, "HOLDFAST_HOME": str(home / "home")}
    locations = Locations.from_env(environment)
    locations.config_dir.mkdir(parents=True)
    (home / "work").mkdir()
    async with answering(*answers) as provider:
        locations.config_file.write_text(CONFIG.format(url=provider.url(), key=KEY, heartbeat="10s"))
        async with Client(home / "work", env=environment) as client:
            try:
                yield client
            finally:
                await client.stop_server(if_idle=False)


@pytest.mark.promise("W13", "W6", "R7")
async def test_a_server_that_is_killed_during_a_call_ends_it_and_the_tools_come_back(home: Path) -> None:
    async with own_server(home, CALLING, CALLING, DONE) as client:
        started, ended = asyncio.Queue[int](), asyncio.Event()
        hold = True

        @client.tool(effect="none")
        async def work() -> str:
            started.put_nowait((await client.server()).pid)
            if hold:
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.set()
            return "worked"

        session = await client.new_session()
        run = await session.prompt("go")
        killed = await started.get()
        hold = False
        os.kill(killed, signal.SIGKILL)
        cut = await run.wait()
        assert (cut.state, cut.reason) == ("interrupted", "server_crash")
        await ended.wait()  # the function is cancelled, since nobody wants its result any more
        again = await session.run("go")
        assert (again.ok, again.text) == (True, "Done.")
        assert await started.get() != killed
        assert started.empty()  # the call that was cut off is not repeated
        (unknown, _), worked = await results_of(client, session.id)
        assert (unknown, worked) == ("unknown", ("ok", "worked"))


PROGRAM = """
import sys, threading
from holdfast.sync import Client

with Client(sys.argv[1]) as client:
    @client.tool(effect="none")
    def work() -> str:
        if sys.argv[2] == "hang":
            print("working", flush=True)
            threading.Event().wait()
        return "worked"

    run = client.start("go", run_id="mine")
    print(run.wait().text, flush=True)
"""


@pytest.mark.promise("W13", "R10", "R3")
async def test_a_program_that_is_killed_during_a_call_ends_it_and_gets_the_same_run_when_it_starts_again(
    home: Path,
) -> None:
    async with run_server(home, answering(CALLING, DONE)) as server:
        env = {**os.environ, "HOLDFAST_SERVER": f"unix:{server.app.shared.locations.socket}"}
        arguments = [sys.executable, "-c", PROGRAM, str(server.work)]
        program = await asyncio.create_subprocess_exec(*arguments, "hang", stdout=subprocess.PIPE, env=env)
        assert program.stdout is not None
        assert await program.stdout.readline() == b"working\n"
        program.kill()
        await program.wait()
        ended = await server.ended("mine")  # the run goes on without the program
        assert (ended["state"], ended["text"]) == ("completed", "Done.")
        again = await asyncio.create_subprocess_exec(*arguments, "work", stdout=subprocess.PIPE, env=env)
        printed, _ = await again.communicate()
        assert (again.returncode, printed) == (0, b"Done.\n")
        async with Client(server.work, server=env["HOLDFAST_SERVER"]) as client:
            ((status, text),) = await results_of(client, ended["session_id"])
        assert (status, text) == ("error", "the program that executes 'work' is gone; whether it has run is not known")


@pytest.mark.promise("W13")
async def test_of_two_programs_with_a_tool_of_the_same_name_the_last_is_called_and_then_the_other(home: Path) -> None:
    async with run_server(home, answering(*[CALLING, DONE] * 3)) as server:
        address = f"unix:{server.app.shared.locations.socket}"

        def program(name: str) -> Client:
            client = Client(server.work, server=address, name=name)

            @client.tool(effect="none")
            async def work() -> str:
                return name

            return client

        async with program("first") as first:
            session = await first.new_session()
            await session.run("go")
            async with program("second") as second:
                await (await second.open_session(session.id)).run("go")
            await session.run("go")
            assert await results_of(first, session.id) == [("ok", "first"), ("ok", "second"), ("ok", "first")]
