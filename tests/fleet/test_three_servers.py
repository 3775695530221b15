"""Three servers on one database: any of them takes any request.

Their leases last so long that no renewal tells what has changed.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast.schema.events import Delta, RunFinished, Snapshot
from holdfast.testing import Answer, Hang, Say
from tests.e2e.player import Player
from tests.e2e.provider import Provider
from tests.fleet.fleet_servers import FleetServerProcess, fleet_of

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, pycache: Path) -> Iterator[list[FleetServerProcess]]:
    directory = tmp_path_factory.mktemp("fleet")
    with fleet_of(directory, pycache=pycache, hosts=("one", "one", "two"), lease="1h") as servers:
        yield servers
        for server in servers:
            assert server.stop() == 0
            assert server.complaints() == []


@pytest.fixture
async def provider(fleet: list[FleetServerProcess]) -> AsyncIterator[Provider]:
    provider = Provider()
    await provider.start(fleet[0].provider_port)
    yield provider
    await provider.stop()


@pytest.fixture
async def players(fleet: list[FleetServerProcess], tmp_path: Path) -> AsyncIterator[list[Player]]:
    """A person at each server, all in the same directory of the first one's host."""
    directory = tmp_path / "project"
    directory.mkdir()
    found = [Player(server.new_client(), directory) for server in fleet]
    yield found
    for player in found:
        await player.leave()


@pytest.mark.promise("W16")
async def test_a_prompt_may_come_in_at_any_server_and_is_seen_at_every_server(
    players: list[Player], provider: Provider
) -> None:
    session = await players[0].session()
    async with players[1].watching(session.id) as near, players[2].watching(session.id) as far:
        accepted = await players[2].prompt(session.id, "hello")
        first, second = await asyncio.gather(near.until(RunFinished), far.until(RunFinished))

    assert first.run.id == second.run.id == accepted.run.id
    assert first.run.state == "completed"
    assert [message.id for message in await players[1].messages(session.id)] == [
        message.id for message in await players[0].messages(session.id)
    ]


@pytest.mark.promise("W16", "C1", "E3")
async def test_live_text_and_cancels_reach_the_owner_from_a_server_on_another_host(
    players: list[Player], provider: Provider
) -> None:
    prompt = provider.tell("live", Answer(pieces=(Say("so far "), Say("so good"), Hang())))
    session = await players[0].session()
    async with players[1].watching(session.id) as near, players[2].watching(session.id) as far:
        accepted = await players[1].prompt(session.id, prompt)
        await far.until_text("so far so good")
        await near.until_text("so far so good")
        receipt = await players[2].client.cancel_session(session.id)
        ended, seen = await far.end_of(accepted.run.id), await near.end_of(accepted.run.id)

    assert [(one.run_id, one.ended_as) for one in receipt.runs] == [(accepted.run.id, "cancelled")]
    assert ended == seen
    assert any(isinstance(event, Delta | Snapshot) for event in far.seen)
    assert far.stream.transcript.messages == near.stream.transcript.messages


@pytest.mark.promise("W16", "E3")
async def test_live_text_of_a_new_owner_is_seen_at_a_server_that_started_before_it(
    players: list[Player], provider: Provider
) -> None:
    prompt = provider.tell("new-owner", Answer(pieces=(Say("so far "), Say("so good"), Hang())))
    session = await players[1].session()
    async with players[0].watching(session.id) as near, players[2].watching(session.id) as far:
        await players[2].prompt(session.id, prompt)
        await near.until_text("so far so good")
        await far.until_text("so far so good")
        await players[0].client.cancel_session(session.id)


@pytest.mark.promise("W16", "E3")
async def test_live_text_goes_on_if_the_owner_changes_while_its_link_is_up(
    players: list[Player], provider: Provider
) -> None:
    session = await players[0].session()
    async with players[2].watching(session.id) as far:
        for number, owner in enumerate((0, 1, 0)):
            await players[owner].client.open_workspace(str(players[owner].directory))
            prompt = provider.tell(f"owner-{number}", Answer(pieces=(Say(f"from {owner}"), Hang())))
            await players[owner].prompt(session.id, prompt)
            await far.until_text(f"from {owner}")
            await players[2].client.cancel_session(session.id)
            await players[owner].client.close_workspace(session.workspace_id)


async def test_the_fleet_lists_its_servers_and_what_they_own(players: list[Player], provider: Provider) -> None:
    session = await players[0].session()
    await players[1].run(session.id, "hello")
    views = [await player.client.fleet() for player in players]

    assert len({view.server_id for view in views}) == 3
    assert [server.host for server in views[0].servers] == ["one", "one", "two"]
    assert {server.state for server in views[0].servers} == {"alive"}
    (place,) = [one for one in views[2].workspaces if one.workspace_id == session.workspace_id]
    assert (place.server_id, place.role, place.host) == (views[0].server_id, "owner", "one")
