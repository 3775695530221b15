"""4. A run goes on when its starter, and then everyone, is gone; who comes later reads all of it, exactly."""

import pytest

from holdfast.client.transcript import Transcript
from holdfast.schema.events import RunFinished
from holdfast.schema.messages import Reasoning, Text, ToolCall, ToolResult
from holdfast.testing import Answer, Call, Gate, Say, Think
from tests.e2e.conftest import Join
from tests.e2e.provider import Provider
from tests.e2e.server import Server


@pytest.mark.promise("R8", "R9", "R10", "E2", "E3", "E7")
async def test_a_run_goes_on_alone_and_can_be_read_later(server: Server, provider: Provider, join: Join) -> None:
    prompt = provider.tell(
        "alone",
        Answer(pieces=(Think("I should look"), Say("Looking. "), Gate("everyone is gone"), Call("ls", {"path": "."}))),
        Answer(pieces=(Say("It is empty: "), Say("grüße 😀"))),
    )
    starter = join(server, "starter")
    session = await starter.session()
    witness = join(server, "witness")
    cursor = (await witness.client.session(session.id)).cursor
    async with starter.watching(session.id) as watch, witness.watching(session.id) as seen:
        run = (await starter.prompt(session.id, prompt, mode="auto")).run
        await watch.until_text("Looking. ")
        await starter.leave()
        await seen.until_text("Looking. ")
        await witness.leave()
    provider.open("everyone is gone")

    late = join(server, "late")
    ended = await late.client.wait_run(run.id)
    assert (ended.state, ended.reason, ended.text) == ("completed", "end_turn", "It is empty: grüße 😀")
    stored = await late.messages(session.id)
    user, asking, result, answering = (message.parts for message in stored)
    assert Text(prompt) in user
    assert [type(part) for part in asking[:3]] == [Reasoning, Text, ToolCall]
    assert asking[1] == Text("Looking. ")
    assert isinstance(result[0], ToolResult)
    assert result[0].status == "ok"
    assert answering[0] == Text("It is empty: grüße 😀")

    transcript = Transcript()
    async with late.client.events(session_id=session.id, after=cursor, transcript=transcript) as stream:
        async for event in stream:
            if isinstance(event, RunFinished):
                break
    assert event.run == ended
    assert sorted(transcript.messages.values(), key=lambda message: message.seq) == stored
