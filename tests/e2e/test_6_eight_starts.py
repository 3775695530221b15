"""6. Eight processes start at once: one server, eight answers. And one server that is replaced."""

import asyncio
import sys

import pytest

from holdfast.client import LocalServer, SyncClient
from holdfast.errors import Conflict, Unreachable
from holdfast.testing import Answer, Gate, Say
from tests.e2e.conftest import Join
from tests.e2e.provider import Provider
from tests.e2e.server import ServerProcess

_FIND = """
import os, sys
from holdfast.client import open_sync_client
sys.stdin.readline()
with open_sync_client(os.environ, name="starter") as client:
    print(client.server().pid)
"""


@pytest.mark.promise("W10")
async def test_eight_processes_that_start_at_once_find_one_server(own_server: ServerProcess) -> None:
    await asyncio.to_thread(own_server.stop)
    eight = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _FIND),
            env=own_server.env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        for _ in range(8)
    ]
    said = await asyncio.gather(*(process.communicate(b"go\n") for process in eight))
    assert [stderr.decode() for _, stderr in said] == [""] * 8
    pids = {int(stdout) for stdout, _ in said}
    assert len(pids) == 1
    await asyncio.to_thread(_stop, own_server)


def _stop(server: ServerProcess) -> None:
    """It is nobody's child, so only its silence tells that it is gone."""
    with SyncClient(server.address, retry_seconds=0.0) as client:
        client.stop_server(if_idle=True)
        while _answers(client):
            pass


def _answers(client: SyncClient) -> bool:
    try:
        client.health()
    except Unreachable:
        return False
    return True


@pytest.mark.promise("W10")
async def test_a_second_server_leaves_the_first_alone_and_says_why(own_server: ServerProcess) -> None:
    second = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "serve"),
        env=own_server.env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await second.communicate()
    assert second.returncode == 75
    assert b"Traceback" not in said
    with SyncClient(own_server.address, retry_seconds=0.0) as client:
        assert (await asyncio.to_thread(client.server)).pid == own_server.pid


def _pid(server: ServerProcess) -> int:
    with SyncClient(server.address, retry_seconds=0.0) as client:
        return client.server().pid


@pytest.mark.promise("W5", "W6")
async def test_a_server_with_other_code_is_used_while_it_is_busy_and_replaced_when_idle(
    own_server: ServerProcess, own_provider: Provider, join: Join
) -> None:
    await asyncio.to_thread(own_server.stop)
    own_server.command.append("--idle-exit")  # as a client starts it
    await asyncio.to_thread(own_server.start)
    prompt = own_provider.tell("busy", Answer(pieces=(Gate("go"), Say("done"))))
    player = join(own_server, address=own_server.address)  # in a fleet, another server could be the one that works
    session = await player.session()
    run = (await player.prompt(session.id, prompt)).run
    other_code = LocalServer(own_server.locations, env=own_server.env, build="other")
    await asyncio.to_thread(other_code.ensure)
    assert await asyncio.to_thread(_pid, own_server) == own_server.pid

    own_provider.open("go")
    ended = await player.client.wait_run(run.id)
    assert ended.text == "done"
    while await asyncio.to_thread(_pid, own_server) == own_server.pid:  # the session's title may still be made
        await asyncio.to_thread(other_code.ensure)
    assert await player.client.get_run(run.id) == ended
    await asyncio.to_thread(_stop, own_server)


async def test_a_server_that_somebody_runs_is_never_replaced(own_server: ServerProcess) -> None:
    """It has listeners and variables that one started by a client would not have."""
    other_code = LocalServer(own_server.locations, env=own_server.env, build="other")
    await asyncio.to_thread(other_code.ensure)
    assert await asyncio.to_thread(_pid, own_server) == own_server.pid
    with SyncClient(own_server.address, retry_seconds=0.0) as client, pytest.raises(Conflict) as refused:
        await asyncio.to_thread(client.stop_server, if_idle=True)
    assert refused.value.error_code == "server_kept"
