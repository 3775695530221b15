"""Stored messages → the messages of a request. Pure, and always valid (`C6`): whatever a session has been through,
crashed, cancelled, retried, compacted or forked, the next request is one that every wire can send.

- In the order of their numbers, from the last summary on; records of runs that never started are left out.
- It begins with the person, and every tool call is followed by exactly one result: a missing one is answered here, one
  without a call, or a call that comes a second time, is dropped.
- A message that was cut off keeps its text and its calls, and of its reasoning only what led to a call.
- What a model has no eyes for is named instead of shown.

The same stored messages always give the same request, and a message that is added only adds to its end, so that
providers' caches hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from msgspec.structs import replace

from holdfast.schema.base import Unknown
from holdfast.schema.messages import (
    Context,
    File,
    Finish,
    Message,
    Notice,
    Part,
    Reasoning,
    Shell,
    Summary,
    Text,
    ToolCall,
    ToolResult,
)

NO_RESULT = "The outcome of this call is unknown: it was interrupted and may have run. Check before you repeat it."
SUMMARY_HEAD = "Summary of the conversation so far, in place of its messages:\n\n"
EMPTY = "(The message is empty.)"
BEGINNING = "(The beginning of the conversation is missing.)"

_CUT_OFF = frozenset({"cancelled", "interrupted", "error", "limit"})


def request_messages(messages: Iterable[Message], *, images: bool) -> tuple[Message, ...]:
    """The messages to send, for a model that can see ``images`` or not."""
    sent = following_messages(messages, images=images)
    if sent and sent[0].role != "user":
        first = replace(sent[0], id=f"{sent[0].id}:beginning", role="user", parts=(Text(BEGINNING),), usage=None)
        return (first, *sent)
    return sent


def following_messages(messages: Iterable[Message], *, images: bool) -> tuple[Message, ...]:
    """What these add to a request that ends before them. Nothing in them may answer a call of an earlier one."""
    ordered = sorted((message for message in messages if not message.unsent), key=lambda message: message.seq)
    ordered = _since_summary(ordered)
    results = _results_by_call(ordered)
    called: set[str] = set()
    sent: list[Message] = []
    for message in ordered:
        match message.role:
            case "user":
                _append(sent, message, _user_parts(message.parts, images=images))
            case "assistant":
                parts = _assistant_parts(message.parts, called)
                _append(sent, message, parts)
                if calls := [part for part in parts if isinstance(part, ToolCall)]:
                    sent.append(_answers(message, calls, results, images=images))
            case "tool":
                pass  # placed behind the calls they answer
            case _:
                assert_never(message.role)
    return tuple(sent)


def last_summary(messages: Sequence[Message]) -> Message | None:
    """The newest message that stands for everything before it."""
    for message in reversed(messages):
        if any(isinstance(part, Summary) for part in message.parts):
            return message
    return None


def _since_summary(ordered: list[Message]) -> list[Message]:
    summary = last_summary(ordered)
    return ordered if summary is None else [message for message in ordered if message.seq >= summary.seq]


def _results_by_call(messages: list[Message]) -> dict[str, ToolResult]:
    """The first result of each call; a second one would be our fault and must not break the request."""
    results: dict[str, ToolResult] = {}
    for message in messages:
        if message.role == "tool":
            for part in message.parts:
                if isinstance(part, ToolResult):
                    results.setdefault(part.call_id, part)
    return results


def _append(sent: list[Message], message: Message, parts: tuple[Part, ...]) -> None:
    if parts:
        sent.append(replace(message, parts=parts))


def _user_parts(parts: tuple[Part, ...], *, images: bool) -> tuple[Part, ...]:
    """Never empty for a prompt: something was said, if only nothing."""
    sent: list[Part] = []
    for part in parts:
        match part:
            case Text(text):
                sent.append(part if text.strip() else Text(EMPTY))
            case File():
                sent.append(_file(part, images=images))
            case Shell():
                sent.append(Text(_shell(part)))
            case Summary(text):
                sent.append(Text(SUMMARY_HEAD + text))
            case Notice():
                if part.for_model and part.text.strip():
                    sent.append(Text(part.text))
            case Context(changed=changed):
                if changed.strip():
                    sent.append(Text(changed))
            case Reasoning() | ToolCall() | ToolResult() | Finish() | Unknown():
                pass
            case _:
                assert_never(part)
    return tuple(sent)


def _assistant_parts(parts: tuple[Part, ...], called: set[str]) -> tuple[Part, ...]:
    """``called`` are the calls so far; it grows."""
    cut_off = any(isinstance(part, Finish) and part.reason in _CUT_OFF for part in parts)
    kept: list[Part] = []
    for part in parts:
        match part:
            case Text(text):
                if text.strip():
                    kept.append(part)
            case ToolCall():
                if part.id not in called:
                    called.add(part.id)
                    kept.append(part)
            case Reasoning():
                if part.opaque is not None:
                    kept.append(part)
            case File() | ToolResult() | Shell() | Summary() | Notice() | Context() | Finish() | Unknown():
                pass
            case _:
                assert_never(part)
    return _without_loose_thoughts(kept, kinds=(ToolCall,) if cut_off else (ToolCall, Text))


def _without_loose_thoughts(parts: list[Part], *, kinds: tuple[type[Part], ...]) -> tuple[Part, ...]:
    """Thoughts stay only before something of these kinds: one that led to nothing is no answer.

    What was thought before a call goes with it, as some providers demand, also where the answer was cut off.
    """
    last = max((place for place, part in enumerate(parts) if isinstance(part, kinds)), default=-1)
    return tuple(part for place, part in enumerate(parts) if place < last or not isinstance(part, Reasoning))


def _answers(asked: Message, calls: list[ToolCall], results: dict[str, ToolResult], *, images: bool) -> Message:
    """One tool message with one result per call, in the calls' order."""
    parts = tuple(_result(call, results.get(call.id), images=images) for call in calls)
    return replace(asked, id=f"{asked.id}:results", role="tool", parts=parts, usage=None, model=None)


def _result(call: ToolCall, found: ToolResult | None, *, images: bool) -> ToolResult:
    if found is None:
        return ToolResult(call_id=call.id, name=call.name, status="unknown", text=NO_RESULT)
    if images or not found.files:
        return replace(found, name=call.name, display={})
    named = "".join(f"\n{_left_out(file)}" for file in found.files)
    return replace(found, name=call.name, display={}, files=(), text=found.text + named)


def _file(file: File, *, images: bool) -> Part:
    if file.data is None:
        return Text(f'<file name="{file.name}">\n{file.text or ""}\n</file>')
    return file if images and file.media_type.startswith("image/") else Text(_left_out(file))


def _left_out(file: File) -> str:
    return f"[{file.name} ({file.media_type}) is left out: this model cannot read it]"


def _shell(shell: Shell) -> str:
    ended = "" if shell.exit_code is None else f"\n(exit code {shell.exit_code})"
    return f"I ran this command myself:\n$ {shell.command}\n{shell.output}{ended}"
