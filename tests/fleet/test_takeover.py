"""A server that dies, hangs or goes away is replaced: exactly once, and it writes nothing afterwards."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast.app import DEAD_STATUS
from holdfast.schema.events import RunFinished
from holdfast.schema.messages import Finish, text_of
from holdfast.testing import Answer, Gate, Hang, Say, text
from tests.e2e.player import Player
from tests.e2e.provider import Provider
from tests.fleet.fleet_servers import FleetServerProcess, fleet_of, stored_by_owners

pytestmark = pytest.mark.timeout(180)

_LEASE = "6s"


@pytest.fixture
def fleet(request: pytest.FixtureRequest, tmp_path: Path, pycache: Path) -> Iterator[list[FleetServerProcess]]:
    """Servers on the hosts that the test names; ``shared``: all of them have the directory."""
    (tmp_path / "project").mkdir()
    *hosts, last = request.param
    shared = tmp_path / "project" if last == "shared" else None
    hosts = hosts if shared else [*hosts, last]
    with fleet_of(tmp_path, pycache=pycache, hosts=hosts, lease=_LEASE, shared=shared) as servers:
        yield servers


@pytest.fixture
async def provider(fleet: list[FleetServerProcess]) -> AsyncIterator[Provider]:
    provider = Provider()
    await provider.start(fleet[0].provider_port)
    yield provider
    await provider.stop()


@pytest.fixture
async def players(fleet: list[FleetServerProcess], tmp_path: Path) -> AsyncIterator[list[Player]]:
    """A person at each server, all in a directory of the first one's host."""
    found = [Player(server.new_client(), tmp_path / "project") for server in fleet]
    yield found
    for player in found:
        await player.leave()


@pytest.mark.promise("W16", "W6", "R5", "R7")
@pytest.mark.parametrize("fleet", [("one", "one")], indirect=True)
async def test_a_killed_owner_is_replaced_and_its_queue_goes_on(
    fleet: list[FleetServerProcess], players: list[Player], provider: Provider
) -> None:
    first_prompt = provider.tell("first", Answer(pieces=(Say("half a thought"), Hang())))
    owner, other = players
    session = await owner.session()
    async with other.watching(session.id) as watch:
        first = await owner.prompt(session.id, first_prompt)
        second = await other.prompt(session.id, provider.tell("second", text("the second")))
        assert (second.decision, second.position) == ("queued", 1)
        await watch.until_text("half a thought")  # live text of the other server
        await asyncio.to_thread(fleet[0].kill)
        third = await other.prompt(session.id, provider.tell("third", text("the third")))
        ends = [await watch.end_of(run.run.id) for run in (first, second, third)]

    assert [(end.state, end.reason) for end in ends] == [
        ("interrupted", "server_crash"),
        ("completed", "end_turn"),
        ("completed", "end_turn"),
    ]
    finished = [event.run.id for event in watch.seen if isinstance(event, RunFinished)]
    assert finished == [first.run.id, second.run.id, third.run.id]
    cut = (await other.messages(session.id))[1]
    assert "half a thought".startswith(text_of(cut.parts))
    assert isinstance(cut.parts[-1], Finish)
    assert provider.count("first") == 1

    await asyncio.to_thread(fleet[0].start)  # it comes back, and requests at it reach the new owner
    again = await owner.run(session.id, "hello")
    assert again.state == "completed"
    view = await owner.client.fleet()
    (workspace,) = view.workspaces
    by_state = {server.id: server.state for server in view.servers}
    assert sorted(by_state.values()) == ["alive", "alive", "dead"]
    assert workspace.server_id != view.server_id
    assert workspace.fence >= 2


@pytest.mark.promise("W16", "R7")
@pytest.mark.parametrize("fleet", [("one", "one")], indirect=True)
async def test_an_owner_that_was_paused_past_its_lease_writes_nothing(
    fleet: list[FleetServerProcess], players: list[Player], provider: Provider
) -> None:
    prompt = provider.tell("long", Answer(pieces=(Say("before"), Gate("later"), Say(" after"))))
    owner, other = players
    session = await owner.session()
    async with other.watching(session.id) as watch:
        run = (await owner.prompt(session.id, prompt)).run
        await watch.until_text("before")
        fleet[0].pause()
        provider.open("later")
        # Both are forwarded to the paused owner, whose kernel takes connections. The new owner answers them.
        waiting = asyncio.gather(other.messages(session.id), other.prompt(session.id, "hello"))
        ended = await watch.end_of(run.id)
        messages, queued = await waiting
        assert "before".startswith(text_of(messages[1].parts))
        assert (await watch.end_of(queued.run.id)).state == "completed"
        assert (ended.state, ended.reason) == ("interrupted", "server_crash")
        assert (await other.run(session.id, "hello")).state == "completed"
        before = stored_by_owners(fleet[0])
        fleet[0].proceed()
        assert await asyncio.to_thread(fleet[0].wait_gone) == DEAD_STATUS
        assert stored_by_owners(fleet[0]) == before
        assert await other.client.get_run(run.id) == ended


@pytest.mark.promise("W16", "R1", "R5", "C1")
@pytest.mark.parametrize("fleet", [("one", "two")], indirect=True)
async def test_prompts_for_a_host_that_is_away_are_accepted_and_run_when_it_is_back(
    fleet: list[FleetServerProcess], players: list[Player], provider: Provider
) -> None:
    hanging = provider.tell("hanging", Answer(pieces=(Say("half"), Hang())))
    near, other = players
    session = await near.session()
    async with other.watching(session.id) as watch:
        first = await other.prompt(session.id, hanging)
        await watch.until_text("half")
        await asyncio.to_thread(fleet[0].kill)
        second = await other.prompt(session.id, provider.tell("second", text("the second")))
        ended = await watch.end_of(first.run.id)
        third = await other.prompt(session.id, "not this one")
        receipt = await other.client.cancel_run(third.run.id)
        assert (ended.state, ended.reason) == ("interrupted", "server_crash")
        assert (second.decision, third.decision) == ("queued", "queued")
        assert [(one.run_id, one.ended_as) for one in receipt.runs] == [(third.run.id, "cancelled")]
        assert (await other.client.get_run(second.run.id)).state == "queued"
        while True:  # the caretaker gives the workspace back after its last request
            (workspace,) = (await other.client.fleet()).workspaces
            if workspace.server_id is None:
                break
        assert workspace.queued_runs == 1
        await asyncio.to_thread(fleet[0].start)
        completed = await watch.end_of(second.run.id)
        assert (completed.state, completed.text) == ("completed", "the second")


@pytest.mark.promise("W16", "R5")
@pytest.mark.parametrize("fleet", [("one", "two", "shared")], indirect=True)
async def test_another_host_goes_on_in_a_shared_directory(
    fleet: list[FleetServerProcess], players: list[Player], provider: Provider
) -> None:
    owner, other = players
    session = await owner.session()
    async with other.watching(session.id) as watch:
        first = await owner.prompt(session.id, provider.tell("first", Answer(pieces=(Say("half"), Hang()))))
        second = await owner.prompt(session.id, provider.tell("second", text("elsewhere")))
        await watch.until_text("half")
        await asyncio.to_thread(fleet[0].kill)
        interrupted, completed = await watch.end_of(first.run.id), await watch.end_of(second.run.id)

    assert (interrupted.state, interrupted.reason) == ("interrupted", "server_crash")
    assert (completed.state, completed.text) == ("completed", "elsewhere")
