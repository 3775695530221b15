"""1. Two clients, one cancels: the prompter sees a cancelled end and no error; nobody sees a 5xx."""

import asyncio

import pytest

from holdfast.schema.events import MessageFinished, RunStopping
from holdfast.schema.messages import Finish, text_of
from holdfast.testing import Answer, Hang, Say
from tests.e2e.conftest import Join
from tests.e2e.provider import Provider
from tests.e2e.server import Server


@pytest.mark.promise("C1", "C3", "C5", "C7", "C9", "E5")
async def test_the_prompter_sees_a_cancelled_end_when_another_client_cancels(
    server: Server, provider: Provider, join: Join
) -> None:
    prompt = provider.tell("one", Answer(pieces=(Say("so far "), Say("so good"), Hang())))
    prompter, other = join(server, "prompter"), join(server, "other")
    session = await prompter.session()
    async with prompter.watching(session.id) as watch, other.watching(session.id) as others:
        accepted = await prompter.prompt(session.id, prompt)
        waiting = asyncio.create_task(prompter.client.wait_run(accepted.run.id))
        await watch.until_text("so far so good")
        receipt = await other.client.cancel_session(session.id)
        ended, seen = await watch.end_of(accepted.run.id), await others.end_of(accepted.run.id)
        waited = await waiting

    (covered,) = receipt.runs
    assert (covered.run_id, covered.was, covered.ended_as, covered.reason) == (
        accepted.run.id,
        "active",
        "cancelled",
        "user_cancel",
    )
    assert covered.prompt == prompt
    assert ended == seen == waited
    assert (ended.state, ended.reason, ended.error) == ("cancelled", "user_cancel", None)
    kinds = [type(event) for event in watch.seen]
    assert kinds.index(RunStopping) < kinds.index(MessageFinished) < len(kinds) - 1

    user, assistant = await other.messages(session.id)
    assert text_of(user.parts) == prompt
    assert text_of(assistant.parts) == "so far so good"
    assert assistant.parts[-1] == Finish("cancelled")
    (number,) = provider.asked["one"]
    await provider.wait_for_disconnect(number)
    again = await prompter.run(session.id, "go on")
    assert (again.state, again.text) == ("completed", "ok")


@pytest.mark.promise("C2")
async def test_cancelling_when_nothing_runs_does_nothing(server: Server, provider: Provider, join: Join) -> None:
    player = join(server)
    session = await player.session()
    assert (await player.client.cancel_session(session.id)).runs == ()
    assert (await player.run(session.id, "hello")).state == "completed"
    assert (await player.client.cancel_session(session.id)).runs == ()
    assert (await player.run(session.id, "hello")).state == "completed"
