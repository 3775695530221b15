"""8. One reader that stops reading, among many of a long answer: the others get it all, and memory stays flat."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.schema.events import RunFinished
from holdfast.testing import Answer, Gate, Say
from tests.e2e.conftest import Join
from tests.e2e.player import Player
from tests.e2e.provider import Provider
from tests.e2e.server import Server, ServerProcess

_MOST_GROWTH = 32 << 20


@pytest.mark.promise("E4")
async def test_a_stalled_reader_costs_the_others_nothing(
    own_server: ServerProcess, own_provider: Provider, join: Join
) -> None:
    await _alternate(own_server, own_provider, join, readers=8, deltas=1_000)


@pytest.mark.stress
@pytest.mark.timeout(900)
@pytest.mark.promise("E4")
async def test_one_stalled_reader_among_a_hundred(
    own_server: ServerProcess, own_provider: Provider, join: Join
) -> None:
    for line in await _alternate(own_server, own_provider, join, readers=100, deltas=10_000):
        print(line)


async def _alternate(server: ServerProcess, provider: Provider, join: Join, *, readers: int, deltas: int) -> list[str]:
    """Without a stalled reader, with one, without: what is compared was measured in one go."""
    pieces = tuple(f"{number:05d} " for number in range(deltas))
    whole = "".join(pieces)
    prompt = provider.tell("long", Answer(pieces=(Gate("go"), Say(deltas=pieces))))
    players = [join(server, f"reader-{number}") for number in range(readers)]
    await _round(players, prompt, whole, provider)  # what is loaded once is loaded now
    told: list[str] = []
    memory: list[int] = []
    for name in ("A", "B", "A"):
        if name == "A":
            seconds = await _round(players, prompt, whole, provider)
        else:
            async with _stalled(server, players[0]) as session_id:
                seconds = await _round(players, prompt, whole, provider, session_id=session_id)
        memory.append(server.memory())
        told.append(f"{name}: {readers} readers, {deltas} deltas in {seconds:.2f} s, server {memory[-1] >> 20} MiB")
    assert memory[1] - memory[0] < _MOST_GROWTH
    assert memory[2] - memory[0] < _MOST_GROWTH
    return told


async def _round(
    players: list[Player], prompt: str, whole: str, provider: Provider, *, session_id: str | None = None
) -> float:
    """Everyone reads one answer to its end; the seconds it took."""
    session_id = session_id or (await players[0].session()).id
    cursor = (await players[0].client.session(session_id)).cursor
    reading = [asyncio.create_task(_read(player, session_id, cursor)) for player in players]
    asked = provider.count("long")
    run = (await players[0].prompt(session_id, prompt)).run
    await provider.wait_for("long", asked + 1)
    began = time.monotonic()
    provider.open("go")
    texts = await asyncio.gather(*reading)
    seconds = time.monotonic() - began
    provider._gate("go").clear()
    assert set(texts) == {whole}
    assert (await players[0].client.get_run(run.id)).state == "completed"
    return seconds


async def _read(player: Player, session_id: str, cursor: str | None) -> str:
    async with player.client.events(session_id=session_id, after=cursor) as stream:
        async for event in stream:
            if isinstance(event, RunFinished):
                return stream.transcript.text(event.run.message_id or "")
    raise AssertionError("the stream has ended")


@asynccontextmanager
async def _stalled(server: Server, player: Player) -> AsyncIterator[str]:
    """A session with a reader that asked for the stream and never reads it."""
    session = await player.session()
    reader, writer = await asyncio.open_unix_connection(server.address.path)
    writer.write(f"GET /v1/events?session={session.id} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    await reader.readuntil(b"event: hello")
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    try:
        yield session.id
    finally:
        writer.transport.abort()
