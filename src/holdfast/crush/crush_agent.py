"""Prompts, cancels, the queue, permissions and questions, for Crush's clients."""

from __future__ import annotations

import base64
import binascii
import secrets
from typing import Any

from holdfast.crush.config_translation import agent_body, split_model
from holdfast.crush.crush_bodies import (
    AgentMessageBody,
    AnyBody,
    CrushAttachment,
    PermissionGrantBody,
    ProviderQuery,
    QuestionAnswerBody,
    QuestionResponseBody,
    ShellCommandBody,
    SkipBody,
)
from holdfast.crush.crush_face import CrushFace
from holdfast.crush.crush_workspaces import EMPTY, WORKSPACE
from holdfast.errors import BadRequest, Conflict, NotFound
from holdfast.schema.api.request_bodies import Attachment, CompactBody, PromptBody, QuestionBody, ShellBody
from holdfast.schema.approvals import ApprovalDecision, Question, QuestionItem
from holdfast.schema.messages import Shell
from holdfast.schema.runs import END_STATES, Run
from holdfast.server.http.endpoint import ApiRequest, Endpoint
from holdfast.server.http.responses import RawResponse
from holdfast.server.routes.runs import MAX_PROMPT_BYTES

_ACCEPTED = RawResponse(b"", status=202)
_CLIENT = "crush"
_WAIT_SECONDS = 3600.0
_DECISIONS: dict[str, ApprovalDecision] = {"allow": "once", "allow_session": "session", "deny": "deny"}


