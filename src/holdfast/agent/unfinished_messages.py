"""Closes the messages of a run that ended without closing them itself, for example in a crash. Pure.

Afterwards the assistant message has a finish reason and keeps its partial text, and every tool call has a result (`C5`,
`C6`). Messages that are already closed are not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import assert_never

from msgspec.structs import replace

from holdfast.schema.base import Value
from holdfast.schema.messages import Finish, FinishReason, Message, Part, Role, ToolCall, ToolResult
from holdfast.schema.runs import EndReason, EndState, Run

CANCELLED = "Cancelled before it finished; it may have run in part."
NOT_APPROVED = "Not run: it was not approved yet."
UNKNOWN = "Outcome unknown: this call was cut off and may have run. Check before you repeat it."


class Cutoff(Value, frozen=True, kw_only=True):
    """How a run ended that may have left messages open."""

    state: EndState
    reason: EndReason
    detail: str = ""
    """The error message for the user."""
    crashed: bool = False
    """The server crashed, so the outcome of open calls is unknown."""
    unapproved: frozenset[str] = frozenset()
    """Calls that were still waiting for approval, and so did not run."""


def closing_messages(
    messages: Sequence[Message], *, run: Run, cutoff: Cutoff, at: str, new_id: Callable[[], str]
) -> tuple[Message, ...]:
    """Return the messages to write so that the run has none open: finished ones, results, and a last message.

    ``messages`` are the latest of the run, in order, at least back to its last closed step or its last prompt.
    """
    if cutoff.state == "completed":
        return ()
    finish = Finish(finish_reason(cutoff.state, cutoff.reason), cutoff.detail)
    finished = [_finished(message, finish) for message in messages]
    closed = [new for new, old in zip(finished, messages, strict=True) if new is not old]
    if missing := unanswered(messages):
        results = tuple(_result(call, cutoff) for call in missing)
        closed.append(_message(run, "tool", results, at=at, new_id=new_id))
    if run.kind == "prompt" and not _ends_with(finished, finish.reason):
        closed.append(_message(run, "assistant", (finish,), at=at, new_id=new_id))
    return tuple(closed)


def _finished(message: Message, finish: Finish) -> Message:
    if message.role != "assistant" or finish_of(message) is not None:
        return message
    return replace(message, parts=(*message.parts, finish))


def _message(run: Run, role: Role, parts: tuple[Part, ...], *, at: str, new_id: Callable[[], str]) -> Message:
    return Message(id=new_id(), session_id=run.session_id, run_id=run.id, role=role, seq=0, created_at=at, parts=parts)


def _result(call: ToolCall, cutoff: Cutoff) -> ToolResult:
    if call.id in cutoff.unapproved:
        return ToolResult(call.id, call.name, status="cancelled", text=NOT_APPROVED)
    if cutoff.state == "cancelled" and not cutoff.crashed:
        return ToolResult(call.id, call.name, status="cancelled", text=CANCELLED)
    return ToolResult(call.id, call.name, status="unknown", text=UNKNOWN)


def unanswered(messages: Iterable[Message]) -> list[ToolCall]:
    """Return the calls without a result, in order."""
    calls: dict[str, ToolCall] = {}
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCall):
                calls[part.id] = part
            elif isinstance(part, ToolResult):
                calls.pop(part.call_id, None)
    return list(calls.values())


def finish_of(message: Message) -> Finish | None:
    return next((part for part in reversed(message.parts) if isinstance(part, Finish)), None)


def finish_reason(state: EndState, reason: EndReason) -> FinishReason:
    """Return the finish reason of the last message of a run with this end."""
    match state:
        case "cancelled":
            return "cancelled"
        case "interrupted":
            return "interrupted"
        case "failed" | "completed":
            return _FINISH_BY_END_REASON.get(reason, "error" if state == "failed" else "end_turn")
        case _:
            assert_never(state)


_FINISH_BY_END_REASON: dict[EndReason, FinishReason] = {
    "refused": "refused",
    "max_tokens": "max_tokens",
    "limit_steps": "limit",
    "limit_time": "limit",
    "limit_cost": "limit",
    "loop": "limit",
}


def _ends_with(messages: Sequence[Message], reason: FinishReason) -> bool:
    """Return whether the last answer to the last prompt already has this finish reason."""
    for message in reversed(messages):
        if message.role == "user":
            return False
        if message.role == "assistant":
            finish = finish_of(message)
            return finish is not None and finish.reason == reason
    return False
