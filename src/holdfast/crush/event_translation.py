"""Our events as the envelopes of Crush's stream. Pure.

Crush sends each change of a message as the whole message. The translator keeps the messages that are being written and
adds the live text to them. Text is collected until `take_updates`, so that many deltas become one envelope.
"""

from __future__ import annotations

import re
from typing import Any

from holdfast.crush.message_translation import message_body, seconds_of
from holdfast.crush.tool_translation import permission_request
from holdfast.schema.approvals import Approval, Question, QuestionItem
from holdfast.schema.events import (
    ApprovalRequested,
    ApprovalResolved,
    ConfigChanged,
    Delta,
    Event,
    ExtensionChanged,
    FileChanged,
    MessageCreated,
    MessageFinished,
    MessageUpdated,
    QuestionAsked,
    QuestionResolved,
    RunFinished,
    SessionDeleted,
    Snapshot,
)
from holdfast.schema.extensions import ExtensionStatus
from holdfast.schema.messages import Message, ToolCall
from holdfast.schema.open_texts import OpenTexts
from holdfast.schema.runs import Run

_OWN_RUN_ID = re.compile(r"run_[0-9a-z]{25}")
"""An id that the server chose. Crush's clients know only ids that they chose themselves."""
_QUESTION_TYPES = {"yes_no": "yes_no", "single": "single_choice", "multiple": "multi_choice", "text": "free_text"}
_MCP_STATES = {
    "starting": "starting",
    "ready": "connected",
    "failed": "error",
    "needs_auth": "needs auth",
    "disabled": "disabled",
}
_LSP_STATES = {"starting": 1, "ready": 2, "failed": 3, "needs_auth": 3, "disabled": 5}


def envelope(kind: str, change: str, payload: Any) -> dict[str, Any]:
    """An event of Crush's stream: ``change`` is ``created``, ``updated`` or ``deleted``."""
    return {"type": kind, "payload": {"type": change, "payload": payload}}


class EventTranslator:
    """Translates the events of one stream."""

    def __init__(self, *, directory: str, workspace_id: str) -> None:
        self._directory = directory
        self._workspace_id = workspace_id
        self._open: dict[str, Message] = {}
        """Messages that are being written."""
        self._texts = OpenTexts()
        self._changed: dict[str, None] = {}
        """Messages with text that was not sent yet, in order."""
        self._empty: set[str] = set()
        """Prompts and results that are not sent yet, because they have no content."""
        self._children: dict[str, str] = {}
        """The ids that Crush's client expects for the sessions of sub-agents: ``message$$call``."""

    def knows(self, message_id: str) -> bool:
        """Whether deltas of this message can be applied. If not, `learn` the message first."""
        return message_id in self._open

    def learn(self, message: Message) -> None:
        """Add a message that was begun before the stream was opened."""
        self._open[message.id] = message
        self._learn_children(message)

    def apply(self, event: Event, *, again: bool = False) -> list[dict[str, Any]]:
        """The envelopes of an event. ``again``: the client may have it already, so what exists is only updated."""
        match event:
            case Delta():
                if self._texts.append(event) and event.of != "output":
                    self._changed[event.message_id] = None
                return []
            case Snapshot():
                self._texts.replace(event)
                self._changed[event.message_id] = None
                return []
            case MessageCreated(message=message) if message.role == "assistant":
                return [*self.take_updates(), self._put(message, "updated" if again else "created")]
            case MessageUpdated(message=message) | MessageFinished(message=message) if message.role == "assistant":
                found = [*self.take_updates(except_of=message.id), self._put(message, "updated")]
                if isinstance(event, MessageFinished):
                    self._close(message.id)
                return found
            case MessageCreated(message=message) | MessageUpdated(message=message) | MessageFinished(message=message):
                is_new = isinstance(event, MessageCreated) and not again
                return [*self.take_updates(), *self._put_whole(message, is_new=is_new)]
            case RunFinished(run=run):
                return [*self.take_updates(), *_run_end(run, again=again)]
            case ApprovalRequested(approval=approval) if not again:
                return [
                    envelope("permission_request", "created", permission_request(approval, directory=self._directory))
                ]
            case ApprovalResolved(approval=approval) if not again:
                return [envelope("permission_notification", "created", _permission_notification(approval))]
            case QuestionAsked(question=question) if not again:
                return [envelope("question_batch_request", "created", question_request(question))]
            case QuestionResolved(question=question) if not again:
                return [envelope("question_batch_notification", "created", {"batch_id": question.id})]
            case SessionDeleted(session_id=session_id):
                return [envelope("session", "deleted", {"id": session_id})]
            case FileChanged():
                return [envelope("file", "created", self._file(event))]
            case ConfigChanged():
                return [envelope("config_changed", "updated", {"workspace_id": self._workspace_id})]
            case ExtensionChanged(extension=extension):
                return _extension(extension)
            case _:
                return []

    def take_updates(self, *, except_of: str | None = None) -> list[dict[str, Any]]:
        """The messages whose text has grown since the last time. One is left out if it is sent anyway."""
        if except_of is not None:
            self._changed.pop(except_of, None)
        found = [
            envelope("message", "updated", self._body(self._open[one])) for one in self._changed if one in self._open
        ]
        self._changed.clear()
        return found

    def _put(self, message: Message, change: str) -> dict[str, Any]:
        self._learn_children(message)
        self._texts.close_stored(message)
        self._open[message.id] = message
        self._changed.pop(message.id, None)
        return envelope("message", change, self._body(message))

    def _put_whole(self, message: Message, *, is_new: bool) -> list[dict[str, Any]]:
        """A prompt or the results of calls. Crush creates these complete, and its client ignores updates of results."""
        self._texts.close_stored(message)
        body = self._body(message)
        if all(part["type"] == "finish" for part in body["parts"]):
            if is_new:
                self._empty.add(message.id)
            return []
        is_new = is_new or message.id in self._empty or message.role == "tool"
        self._empty.discard(message.id)
        return [envelope("message", "created" if is_new else "updated", body)]

    def _close(self, message_id: str) -> None:
        self._open.pop(message_id, None)
        self._texts.drop(message_id)

    def _body(self, message: Message) -> Any:
        session_id = self._children.get(message.session_id)
        return message_body(message, open_parts=self._texts.open_parts(message.id), session_id=session_id)

    def _learn_children(self, message: Message) -> None:
        for part in message.parts:
            if isinstance(part, ToolCall) and part.child_session_id:
                self._children[part.child_session_id] = f"{message.id}$${part.id}"

    def _file(self, event: FileChanged) -> dict[str, Any]:
        """A changed file. The client reads the history of the session again when it gets one."""
        at = seconds_of(event.at)
        return {
            "id": f"{event.run_id}:{event.path}",
            "session_id": event.session_id,
            "path": event.path,
            "content": "",
            "version": 1,
            "created_at": at,
            "updated_at": at,
        }


