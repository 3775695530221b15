"""Closes the messages of a run that ended without closing them itself. Pure.

Whatever cut a run off, its record is whole (`C5`, `C6`): the assistant message says how it ended and keeps its partial
text, and every tool call has a result. What is already closed is never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import assert_never

from msgspec.structs import replace

from holdfast.schema.base import Value
from holdfast.schema.messages import Finish, FinishReason, Message, Part, Role, ToolCall, ToolResult
from holdfast.schema.runs import EndReason, EndState, Run

CANCELLED = "Cancelled before it finished; it may have run in part."
NOT_APPROVED = "It did not run: nobody had approved it yet."
UNKNOWN = "Outcome unknown: this call was cut off and may have run. Check before you repeat it."


class Cut(Value, frozen=True, kw_only=True):
    """How a run ended that may have left something open."""

    state: EndState
    reason: EndReason
    detail: str = ""
    """For people: what went wrong."""
    crashed: bool = False
    """The server that ran it is gone: nobody saw what its calls did."""
    unapproved: frozenset[str] = frozenset()
    """Calls that still waited for a person's word, and so cannot have run."""


def closing_messages(
    messages: Sequence[Message], *, run: Run, cut: Cut, at: str, new_id: Callable[[], str]
) -> tuple[Message, ...]:
    """What must be written so that nothing of the run is open: messages with a finish, results, a last message.

    ``messages`` are the run's latest, in order, at least back to its last closed step or its last prompt.
    """
    if cut.state == "completed":
        return ()
    finish = Finish(finish_reason(cut.state, cut.reason), cut.detail)
    finished = [_finished(message, finish) for message in messages]
    closed = [new for new, old in zip(finished, messages, strict=True) if new is not old]
    if missing := unanswered(messages):
        results = tuple(_result(call, cut) for call in missing)
        closed.append(_message(run, "tool", results, at=at, new_id=new_id))
    if run.kind == "prompt" and not _says(finished, finish.reason):
        closed.append(_message(run, "assistant", (finish,), at=at, new_id=new_id))
    return tuple(closed)


def _finished(message: Message, finish: Finish) -> Message:
    if message.role != "assistant" or finish_of(message) is not None:
        return message
    return replace(message, parts=(*message.parts, finish))


def _message(run: Run, role: Role, parts: tuple[Part, ...], *, at: str, new_id: Callable[[], str]) -> Message:
    return Message(id=new_id(), session_id=run.session_id, run_id=run.id, role=role, seq=0, created_at=at, parts=parts)


def _result(call: ToolCall, cut: Cut) -> ToolResult:
    if call.id in cut.unapproved:
        return ToolResult(call.id, call.name, status="cancelled", text=NOT_APPROVED)
    if cut.state == "cancelled" and not cut.crashed:
        return ToolResult(call.id, call.name, status="cancelled", text=CANCELLED)
    return ToolResult(call.id, call.name, status="unknown", text=UNKNOWN)


def unanswered(messages: Iterable[Message]) -> list[ToolCall]:
    """Calls without a result, in order."""
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
    """What the last message of a run that ended so says."""
    match state:
        case "cancelled":
            return "cancelled"
        case "interrupted":
            return "interrupted"
        case "failed" | "completed":
            return _FAILED.get(reason, "error" if state == "failed" else "end_turn")
        case _:
            assert_never(state)


_FAILED: dict[EndReason, FinishReason] = {
    "refused": "refused",
    "max_tokens": "max_tokens",
    "limit_steps": "limit",
    "limit_time": "limit",
    "limit_cost": "limit",
    "loop": "limit",
}


def _says(messages: Sequence[Message], reason: FinishReason) -> bool:
    """Whether the last answer to the last prompt already tells this end."""
    for message in reversed(messages):
        if message.role == "user":
            return False
        if message.role == "assistant":
            finish = finish_of(message)
            return finish is not None and finish.reason == reason
    return False