class CrushAgent:
    def __init__(self, face: CrushFace) -> None:
        self._face = face

    def endpoints(self) -> tuple[Endpoint, ...]:
        agent = f"{WORKSPACE}/agent"
        session = f"{agent}/sessions/{{session_id}}"
        return (
            Endpoint(*("POST", agent, self.prompt), body=AgentMessageBody, max_body_bytes=MAX_PROMPT_BYTES, status=202),
            Endpoint("GET", agent, self.info),
            Endpoint("POST", f"{agent}/init", self.prepare, body=AnyBody),
            Endpoint("POST", f"{agent}/update", self.prepare, body=AnyBody),
            Endpoint("GET", f"{agent}/default-small-model", self.small_model, query=ProviderQuery),
            Endpoint("GET", session, self.session),
            Endpoint("POST", f"{session}/cancel", self.cancel, body=AnyBody),
            Endpoint("GET", f"{session}/prompts/queued", self.count_queued),
            Endpoint("GET", f"{session}/prompts/list", self.list_queued),
            Endpoint("POST", f"{session}/prompts/clear", self.clear_queue, body=AnyBody),
            Endpoint("POST", f"{session}/summarize", self.summarize, body=AnyBody),
            Endpoint("POST", f"{session}/shell", self.shell, body=ShellCommandBody),
            Endpoint("POST", f"{WORKSPACE}/permissions/grant", self.grant, body=PermissionGrantBody),
            Endpoint("GET", f"{WORKSPACE}/permissions/skip", self.get_skip),
            Endpoint("POST", f"{WORKSPACE}/permissions/skip", self.set_skip, body=SkipBody),
            Endpoint("POST", f"{WORKSPACE}/questions/answer", self.answer, body=QuestionAnswerBody),
            Endpoint("POST", f"{WORKSPACE}/questions/cancel", self.dismiss, body=AnyBody),
        )

    async def prompt(self, request: ApiRequest[AgentMessageBody, Any]) -> RawResponse:
        """Accept a prompt. With a run id it gets a turn of its own; without one it joins the active turn."""
        body, workspace_id = request.body, request.path["workspace_id"]
        await self._face.directory(workspace_id)
        if not body.session_id:
            raise BadRequest("session_id is required", detail={"field": "session_id"})
        choices = self._face.clients.choices(workspace_id)
        prompt = PromptBody(
            prompt=body.prompt,
            run_id=body.run_id or None,
            attachments=tuple(_attachment(one) for one in body.attachments or ()),
            delivery="queue" if body.run_id else "steer",
            model=choices.large,
            mode="auto" if choices.skips_permissions else None,
            interactive=not body.run_id or self._has_viewers(workspace_id),
            environment=choices.environment or None,
        )
        await self._face.services.runs.start(body.session_id, prompt, client=_CLIENT)
        return _ACCEPTED

    def _has_viewers(self, workspace_id: str) -> bool:
        """Whether a client shows a session of the workspace, so that somebody can answer a request for approval.

        `crush run` cannot. Its run is not interactive then: calls that need approval are denied instead of waiting for
        ever.
        """
        return any(client.session_id for client in self._face.services.presence.clients(workspace_id))

    async def info(self, request: ApiRequest[None, Any]) -> dict[str, Any]:
        """Get the model, and whether anything is active."""
        workspace_id = request.path["workspace_id"]
        await self._face.directory(workspace_id)
        models = await self._face.models(workspace_id)
        view = await self._face.services.workspaces.view(workspace_id)
        large = self._face.clients.choices(workspace_id).large or models.large
        return agent_body(models, large=large, busy=view.unfinished_runs > 0)

    async def prepare(self, request: ApiRequest[AnyBody, Any]) -> RawResponse:
        """Nothing to prepare: each run reads the settings when it starts."""
        await self._face.directory(request.path["workspace_id"])
        self._face.forget_models()
        return EMPTY

    async def small_model(self, request: ApiRequest[None, ProviderQuery]) -> dict[str, str]:
        """Get the model for titles."""
        models = await self._face.models(request.path["workspace_id"])
        own = [model.name for model in models.models if model.provider == request.query.provider_id]
        return split_model(models.small if models.small in own or not own else own[0])

    async def session(self, request: ApiRequest[None, Any]) -> dict[str, Any]:
        """Get a session, and whether it is busy."""
        return await self._face.session(request.path["session_id"])

    async def cancel(self, request: ApiRequest[AnyBody, Any]) -> RawResponse:
        """Cancel all prompts accepted so far, and none that comes later."""
        await self._face.services.runs.cancel_session(request.path["session_id"], "session")
        return EMPTY

    async def count_queued(self, request: ApiRequest[None, Any]) -> int:
        """Count the prompts that have not started."""
        return len(await self._face.queue(request.path["session_id"]))

    async def list_queued(self, request: ApiRequest[None, Any]) -> list[str]:
        """List the prompts that have not started."""
        return [run.prompt for run in await self._face.queue(request.path["session_id"])]

    async def clear_queue(self, request: ApiRequest[AnyBody, Any]) -> RawResponse:
        """Cancel the prompts that have not started."""
        for run in await self._face.queue(request.path["session_id"]):
            try:
                await self._face.services.runs.cancel(run.id)
            except Conflict:  # it joined the active run meanwhile
                continue
        return EMPTY

    async def summarize(self, request: ApiRequest[AnyBody, Any]) -> RawResponse:
        """Replace the past messages that the model gets by a summary. It goes on if the client leaves."""
        session_id = request.path["session_id"]
        accepted = await self._face.services.runs.compact(session_id, CompactBody(), client=_CLIENT)
        run = await self._wait(request, accepted.run.id)
        if run.state in ("failed", "interrupted"):
            raise Conflict(run.error.message if run.error else f"the summary ended as {run.state}")
        return EMPTY

    async def shell(self, request: ApiRequest[ShellCommandBody, Any]) -> dict[str, Any]:
        """Run a user's own command in the directory of the session, recorded in the session."""
        session_id, workspace_id = request.path["session_id"], request.path["workspace_id"]
        environment = self._face.clients.choices(workspace_id).environment or None
        if not request.body.command.strip():
            raise BadRequest("command is required", detail={"field": "command"})
        body = ShellBody(command=request.body.command, environment=environment)
        accepted = await self._face.services.runs.run_shell(session_id, body, client=_CLIENT)
        run = await self._wait(request, accepted.run.id)
        message = await self._face.find_message(session_id, run.message_id) if run.message_id else None
        shell = next((part for part in message.parts if isinstance(part, Shell)), None) if message else None
        if shell is None:
            raise Conflict(run.error.message if run.error else f"the command ended as {run.state}")
        return {"output": shell.output, "exit_code": 1 if shell.exit_code is None else shell.exit_code}

    async def _wait(self, request: ApiRequest[Any, Any], run_id: str) -> Run:
        run = await self._face.services.runs.wait(
            run_id, seconds=_WAIT_SECONDS, caller_left=request.wait_for_disconnect()
        )
        if run.state not in END_STATES:
            raise Conflict("the run has not ended yet; it goes on")
        return run

    async def grant(self, request: ApiRequest[PermissionGrantBody, Any]) -> dict[str, bool]:
        """Decide an approval. The first answer counts."""
        decision = _DECISIONS.get(request.body.action)
        if decision is None:
            raise BadRequest(f"unknown action {request.body.action[:80]!r}", detail={"field": "action"})
        # Requests do not name their client. With a name of its own, each answer but the first is refused.
        client = f"{_CLIENT} {secrets.token_hex(4)}"
        try:
            await self._face.services.approvals.answer(request.body.permission.id, decision, client=client)
        except (Conflict, NotFound):
            return {"resolved": False}
        return {"resolved": True}

    async def get_skip(self, request: ApiRequest[None, Any]) -> dict[str, bool]:
        """Find out whether approvals are skipped."""
        await self._face.directory(request.path["workspace_id"])
        return {"skip": self._face.clients.choices(request.path["workspace_id"]).skips_permissions}

    async def set_skip(self, request: ApiRequest[SkipBody, Any]) -> RawResponse:
        """Skip approvals for prompts of Crush's clients from now on (mode `auto`), and allow those that are open."""
        workspace_id = request.path["workspace_id"]
        await self._face.directory(workspace_id)
        self._face.clients.choices(workspace_id).skips_permissions = request.body.skip
        if request.body.skip:
            for approval in (await self._face.services.approvals.list_open(workspace_id)).items:
                try:
                    await self._face.services.approvals.answer(approval.id, "once", client=_CLIENT)
                except Conflict:
                    continue
        return EMPTY

    async def answer(self, request: ApiRequest[QuestionAnswerBody, Any]) -> dict[str, bool]:
        """Answer a question. The ids of the items name it."""
        by_item = {one.request_id: one for one in request.body.responses}
        question_id = next(iter(by_item), "").rpartition(":")[0]
        try:
            question = await self._face.services.approvals.get_question(question_id)
            answers = tuple(
                _answers(item, by_item.get(f"{question_id}:{number}")) for number, item in enumerate(question.items)
            )
            await self._answer_question(question, QuestionBody(answers=answers))
        except (Conflict, NotFound):
            return {"resolved": False}
        return {"resolved": True}

    async def dismiss(self, request: ApiRequest[AnyBody, Any]) -> dict[str, bool]:
        """Dismiss the question that was asked last. Crush's request names none."""
        questions = (await self._face.services.approvals.list_open_questions(request.path["workspace_id"])).items
        if not questions:
            return {"resolved": False}
        try:
            await self._answer_question(max(questions, key=lambda one: one.created_at), QuestionBody(dismiss=True))
        except Conflict:
            return {"resolved": False}
        return {"resolved": True}

    async def _answer_question(self, question: Question, body: QuestionBody) -> None:
        client = f"{_CLIENT} {secrets.token_hex(4)}"
        await self._face.services.approvals.answer_question(question.id, body, client=client)


def _attachment(attachment: CrushAttachment) -> Attachment:
    """A file of a prompt: text if it is text, else its bytes."""
    name = attachment.file_name or attachment.file_path or "attachment"
    media_type = attachment.mime_type.replace(" ", "") or "application/octet-stream"
    content = attachment.content or ""
    if not media_type.startswith("text/"):
        return Attachment(name=name, media_type=media_type, data=content)
    try:
        return Attachment(name=name, media_type=media_type, text=base64.b64decode(content, validate=True).decode())
    except (binascii.Error, UnicodeDecodeError):
        raise BadRequest(f"attachment {name!r} is not base64 of UTF-8 text", detail={"field": "attachments"}) from None


def _answers(item: QuestionItem, response: QuestionResponseBody | None) -> tuple[str, ...]:
    if response is None:
        return ()
    if item.kind == "yes_no" and response.yes is not None:
        return ("yes",) if response.yes else ("no",)
    chosen = [
        item.options[int(one)]
        for one in response.selected_ids or ()
        if one.isdecimal() and int(one) < len(item.options)
    ]
    return (*chosen, *([response.fill_in_text] if response.fill_in_text else []))