def run_complete(run: Run) -> dict[str, Any]:
    """The end of a run. A run id is echoed if the client chose it."""
    failed = run.state in ("failed", "interrupted")
    message = run.error.message if run.error is not None else f"the run ended as {run.state} ({run.reason})"
    return {
        "session_id": run.session_id,
        **({} if _OWN_RUN_ID.fullmatch(run.id) else {"run_id": run.id}),
        "message_id": run.message_id or "",
        **({"text": run.text} if run.text else {}),
        **({"error": message} if failed else {}),
        **({"cancelled": True} if run.state == "cancelled" else {}),
    }


def _run_end(run: Run, *, again: bool) -> list[dict[str, Any]]:
    """What Crush sends at the end of a run. A prompt that joined another run has no end of its own."""
    if run.kind != "prompt" or run.parent_run_id is not None or run.host_run_id is not None:
        return []
    end = run_complete(run)
    found = [envelope("run_complete", "created", end)]
    if again or run.state == "cancelled":
        return found
    notice = {"message": _NO_MESSAGE, "session_id": run.session_id, "run_id": end.get("run_id", "")}
    kind = {"type": "agent_finished"} if run.state == "completed" else {"type": "error", "error": end["error"]}
    return [*found, envelope("agent_event", "created", {**kind, **notice})]


_NO_MESSAGE: dict[str, Any] = {
    "id": "",
    "role": "",
    "session_id": "",
    "parts": [],
    "model": "",
    "provider": "",
    "created_at": 0,
    "updated_at": 0,
}


def _permission_notification(approval: Approval) -> dict[str, Any]:
    """How an approval was decided. One that was cancelled or expired counts as denied, so that dialogs close."""
    granted = approval.state == "answered" and approval.decision != "deny"
    return {"tool_call_id": approval.call_id, "granted": granted, "denied": not granted}


def question_request(question: Question) -> dict[str, Any]:
    """A question. The ids of its items name the question, because the client's answer does not."""
    return {
        "id": question.id,
        "session_id": question.root_session_id,
        "tool_call_id": question.call_id,
        "questions": [_question_item(question.id, number, item) for number, item in enumerate(question.items)],
    }


def _question_item(question_id: str, number: int, item: QuestionItem) -> dict[str, Any]:
    return {
        "id": f"{question_id}:{number}",
        "type": _QUESTION_TYPES[item.kind],
        "label": f"Question {number + 1}",
        "question": item.text,
        "description": "",
        "choices": [{"id": str(index), "label": option} for index, option in enumerate(item.options)],
    }


def mcp_info(status: ExtensionStatus) -> dict[str, Any]:
    """The state of an MCP server."""
    error = {"error": status.detail} if status.state in ("failed", "needs_auth") else {}
    return {"name": status.name, "state": _MCP_STATES[status.state], **error}


def lsp_info(status: ExtensionStatus) -> dict[str, Any]:
    """The state of a language server."""
    error = {"error": status.detail} if status.state == "failed" else {}
    return {"name": status.name, "state": _LSP_STATES[status.state], **error}


def _extension(status: ExtensionStatus) -> list[dict[str, Any]]:
    match status.kind:
        case "mcp":
            return [envelope("mcp_event", "updated", {"type": "state_changed", **mcp_info(status)})]
        case "lsp":
            return [envelope("lsp_event", "updated", {"type": "state_changed", **lsp_info(status)})]
        case _:
            return []
