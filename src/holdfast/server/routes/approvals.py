"""Approvals and questions: listed for whoever comes late, answered by the first (`W4`)."""

from __future__ import annotations

from holdfast.errors import BadRequest, Conflict, Gone, NotFound
from holdfast.schema.api.request_bodies import ApprovalBody, NoParameters, QuestionBody
from holdfast.schema.api.response_bodies import PageView
from holdfast.schema.approvals import Approval, Question
from holdfast.server.http.endpoint import Call, Endpoint
from holdfast.services.page_view import page_view


async def list_approvals(call: Call[None, NoParameters]) -> PageView[Approval]:
    """Approvals that are open."""
    workspace = await call.parts.store.workspace(call.path["workspace_id"])
    page = await call.parts.store.open_approvals(workspace_id=workspace.id)
    return page_view(page, call.parts.hub)


async def get_approval(call: Call[None, NoParameters]) -> Approval:
    """An approval, open or not."""
    return await call.parts.store.approval(call.path["approval_id"])


async def answer_approval(call: Call[ApprovalBody, NoParameters]) -> Approval:
    """Decide. The first answer counts; a later one is refused and told who won."""
    body = call.body
    return await call.parts.approvals.answer(
        call.path["approval_id"],
        body.decision,
        client=call.client,
        patterns=body.pattern or None,
        feedback=body.feedback,
    )


async def list_questions(call: Call[None, NoParameters]) -> PageView[Question]:
    """Questions that are open."""
    workspace = await call.parts.store.workspace(call.path["workspace_id"])
    page = await call.parts.store.open_questions(workspace_id=workspace.id)
    return page_view(page, call.parts.hub)


async def get_question(call: Call[None, NoParameters]) -> Question:
    """A question, open or not."""
    return await call.parts.store.question(call.path["question_id"])


async def answer_question(call: Call[QuestionBody, NoParameters]) -> Question:
    """Answer each of its items, or dismiss it. The first answer counts."""
    answers = call.body.answers
    if (answers is None) != call.body.dismiss:
        raise BadRequest("give either 'answers' or 'dismiss': true", detail={"field": "answers"})
    return await call.parts.approvals.answer_question(call.path["question_id"], answers, client=call.client)


_KNOWN = (NotFound, Gone)
_APPROVAL = "/v1/approvals/{approval_id}"
_QUESTION = "/v1/questions/{question_id}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        *("GET", "/v1/workspaces/{workspace_id}/approvals", list_approvals),
        answer=PageView[Approval],
        errors=(NotFound,),
    ),
    Endpoint("GET", _APPROVAL, get_approval, answer=Approval, errors=_KNOWN),
    Endpoint(*("POST", _APPROVAL, answer_approval), body=ApprovalBody, answer=Approval, errors=(*_KNOWN, Conflict)),
    Endpoint(
        *("GET", "/v1/workspaces/{workspace_id}/questions", list_questions),
        answer=PageView[Question],
        errors=(NotFound,),
    ),
    Endpoint("GET", _QUESTION, get_question, answer=Question, errors=_KNOWN),
    Endpoint(*("POST", _QUESTION, answer_question), body=QuestionBody, answer=Question, errors=(*_KNOWN, Conflict)),
)
