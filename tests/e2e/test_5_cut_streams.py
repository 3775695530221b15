"""5. The stream cut at random byte offsets during a run with tools and reasoning: the transcript is the stored one."""

import random
from pathlib import Path

import pytest

from holdfast.client import Transcript
from holdfast.schema.events import Delta, Event, RunFinished, Snapshot
from holdfast.schema.messages import Message, Reasoning, Text, ToolCall, ToolResult
from holdfast.testing import Answer, Call, Piece, Say, Think
from tests.e2e.conftest import Join
from tests.e2e.cutting import CuttingProxy
from tests.e2e.provider import Provider
from tests.e2e.server import Server
from tests.support.stress import StressShare

_WORDS = ("the ", "café ", "is ", "😀 ", "on\n", "fire; ", "ünder ", "ice. ")


@pytest.mark.promise("E2", "E3", "E5")
async def test_a_stream_cut_thirty_times_gives_the_stored_transcript(
    server: Server, provider: Provider, join: Join, tmp_path: Path
) -> None:
    await _follow(server, provider, join, tmp_path, steps=3, cuts=30, seed=3)


@pytest.mark.stress(weight=2)
@pytest.mark.promise("E2", "E3")
async def test_a_stream_cut_many_times_gives_the_stored_transcript(
    server: Server, provider: Provider, join: Join, tmp_path: Path, share: StressShare
) -> None:
    for seed in share.seeds():
        cuts, samples = await _follow(server, provider, join, tmp_path, steps=10, cuts=75, seed=seed)
        share.count("cuts", cuts)
        share.count("looks at the text on its way, always exact", samples)


def _script(steps: int, chance: random.Random) -> list[Answer]:
    def words(count: int) -> str:
        return "".join(chance.choice(_WORDS) for _ in range(count))

    def answer(*more: Piece) -> Answer:
        return Answer(pieces=(Think(words(40), chunk=3), Say(words(60), chunk=5), *more), pace=0.004)

    def commands(step: int) -> tuple[Call, Call]:
        command = f"for i in 1 2 3 4 5; do echo line {step}.$i; done"
        return Call("bash", {"command": command}), Call("ls", {"path": "."})

    return [*(answer(*commands(step)) for step in range(steps)), answer()]


async def _follow(
    server: Server, provider: Provider, join: Join, tmp_path: Path, *, steps: int, cuts: int, seed: int
) -> tuple[int, int]:
    chance = random.Random(seed)
    prompt = provider.tell("cut", *_script(steps, chance))
    player = join(server)
    session = await player.session()
    cursor = (await player.client.session(session.id)).cursor

    def after() -> int | None:
        """The rest of a long run is not cut, so that it ends."""
        return int(200 * 2 ** chance.uniform(0, 8)) if proxy.cuts < cuts else None

    samples: list[tuple[str, int, str, str]] = []
    async with CuttingProxy(server.any_address, at=tmp_path / "cut.sock", after=after) as proxy:
        reader = join(server, "reader", address=proxy.address)
        async with reader.client.events(session_id=session.id, after=cursor) as stream:
            run = (await player.prompt(session.id, prompt, mode="auto")).run
            async for event in stream:
                samples += _open(stream.transcript, event)
                if isinstance(event, RunFinished):
                    break
            # What is left to cut is cut while everything is read again from the beginning.
            transcript, again = stream.transcript, reader.client.events(session_id=session.id, after=cursor)
            ends = 0
            while proxy.cuts < cuts:
                async for event in again:
                    samples += _open(again.transcript, event)
                    if isinstance(event, RunFinished):
                        break
                ends += 1
                await again.aclose()
                assert _sorted(again.transcript) == _sorted(transcript)
                again = reader.client.events(session_id=session.id, after=cursor)

    stored = await player.messages(session.id)
    assert (await player.client.get_run(run.id)).reason == "end_turn"
    assert _sorted(transcript) == stored
    assert proxy.cuts >= cuts
    assert samples
    by_id = {message.id: message for message in stored}
    for message_id, part, of, text in samples:
        assert _whole(by_id[message_id], part, of).startswith(text), (of, text)
    return proxy.cuts, len(samples)


def _open(transcript: Transcript, event: Event) -> list[tuple[str, int, str, str]]:
    """The text that is on its way, as it stands after this event."""
    if not isinstance(event, Delta | Snapshot):
        return []
    return [
        (event.message_id, part.part, part.of, part.text)
        for part in transcript.open_parts(event.message_id)
        if part.of in ("text", "reasoning")
    ]


def _sorted(transcript: Transcript) -> list[Message]:
    return sorted(transcript.messages.values(), key=lambda message: message.seq)


def _whole(message: Message, part: int, of: str) -> str:
    stored = message.parts[part]
    assert isinstance(stored, Text if of == "text" else Reasoning)
    assert not isinstance(stored, ToolCall | ToolResult)
    return stored.text
