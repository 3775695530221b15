"""8. One reader that stops reading, among many of a long answer: the others get it all, and memory stays flat."""

import asyncio

import pytest

from holdfast.client.async_client import AsyncEventStream
from holdfast.schema.events import Delta, RunFinished
from holdfast.testing import Answer, Gate, Say
from tests.e2e.conftest import Join
from tests.e2e.player import Player
from tests.e2e.provider import Provider
from tests.e2e.server import ServerProcess
from tests.support.stress import StressShare

_MOST_GROWTH = 32 << 20


@pytest.mark.promise("E4")
async def test_a_stalled_reader_costs_the_others_nothing_and_catches_up(
    own_server: ServerProcess, own_provider: Provider, join: Join
) -> None:
    await _alternate(own_server, own_provider, join, readers=8, deltas=1_000, width=800)


@pytest.mark.stress(weight=2)
@pytest.mark.promise("E4")
async def test_one_stalled_reader_among_a_hundred(
    own_server: ServerProcess, own_provider: Provider, join: Join, share: StressShare
) -> None:
    deltas = min(10_000, max(1_000, int(share.seconds * 80)))
    await _alternate(own_server, own_provider, join, readers=100, deltas=deltas, width=100)
    share.count("readers", 100)
    share.count("deltas for each, four times", deltas)


async def _alternate(
    server: ServerProcess, provider: Provider, join: Join, *, readers: int, deltas: int, width: int
) -> None:
    """Without a stalled reader, with one, without: what is compared was measured in one go."""
    pieces = tuple(f"{number:{width - 1}d} " for number in range(deltas))
    whole = "".join(pieces)
    prompt = provider.tell("long", Answer(pieces=(Gate("go"), Say(deltas=pieces))))
    players = [join(server, f"reader-{number}") for number in range(readers)]
    stalled = join(server, "stalled")
    before = 0
    for name in ("warm-up", "A", "B", "A"):
        session = await players[0].session()
        async with stalled.client.events(session_id=session.id) as stalling:
            await anext(stalling)  # it is connected, and reads no further
            if name != "B":
                await stalling.aclose()
            await _round(players, session.id, prompt, whole, provider)
            if name == "A" and not before:
                before = server.memory()
            elif name != "warm-up":
                await _memory_is_below(server, before + _MOST_GROWTH)
            if name == "B":
                deltas_read = await _catch_up(stalling, whole)
                assert deltas_read < deltas, "it was not stalled"


async def _memory_is_below(server: ServerProcess, most: int) -> None:
    """What was written to the readers is given back within seconds. What is kept for one that does not read is not."""
    async with asyncio.timeout(50):
        while server.memory() >= most:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.2)


async def _round(players: list[Player], session_id: str, prompt: str, whole: str, provider: Provider) -> None:
    """Everyone reads one answer to its end."""
    cursor = (await players[0].client.session(session_id)).cursor
    reading = [asyncio.create_task(_read(player, session_id, cursor)) for player in players]
    asked = provider.count("long")
    run = (await players[0].prompt(session_id, prompt)).run
    await provider.wait_for("long", asked + 1)
    provider.open("go")
    texts = await asyncio.gather(*reading)
    provider.shut("go")
    assert set(texts) == {whole}
    assert (await players[0].client.get_run(run.id)).state == "completed"


async def _read(player: Player, session_id: str, cursor: str | None) -> str:
    async with player.client.events(session_id=session_id, after=cursor) as stream:
        async for event in stream:
            if isinstance(event, RunFinished):
                return stream.transcript.text(event.run.message_id or "")
    raise AssertionError("the stream has ended")


async def _catch_up(stream: AsyncEventStream, whole: str) -> int:
    """It reads on at last, on the same connection: exact text, told in fewer pieces."""
    deltas = 0
    async for event in stream:
        deltas += isinstance(event, Delta)
        if isinstance(event, RunFinished):
            assert stream.transcript.text(event.run.message_id or "") == whole
            return deltas
    raise AssertionError("the stream has ended")
