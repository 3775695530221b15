"""The server refuses processes that the agent's tools started, and accepts all others of the same user (`W8`)."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.tools.process.command_process import CommandLauncher
from holdfast.tools.process.process_table import IS_LINUX
from tests.support.running_server import TOKEN, RunningServer, run_server
from tests.support.stubborn_commands import command

pytestmark = pytest.mark.skipif(not IS_LINUX, reason="reads /proc")

ASK = """
import json, os, socket, sys
family, address, token = json.loads(sys.argv[1])
connection = socket.socket(getattr(socket, family))
connection.connect(tuple(address) if isinstance(address, list) else address)
if len(sys.argv) > 2:  # go on with the connection of a process that has ended
    parent = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == parent:
        pass
lines = "GET /v1/server HTTP/1.1", "Host: localhost", f"Authorization: Bearer {token}", "Connection: close", "", ""
connection.sendall("\\r\\n".join(lines).encode())
answer = connection.makefile().read()
print(answer.split()[1], flush=True)
"""


def ask(target: object, *more: str) -> str:
    return shlex.join([sys.executable, "-c", ASK, json.dumps(target), *more])


def unix_target(server: RunningServer) -> object:
    return "AF_UNIX", str(server.app.shared.locations.socket), ""


def tcp_target(server: RunningServer) -> object:
    return "AF_INET", ("127.0.0.1", server.tcp.port), TOKEN


async def answer_to(launcher: CommandLauncher, script: str) -> str:
    running = await launcher.start(command(script, "call_peer"))
    line = await running.output.readline()
    await running.kill()
    running.stop_reading()
    return line.decode().strip()


@pytest.mark.promise("W8")
@pytest.mark.parametrize("target", [unix_target, tcp_target])
async def test_a_command_and_its_detached_descendants_are_refused(home: Path, target) -> None:
    async with run_server(home) as server:
        launcher, request = server.app.shared.launcher, ask(target(server))
        assert await answer_to(launcher, request) == "403"
        assert await answer_to(launcher, f"env -i setsid -f {request}") == "403"
        assert await answer_to(launcher, f"( ( ( {request} ) & ) & ); exit") == "403"
        assert (await server.http.get("/v1/server")).status == 200
        assert (await server.tcp.get("/v1/server")).status == 200


@pytest.mark.promise("W8")
async def test_a_connection_of_a_process_that_has_ended_is_refused(home: Path) -> None:
    async with run_server(home) as server:
        assert await answer_to(server.app.shared.launcher, ask(unix_target(server), "ended")) == "403"


@pytest.mark.promise("W8")
@pytest.mark.parametrize("target", [unix_target, tcp_target])
async def test_a_persons_commands_and_other_processes_of_the_user_are_accepted(home: Path, target) -> None:
    async with run_server(home) as server:
        shared = server.app.shared
        await answer_to(shared.launcher, "true")
        assert await answer_to(shared.person_launcher, ask(target(server))) == "200"
        assert await answer_to(shared.person_launcher, f"setsid -f {ask(target(server))}") == "200"
        other = await asyncio.create_subprocess_shell(ask(target(server)), stdout=subprocess.PIPE)
        assert (await other.communicate())[0] == b"200\n"


@pytest.mark.promise("W8")
async def test_the_refusal_has_a_code_of_its_own(home: Path) -> None:
    async with run_server(home) as server:
        script = ask(unix_target(server)).replace("answer.split()[1]", "answer")
        running = await server.app.shared.launcher.start(command(script, "call_code"))
        text = (await running.output.read()).decode()
        await running.wait_tree_ended()
        running.stop_reading()
        assert text.startswith("HTTP/1.1 403")
        assert '"code":"tool_process"' in text


ORPHAN_PROGRAM = """
import asyncio, os, shlex, socket, sys
from holdfast.server import adopt_orphans
from holdfast.tools.process.command_process import CommandLauncher
from holdfast.tools.process.tool_peers import ToolPeers
from tests.support.stubborn_commands import command

async def main():
    adopt_orphans()
    tools, person = CommandLauncher(), CommandLauncher()
    peers = ToolPeers(tools=tools, person=person, adopts_orphans=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[1])
    listener.listen()
    connect = "import socket; c = socket.socket(socket.AF_UNIX); c.connect('" + sys.argv[1] + "'); c.recv(1)"
    await person.start(command("sleep 1000", "call_person"))
    root = (await (await tools.start(command("ps -o ppid= -p $PPID", "call_a"))).output.read()).decode().strip()
    attack = f"kill -KILL {root} $PPID; exec {sys.executable} -c {shlex.quote(connect)}"
    await tools.start(command(f"env -i setsid -f bash -c {shlex.quote(attack)}", "call_b"))
    connection, _ = await asyncio.to_thread(listener.accept)
    print(peers.is_unix_peer(connection), flush=True)
    connection.close()
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


@pytest.mark.promise("W8")
def test_a_process_whose_supervisors_were_killed_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ORPHAN_PROGRAM, str(tmp_path / "s")],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        check=False,
    )
    assert done.stdout == b"True\n"
