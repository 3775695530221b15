"""`holdfast store copy` that is killed again and again, and goes on: at the end both stores are the same."""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.store import open_store
from tests.operations.conftest import StartServer
from tests.operations.operated_server import OperatedServer
from tests.store.batches import a_run, accept, new_session, new_workspace, says
from tests.support.postgres_cluster import PostgresCluster
from tests.support.stress import StressShare

pytestmark = [pytest.mark.timeout(600), pytest.mark.stress(weight=1)]

_AT_ONCE = 500


async def _fill(path: Path, runs: int) -> None:
    store = await open_store(path)
    await store.commit(new_workspace())
    await store.commit(new_session())
    for first in range(1, runs + 1, _AT_ONCE):
        numbers = range(first, min(first + _AT_ONCE, runs + 1))
        await asyncio.gather(*(store.commit(accept(a_run(f"run_{n:06}", seq=n))) for n in numbers))
        await asyncio.gather(*(store.commit(says(f"msg_{n:06}", f"answer {n} " * 20)) for n in numbers))
    await store.close()


def _copy(server: OperatedServer, source: str, target: str, *, kill_after: float | None = None) -> str | None:
    """Run the command. None if it was killed first."""
    with subprocess.Popen(
        [sys.executable, "-m", "holdfast", "store", "copy", source, target, "--json"],
        env=server.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as copying:
        try:
            said, _ = copying.communicate(timeout=kill_after)
        except subprocess.TimeoutExpired:
            copying.kill()
            copying.communicate()
            return None
        assert copying.returncode == 0, said
        return said


async def test_a_copy_that_is_killed_goes_on_and_ends_with_the_same_rows(
    own_cluster: PostgresCluster, start_server: StartServer, tmp_path: Path, share: StressShare
) -> None:
    runs = share.full(20_000)
    server = await asyncio.to_thread(start_server.make, "")
    del server.env["HOLDFAST_STORE"]
    source, back = tmp_path / "source.db", tmp_path / "back.db"
    await _fill(source, runs)
    address = await asyncio.to_thread(own_cluster.new_database)
    there = await asyncio.to_thread(_until_done, server, f"sqlite:{source}", address, share)
    returned = await asyncio.to_thread(_until_done, server, address, f"sqlite:{back}", share)
    assert there == returned
    rows = {table["table"]: table["rows"] for table in there}
    assert (rows["runs"], rows["messages"], rows["events"]) == (runs, runs, 2 * runs + 1)
    again = await asyncio.to_thread(server.cli, "store", "copy", f"sqlite:{source}", address, status=None)
    assert "the target has sessions already" in again


def _until_done(server: OperatedServer, source: str, target: str, share: StressShare) -> list[dict[str, object]]:
    """Kill the copy a little later each time, until it is done."""
    for kill in range(1, 100):
        began = time.monotonic()
        said = _copy(server, source, target, kill_after=1.0 + kill * 0.7)
        if said is not None:
            share.count("seconds of the last attempt", round(time.monotonic() - began))
            found: list[dict[str, object]] = json.loads(said)
            return found
        share.count("killed copies")
    raise AssertionError("the copy makes no progress")
