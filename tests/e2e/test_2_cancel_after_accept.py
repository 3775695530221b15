"""2. Cancel straight after the 202, with jitter: no run survives its cancel, the next prompt always runs."""

import asyncio
import random

import pytest

from holdfast.schema.messages import Finish
from holdfast.schema.runs import Run
from holdfast.testing import Answer, Hang, Say
from tests.e2e.conftest import Join
from tests.e2e.player import Player
from tests.e2e.provider import Provider
from tests.e2e.server import Server
from tests.support.stress import StressShare


@pytest.mark.promise("C1", "C3", "C5", "C6", "C7")
async def test_no_run_survives_its_cancel_and_the_next_prompt_runs(
    server: Server, provider: Provider, join: Join
) -> None:
    await _cancel_again_and_again(server, provider, join, count=20, seed=7)


@pytest.mark.stress
@pytest.mark.promise("C1", "C7")
async def test_many_runs_are_cancelled_right_after_they_were_accepted(
    server: Server, provider: Provider, join: Join, share: StressShare
) -> None:
    for seed in share.seeds():
        await _cancel_again_and_again(server, provider, join, count=50, seed=seed)
        share.count("runs cancelled, each followed by one that completed", 50)


async def _cancel_again_and_again(server: Server, provider: Provider, join: Join, *, count: int, seed: int) -> None:
    prompt = provider.tell("hang", Answer(pieces=(Say("never"), Hang())))
    chance = random.Random(seed)
    player, other = join(server, "prompter"), join(server, "canceller")
    session = await player.session()
    ended: dict[str, str] = {}
    for _ in range(count):
        accepted = await player.prompt(session.id, prompt)
        await asyncio.sleep(chance.uniform(0, 0.005))
        receipt = await other.client.cancel_session(session.id)
        assert [(covered.run_id, covered.ended_as) for covered in receipt.runs] == [(accepted.run.id, "cancelled")]
        following = await player.run(session.id, "and now")
        assert (following.state, following.text) == ("completed", "ok")
        ended |= {accepted.run.id: "cancelled", following.id: "completed"}

    states = {run.id: run.state for run in await _all_runs(player, session.id)}
    assert states == ended
    for number in provider.asked.get("hang", []):
        await provider.wait_until_left(number)
    messages = await player.messages(session.id)
    for run_id, state in ended.items():
        mine = [message for message in messages if message.run_id == run_id]
        assert [message.role for message in mine] == ["user", "assistant"]
        last = mine[1].parts[-1]
        assert isinstance(last, Finish)
        assert last.reason == ("cancelled" if state == "cancelled" else "end_turn")


async def _all_runs(player: Player, session_id: str) -> list[Run]:
    page = await player.client.runs(session_id, limit=100)
    runs = list(page.items)
    while page.next is not None:
        page = await player.client.runs(session_id, limit=100, before=page.next)
        runs += page.items
    return runs
