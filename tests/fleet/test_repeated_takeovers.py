"""Owners are lost again and again: killed or paused past the lease; alone on a host, or not; in shared directories."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from statistics import median

import pytest

from holdfast.app import DEAD_STATUS
from holdfast.testing import Answer, Gate, Say, text
from tests.e2e.player import Player, Watch
from tests.e2e.provider import Provider
from tests.fleet.fleet_servers import FleetServerProcess, fleet_of, stored_by_owners
from tests.support.stress import StressShare

_KINDS = ("killed", "paused", "alone", "shared")
_HOSTS = ("one", "one", "two")


@pytest.fixture
def fleet(tmp_path: Path, pycache: Path) -> Iterator[list[FleetServerProcess]]:
    shared = tmp_path / "shared"
    shared.mkdir()
    with fleet_of(tmp_path, pycache=pycache, hosts=_HOSTS, lease="3s", shared=shared) as servers:
        yield servers


@pytest.fixture
async def provider(fleet: list[FleetServerProcess]) -> AsyncIterator[Provider]:
    provider = Provider()
    await provider.start(fleet[0].provider_port)
    yield provider
    await provider.stop()


class Takeovers:
    """Each round has a directory of its own, whose owner is lost in the middle of a run, with another one queued."""

    def __init__(self, fleet: list[FleetServerProcess], provider: Provider, root: Path) -> None:
        self.seconds: list[float] = []
        """From the loss of the owner to the end of its run, seen at another server."""
        self._fleet = fleet
        self._provider = provider
        self._root = root

    async def play(self, kind: str, number: int) -> None:
        directory = self._root / ("shared" if kind == "shared" else "") / f"work{number}"
        directory.mkdir()
        index = 2 if kind == "alone" else number % 2
        lost, other = self._fleet[index], self._fleet[(index + 1) % 2]
        owner, person = (Player(server.new_client(retry_seconds=60.0), directory) for server in (lost, other))
        gate = f"gate{number}"
        prompts = (
            self._provider.tell(f"first{number}", Answer(pieces=(Say("before"), Gate(gate), Say(" after")))),
            self._provider.tell(f"second{number}", text("the second")),
        )
        try:
            session = await owner.session()
            async with person.watching(session.id) as watch:
                runs = [(await owner.prompt(session.id, prompt)).run.id for prompt in prompts]
                await watch.until_text("before")
                await self._lose(kind, lost, watch, runs, gate)
        finally:
            self._provider.open(gate)
            await owner.leave()
            await person.leave()

    async def _lose(self, kind: str, lost: FleetServerProcess, watch: Watch, runs: list[str], gate: str) -> None:
        began = time.monotonic()
        if kind == "paused":
            lost.pause()
            self._provider.open(gate)  # the rest of the answer waits for the paused server
        else:
            await asyncio.to_thread(lost.kill)
        first = await watch.end_of(runs[0])
        self.seconds.append(time.monotonic() - began)
        assert (first.state, first.reason) == ("interrupted", "server_crash")
        if kind == "alone":
            await asyncio.to_thread(lost.start)
        second = await watch.end_of(runs[1])
        assert (second.state, second.text) == ("completed", "the second")
        if kind == "paused":
            before = await asyncio.to_thread(stored_by_owners, lost)
            lost.proceed()
            assert await asyncio.to_thread(lost.wait_gone) == DEAD_STATUS
            assert await asyncio.to_thread(stored_by_owners, lost) == before, "a replaced server has written"
        if not lost.is_running:
            await asyncio.to_thread(lost.start)


@pytest.mark.stress(weight=30)
@pytest.mark.promise("W16", "R5", "R7")
async def test_an_owner_that_is_lost_is_replaced_every_time(
    fleet: list[FleetServerProcess], provider: Provider, tmp_path: Path, share: StressShare
) -> None:
    takeovers = Takeovers(fleet, provider, tmp_path)
    for number in share.rounds(at_least=share.full(4 * 20)):
        kind = _KINDS[number % len(_KINDS)]
        await takeovers.play(kind, number)
        share.count(kind)
    took = takeovers.seconds
    share.note(f"the active run ended {median(took):.1f} s after the loss (lease 3 s), at most {max(took):.1f} s")
