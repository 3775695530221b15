"""Approvals and questions (`W4`)."""

from __future__ import annotations

from holdfast.errors import Conflict, Gone, NotFound
from holdfast.schema.api.request_bodies import ApprovalBody, NoParameters, QuestionBody
from holdfast.schema.api.response_bodies import PageView
from holdfast.schema.approvals import Approval, Question
from holdfast.server.http.endpoint import ApiRequest, Endpoint


async def list_approvals(request: ApiRequest[None, NoParameters]) -> PageView[Approval]:
    """List open approvals."""
    return await request.services.approvals.list_open(request.path["workspace_id"])


async def get_approval(request: ApiRequest[None, NoParameters]) -> Approval:
    """Get an approval, open or closed."""
    return await request.services.approvals.get(request.path["approval_id"])


async def answer_approval(request: ApiRequest[ApprovalBody, NoParameters]) -> Approval:
    """Decide an approval. The first answer counts; a later one gets `409` with the winning answer."""
    body = request.body
    if body.decision == "always" and body.scope == "all":
        request.access.require("admin")  # it is saved in the user's settings
        request.access.require_all_workspaces()
    return await request.services.approvals.answer(
        request.path["approval_id"],
        body.decision,
        client=request.client,
        patterns=body.pattern,
        scope=body.scope,
        feedback=body.feedback,
    )


async def list_questions(request: ApiRequest[None, NoParameters]) -> PageView[Question]:
    """List open questions."""
    return await request.services.approvals.list_open_questions(request.path["workspace_id"])


async def get_question(request: ApiRequest[None, NoParameters]) -> Question:
    """Get a question, open or closed."""
    return await request.services.approvals.get_question(request.path["question_id"])


async def answer_question(request: ApiRequest[QuestionBody, NoParameters]) -> Question:
    """Answer every item of a question, or dismiss it. The first answer counts."""
    return await request.services.approvals.answer_question(
        request.path["question_id"], request.body, client=request.client
    )


_UNKNOWN = (NotFound, Gone)
_APPROVAL = "/v1/approvals/{approval_id}"
_QUESTION = "/v1/questions/{question_id}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        *("GET", "/v1/workspaces/{workspace_id}/approvals", list_approvals),
        response=PageView[Approval],
        errors=(NotFound,),
    ),
    Endpoint("GET", _APPROVAL, get_approval, response=Approval, errors=_UNKNOWN),
    Endpoint("POST", _APPROVAL, answer_approval, body=ApprovalBody, response=Approval, errors=(*_UNKNOWN, Conflict)),
    Endpoint(
        *("GET", "/v1/workspaces/{workspace_id}/questions", list_questions),
        response=PageView[Question],
        errors=(NotFound,),
    ),
    Endpoint("GET", _QUESTION, get_question, response=Question, errors=_UNKNOWN),
    Endpoint("POST", _QUESTION, answer_question, body=QuestionBody, response=Question, errors=(*_UNKNOWN, Conflict)),
)
