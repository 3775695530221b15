"""9. Two clients answer one approval at once; a client joins while one is open; a run that waits is cancelled."""

import asyncio
from pathlib import Path

import pytest

from holdfast.errors import Conflict, HoldfastError
from holdfast.schema.approvals import Approval
from holdfast.schema.events import ApprovalRequested, ApprovalResolved
from holdfast.schema.messages import ToolResult
from holdfast.testing import Answer, Call, text
from tests.e2e.conftest import Join
from tests.e2e.player import Player
from tests.e2e.provider import Provider
from tests.e2e.server import Server


def _asking(provider: Provider, tag: str, made: Path) -> str:
    command = Call("bash", {"command": f"touch {made}"})
    return provider.tell(tag, Answer(pieces=(command,)), text("done"))


def _result(messages: list) -> ToolResult:  # type: ignore[type-arg]
    (result,) = (part for message in messages for part in message.parts if isinstance(part, ToolResult))
    return result


@pytest.mark.promise("W4", "W7")
async def test_of_two_answers_at_once_one_wins_and_everyone_is_told_who(
    server: Server, provider: Provider, join: Join, tmp_path: Path
) -> None:
    made = tmp_path / "work" / "made"
    prompt = _asking(provider, "race", made)
    prompter, yes, no = join(server, "prompter"), join(server, "yes"), join(server, "no")
    session = await prompter.session()
    async with prompter.watching(session.id) as watch, no.watching(session.id) as others:
        run = (await prompter.prompt(session.id, prompt)).run
        asked = (await watch.until(ApprovalRequested)).approval
        assert (asked.tool, asked.state, asked.run_id) == ("bash", "open", run.id)
        assert str(made) in asked.title
        answers = await asyncio.gather(
            yes.client.answer_approval(asked.id, "once"),
            no.client.answer_approval(asked.id, "deny", feedback="not now"),
            return_exceptions=True,
        )
        told, told_others = (
            (await watch.until(ApprovalResolved)).approval,
            (await others.until(ApprovalResolved)).approval,
        )
        ended = await watch.end_of(run.id)
        await others.end_of(run.id)

    (winner,) = [answer for answer in answers if isinstance(answer, Approval)]
    (loser,) = [answer for answer in answers if isinstance(answer, HoldfastError)]
    assert isinstance(loser, Conflict)
    assert told == told_others == winner
    assert (winner.answered_by or "").startswith("yes/" if winner.decision == "once" else "no/")
    assert ended.state == "completed"
    assert made.exists() == (winner.decision == "once")
    assert _result(await no.messages(session.id)).status == ("ok" if winner.decision == "once" else "denied")
    again: Player = yes if winner.decision == "once" else no
    assert winner.decision is not None
    repeated = await again.client.answer_approval(asked.id, winner.decision, feedback=winner.feedback)
    assert repeated.decision == winner.decision
    resolved = [event for event in watch.seen if isinstance(event, ApprovalResolved)]
    assert len(resolved) == 1


@pytest.mark.promise("W4")
async def test_a_client_that_joins_while_an_approval_is_open_finds_and_answers_it(
    server: Server, provider: Provider, join: Join, tmp_path: Path
) -> None:
    made = tmp_path / "work" / "made"
    prompt = _asking(provider, "join", made)
    prompter = join(server, "prompter")
    session = await prompter.session()
    async with prompter.watching(session.id) as watch:
        run = (await prompter.prompt(session.id, prompt)).run
        asked = (await watch.until(ApprovalRequested)).approval
    await prompter.leave()

    late = join(server, "late")
    workspace = await late.client.open_workspace(str(late.directory))
    assert workspace.pending_approvals == 1
    (listed,) = (await late.client.approvals(workspace.id)).items
    assert listed == asked == await late.client.approval(asked.id)
    async with late.watching(session.id) as seen:
        await late.client.answer_approval(asked.id, "once")
        assert (await seen.end_of(run.id)).state == "completed"
    assert made.exists()
    assert (await late.client.approvals(workspace.id)).items == ()


@pytest.mark.promise("C8", "W4")
async def test_a_cancel_closes_the_approvals_its_run_waits_for(
    server: Server, provider: Provider, join: Join, tmp_path: Path
) -> None:
    made = tmp_path / "work" / "made"
    prompt = _asking(provider, "cancel", made)
    prompter, other = join(server, "prompter"), join(server, "other")
    session = await prompter.session()
    async with prompter.watching(session.id) as watch:
        run = (await prompter.prompt(session.id, prompt)).run
        asked = (await watch.until(ApprovalRequested)).approval
        (covered,) = (await other.client.cancel_session(session.id)).runs
        assert (covered.run_id, covered.ended_as) == (run.id, "cancelled")
        assert covered.doing is not None
        assert covered.doing.phase == "approval"
        closed = (await watch.until(ApprovalResolved)).approval
        assert (closed.id, closed.state, closed.decision) == (asked.id, "cancelled", None)
        assert (await watch.end_of(run.id)).state == "cancelled"
    with pytest.raises(Conflict):
        await other.client.answer_approval(asked.id, "once")
    assert not made.exists()
    assert _result(await other.messages(session.id)).status == "cancelled"
    assert (await prompter.run(session.id, "go on")).state == "completed"
