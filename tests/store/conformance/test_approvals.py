"""Approvals, questions and grants."""

import asyncio

import pytest
from msgspec.structs import replace

from holdfast.errors import StoreConflict
from holdfast.schema.approvals import Grant, Question, QuestionItem
from holdfast.schema.messages import Text
from holdfast.store import Batch, Store
from holdfast.store import writes as w
from tests.store.batches import (
    AT,
    a_message,
    an_approval,
    new_session,
)


@pytest.mark.promise("W4")
async def test_the_first_answer_to_an_approval_wins(ledger: Store) -> None:
    await ledger.commit(Batch((w.OpenApproval(an_approval("apr_1")),)))
    assert [found.id for found in (await ledger.open_approvals(workspace_id="wsp_1")).items] == ["apr_1"]
    assert (await ledger.open_approvals(run_id="run_other")).items == ()

    def answer(who: str) -> Batch:
        resolve = w.ResolveApproval(
            approval_id="apr_1",
            state="answered",
            decision="always",
            pattern=("bash: rm *",),
            answered_by=who,
            resolved_at=AT,
        )
        return Batch((resolve,))

    results = await asyncio.gather(ledger.commit(answer("a")), ledger.commit(answer("b")), return_exceptions=True)
    assert isinstance(results[1], StoreConflict)
    assert results[1].detail == {"id": "apr_1", "state": "answered", "answered_by": "a"}
    found = await ledger.approval("apr_1")
    assert (found.state, found.decision, found.pattern, found.answered_by) == (
        "answered",
        "always",
        ("bash: rm *",),
        "a",
    )
    assert (await ledger.open_approvals()).items == ()


@pytest.mark.promise("W4")
async def test_the_first_answer_to_a_question_wins(ledger: Store) -> None:
    question = Question("qst_1", "wsp_1", "ses_1", "ses_1", "run_1", "call_1", (QuestionItem("Why?"),))
    await ledger.commit(Batch((w.OpenQuestion(question),)))
    assert (await ledger.open_questions(workspace_id="wsp_1")).items == (question,)
    resolve = w.ResolveQuestion(question_id="qst_1", state="answered", answers=(("so",),), resolved_at=AT)
    await ledger.commit(Batch((resolve,)))
    with pytest.raises(StoreConflict, match="already answered"):
        await ledger.commit(Batch((replace(resolve, state="cancelled", answers=None),)))
    assert (await ledger.question("qst_1")).answers == (("so",),)
    assert (await ledger.open_questions()).items == ()


async def test_a_grant_belongs_to_a_workspace_or_a_session(ledger: Store) -> None:
    await ledger.commit(new_session("ses_2"))
    own = Grant("g1", "wsp_1", "bash: ls", session_id="ses_1")
    everyones = Grant("g2", "wsp_1", "bash: ls")
    again = replace(everyones, id="g3")
    await ledger.commit(Batch(tuple(w.AddGrant(grant) for grant in (own, everyones, again))))
    assert await ledger.grants("wsp_1", session_id="ses_1") == (own, everyones)
    assert await ledger.grants("wsp_1", session_id="ses_2") == (everyones,)
    assert await ledger.grants("wsp_2") == ()
    await ledger.commit(Batch((w.RemoveGrants(workspace_id="wsp_1", grant_id="g2"),)))
    assert await ledger.grants("wsp_1", session_id="ses_1") == (own,)
    await ledger.commit(Batch((w.RemoveGrants(workspace_id="wsp_1"),)))
    assert await ledger.grants("wsp_1", session_id="ses_1") == ()


async def test_the_open_parts_of_a_run_are_what_the_single_reads_return(ledger: Store) -> None:
    other = replace(an_approval("apr_2"), run_id="run_2")
    asked = Question("que_1", "wsp_1", "ses_1", "ses_1", "run_1", "call_1", (QuestionItem("Why?"),))
    await ledger.commit(Batch((w.OpenApproval(an_approval("apr_1")), w.OpenApproval(other), w.OpenQuestion(asked))))
    await ledger.commit(Batch(tuple(w.PutMessage(a_message(f"msg_{number}")) for number in range(4))))
    ledger.append_draft("ses_1", "msg_3", 0, "so far")
    found = await ledger.open_run_parts("ses_1", run_id="run_1", limit=3)
    assert [approval.id for approval in found.approvals] == ["apr_1"]
    assert [question.id for question in found.questions] == ["que_1"]
    assert found.messages == await ledger.messages("ses_1", limit=3, before=1 << 62)
    assert [message.id for message in found.messages.items] == ["msg_1", "msg_2", "msg_3"]
    assert found.messages.items[-1].parts == (Text("so far"),)
    assert found.messages.next is not None
