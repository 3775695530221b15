"""Approvals and questions: list those that are open, and answer them; the first answer wins (`W4`)."""

from __future__ import annotations

from holdfast.approvals.pending_approvals import PendingApprovals
from holdfast.errors import BadRequest
from holdfast.events import Hub
from holdfast.schema.api.request_bodies import QuestionBody
from holdfast.schema.api.response_bodies import PageView
from holdfast.schema.approvals import Approval, ApprovalDecision, Question, RuleScope
from holdfast.services.api_values import page_view
from holdfast.store import Store


class ApprovalService:
    """Approvals and questions of all workspaces."""

    def __init__(self, store: Store, hub: Hub, approvals: PendingApprovals) -> None:
        self._store = store
        self._hub = hub
        self._approvals = approvals

    async def list_open(self, workspace_id: str) -> PageView[Approval]:
        workspace = await self._store.workspace(workspace_id)
        return page_view(await self._store.open_approvals(workspace_id=workspace.id), self._hub)

    async def get(self, approval_id: str) -> Approval:
        return await self._store.approval(approval_id)

    async def answer(
        self,
        approval_id: str,
        decision: ApprovalDecision,
        *,
        client: str,
        patterns: tuple[str, ...] = (),
        scope: RuleScope = "project",
        feedback: str = "",
    ) -> Approval:
        """Decide an approval. Raises `Conflict` with the winning decision if another client was first."""
        return await self._approvals.answer(
            approval_id, decision, client=client, patterns=patterns or None, scope=scope, feedback=feedback
        )

    async def list_open_questions(self, workspace_id: str) -> PageView[Question]:
        workspace = await self._store.workspace(workspace_id)
        return page_view(await self._store.open_questions(workspace_id=workspace.id), self._hub)

    async def get_question(self, question_id: str) -> Question:
        return await self._store.question(question_id)

    async def answer_question(self, question_id: str, body: QuestionBody, *, client: str) -> Question:
        """Answer every item of a question, or dismiss it. Raises `Conflict` like `answer`."""
        if (body.answers is None) != body.dismiss:
            raise BadRequest("give either 'answers' or 'dismiss': true", detail={"field": "answers"})
        return await self._approvals.answer_question(question_id, body.answers, client=client)
