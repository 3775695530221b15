"""7. ``kill -9`` mid-run under a waiting client: it comes back and learns ``interrupted``; the queue goes on."""

import asyncio
import time

import pytest

from holdfast.client import open_async_client
from holdfast.schema.events import RunFinished
from holdfast.schema.messages import Finish, text_of
from holdfast.testing import Answer, Hang, Say, text
from tests.e2e.conftest import Join
from tests.e2e.player import Player
from tests.e2e.provider import Provider
from tests.e2e.server import ServerProcess


@pytest.mark.promise("R4", "R5", "R7", "R9", "W6", "C6", "E2")
async def test_a_waiting_client_learns_of_the_crash_and_the_queue_goes_on(
    own_server: ServerProcess, own_provider: Provider, join: Join
) -> None:
    prompt = own_provider.tell("crash", Answer(pieces=(Say("half a "), Say("thought"), Hang())))
    later = own_provider.tell("later", text("after the crash"))
    waiter, other = join(own_server, "waiter"), join(own_server, "other")
    session = await waiter.session()
    async with waiter.watching(session.id) as watch, other.watching(session.id) as others:
        first = (await waiter.prompt(session.id, prompt)).run
        second = await other.prompt(session.id, later)
        assert (second.decision, second.position) == ("queued", 1)
        waiting = asyncio.create_task(waiter.client.wait_run(first.id))
        await watch.until_text("half a thought")
        await asyncio.to_thread(own_server.kill)
        await asyncio.to_thread(own_server.start)
        ended, seen = await watch.end_of(first.id), await others.end_of(first.id)
        assert await waiting == ended == seen
        assert (ended.state, ended.reason) == ("interrupted", "server_crash")
        completed = await others.end_of(second.run.id)
        assert (completed.state, completed.text) == ("completed", "after the crash")
        assert await watch.end_of(second.run.id) == completed

    ends = [event.run.id for event in watch.seen if isinstance(event, RunFinished)]
    assert ends == [first.id, second.run.id]
    assert own_provider.count("crash") == 1
    _, cut, _, answer = await other.messages(session.id)
    assert isinstance(cut.parts[-1], Finish)
    assert cut.parts[-1].reason == "interrupted"
    assert "half a thought".startswith(text_of(cut.parts))
    assert text_of(answer.parts) == "after the crash"
    assert watch.stream.transcript.messages[cut.id] == cut


def _wait_for_draft(server: ServerProcess, text: str) -> None:
    """Wait until the stored text of open messages has this text."""
    until = time.monotonic() + 30
    while text not in server.stored_drafts():
        assert time.monotonic() < until
        time.sleep(0.005)


@pytest.mark.promise("E3", "W6")
async def test_text_before_a_stall_is_kept_by_a_killed_server(
    own_server: ServerProcess, own_provider: Provider, join: Join
) -> None:
    tokens = tuple(f" token{number:02}" for number in range(40))
    prompt = own_provider.tell("stall", Answer(pieces=(Say(deltas=tokens), Hang())))
    player = join(own_server)
    session = await player.session()
    async with player.watching(session.id) as watch:
        run = (await player.prompt(session.id, prompt)).run
        await watch.until_text("".join(tokens))
        await asyncio.to_thread(_wait_for_draft, own_server, tokens[-1])
        await asyncio.to_thread(own_server.kill)
        await asyncio.to_thread(own_server.start)
        ended = await watch.end_of(run.id)
    assert (ended.state, ended.reason) == ("interrupted", "server_crash")
    _, cut = await player.messages(session.id)
    assert text_of(cut.parts) == "".join(tokens)
    assert cut.parts[-1] == Finish("interrupted", cut.parts[-1].detail)  # type: ignore[union-attr]


@pytest.mark.promise("W6")
async def test_a_client_that_found_its_server_brings_it_back_after_a_crash(
    own_server: ServerProcess, own_provider: Provider, join: Join
) -> None:
    prompt = own_provider.tell("revive", Answer(pieces=(Say("half"), Hang())))
    async with await open_async_client(own_server.env, name="keeper") as client:
        player = Player(client, join(own_server).directory)
        session = await player.session()
        async with player.watching(session.id) as watch:
            run = (await player.prompt(session.id, prompt)).run
            await watch.until_text("half")
            await asyncio.to_thread(own_server.kill)
            ended = await watch.end_of(run.id)
        assert (ended.state, ended.reason) == ("interrupted", "server_crash")
        assert (await client.server()).pid != own_server.pid


@pytest.mark.promise("R1")
async def test_what_was_accepted_survives_a_crash_right_after_its_answer(
    own_server: ServerProcess, own_provider: Provider, join: Join
) -> None:
    hanging = own_provider.tell("hang", Answer(pieces=(Hang(),)))
    player = join(own_server)
    session = await player.session()
    first = (await player.prompt(session.id, hanging)).run
    accepted = [(await player.prompt(session.id, f"number {number}")).run.id for number in range(5)]
    await asyncio.to_thread(own_server.kill)
    await asyncio.to_thread(own_server.start)
    assert (await player.client.wait_run(first.id)).state == "interrupted"
    ends = [await player.client.wait_run(run_id) for run_id in accepted]
    assert [run.state for run in ends] == ["completed"] * 5
    assert [run.prompt for run in sorted(ends, key=lambda run: run.started_at or "")] == [run.prompt for run in ends]
