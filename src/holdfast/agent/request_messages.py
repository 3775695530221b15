"""Makes the messages of a request from stored messages. Pure.

The result is valid for every wire (`C6`), also after a crash, cancel, retry, compaction or fork:

- Messages are in the order of `seq`, from the last summary on. Messages of runs that never started are left out.
- The first message is a user message. Every tool call is followed by exactly one result: a missing result is added; a
  result without a call and a repeated call are dropped.
- A message that was cut off keeps its text and its calls, and only the reasoning before a call. A reminder after
  it says what was cut, and that it is not continued unless the user asks. The reminder is a message of the user, so
  that it also stays between two prompts on wires that merge them. After an answer that reached the output limit it asks
  for the rest.
- Files that the model cannot read are replaced by a line that names them.

The same stored messages always give the same request, and a new message only adds to its end, so that the provider's
cache stays valid.
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
    FinishReason,
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
FILES_HEAD = "The files in use, as they were when the summary was made; you need not view them again:"
EMPTY = "(The message is empty.)"
BEGINNING = "(The beginning of the conversation is missing.)"
CONTINUE = (
    "Your answer above reached the output limit and is cut off. Unless something else is asked below, continue exactly "
    "where it stops: no introduction, and nothing that is already there."
)
ANSWER_BRIEFLY = "Your last answer reached the output limit before it said anything. Think less and answer briefly."

_CUT_OFF = frozenset({"cancelled", "interrupted", "error", "limit"})
_WHY_CUT_OFF: dict[FinishReason, str] = {
    "cancelled": "The user cancelled the request above.",
    "interrupted": "The server stopped while you worked on the request above.",
    "error": "An error ended the work on the request above.",
    "limit": "The work on the request above reached a limit of the run.",
}
_DO_NOT_CONTINUE = "Do not act on that request or continue it unless the user asks for it again."


def request_messages(messages: Iterable[Message], *, images: bool) -> tuple[Message, ...]:
    """Return the messages of a request. ``images``: whether the model accepts images."""
    sent = following_messages(messages, images=images)
    if sent and sent[0].role != "user":
        return (_from_user(sent[0], "beginning", BEGINNING), *sent)
    return sent


def following_messages(messages: Iterable[Message], *, images: bool) -> tuple[Message, ...]:
    """Return what these messages add to a request. They must not contain results of calls in earlier messages."""
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
                    sent.append(_tool_message(message, calls, results, images=images))
                if told := _reminder_after(message, parts):
                    sent.append(_from_user(message, "reminder", told))
            case "tool":
                pass  # its results are added after their calls
            case _:
                assert_never(message.role)
    return tuple(sent)


def _last_summary(messages: Sequence[Message]) -> Message | None:
    for message in reversed(messages):
        if any(isinstance(part, Summary) for part in message.parts):
            return message
    return None


def _since_summary(ordered: list[Message]) -> list[Message]:
    summary = _last_summary(ordered)
    return ordered if summary is None else [message for message in ordered if message.seq >= summary.seq]


def _results_by_call(messages: list[Message]) -> dict[str, ToolResult]:
    """Return the first result of each call. A second one would be a bug, but must not break the request."""
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
    """Never empty for a prompt: an empty text is replaced."""
    sent: list[Part] = []
    is_expanded = any(isinstance(part, Text) and part.expanded for part in parts)
    for part in parts:
        match part:
            case Text(text, expanded):
                sent.append(Text(expanded) if expanded else part if text.strip() else Text(EMPTY))
            case File():
                sent.append(_file(part, images=images))
            case Shell():
                if not is_expanded:  # the expanded text has its output
                    sent.append(Text(_shell(part)))
            case Summary(text, files):
                sent.append(Text(SUMMARY_HEAD + text))
                if files:
                    sent.append(Text(FILES_HEAD))
                    sent += [_file(file, images=images) for file in files]
            case Notice():
                if part.for_model and part.text.strip():
                    sent.append(Text(reminder(part.text)))
            case Context(changed=changed):
                if changed.strip():
                    sent.append(Text(changed))
            case Reasoning() | ToolCall() | ToolResult() | Finish() | Unknown():
                pass
            case _:
                assert_never(part)
    return tuple(sent)


def _assistant_parts(parts: tuple[Part, ...], called: set[str]) -> tuple[Part, ...]:
    """``called`` has the ids of the calls so far, and is updated."""
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
    return _without_trailing_reasoning(kept, kinds=(ToolCall,) if cut_off else (ToolCall, Text))


def _reminder_after(message: Message, sent: tuple[Part, ...]) -> str | None:
    """Return what the model is told after an answer that was cut off. ``sent`` are the parts that are sent of it."""
    finish = next((part for part in reversed(message.parts) if isinstance(part, Finish)), None)
    has_calls = any(isinstance(part, ToolCall) for part in sent)
    if finish is not None and finish.reason == "max_tokens" and not has_calls:
        return reminder(CONTINUE if sent else ANSWER_BRIEFLY)
    if finish is None or finish.reason not in _WHY_CUT_OFF:
        return None
    if has_calls:
        where = "It stops here, after the tool calls above; their results say what was done."
    elif sent:
        where = "It ends here, unfinished." if finish.reason == "limit" else "Your answer ends where it was cut off."
    else:
        where = "It stops here: nothing more was answered or done."
    return reminder(f"{_WHY_CUT_OFF[finish.reason]} {where} {_DO_NOT_CONTINUE}")


def reminder(text: str) -> str:
    """Return a text as words of Holdfast, so that the model does not take it for words of the user."""
    return f"<reminder>\n{text}\n</reminder>"


def _from_user(message: Message, name: str, text: str) -> Message:
    """Return a user message that stands beside a stored message."""
    return replace(
        message, id=f"{message.id}:{name}", role="user", parts=(Text(text),), unsent=False, usage=None, model=None
    )


def _without_trailing_reasoning(parts: list[Part], *, kinds: tuple[type[Part], ...]) -> tuple[Part, ...]:
    """Keep reasoning only before a part of these kinds.

    Some providers require the reasoning before a call to be sent with it, also if the answer was cut off.
    """
    last = max((index for index, part in enumerate(parts) if isinstance(part, kinds)), default=-1)
    return tuple(part for index, part in enumerate(parts) if index < last or not isinstance(part, Reasoning))


def _tool_message(answer: Message, calls: list[ToolCall], results: dict[str, ToolResult], *, images: bool) -> Message:
    """Return one tool message with one result per call, in the order of the calls."""
    parts = tuple(_result(call, results.get(call.id), images=images) for call in calls)
    return replace(answer, id=f"{answer.id}:results", role="tool", parts=parts, usage=None, model=None)


def _result(call: ToolCall, found: ToolResult | None, *, images: bool) -> ToolResult:
    if found is None:
        return ToolResult(call_id=call.id, name=call.name, status="unknown", text=NO_RESULT)
    if images or not found.files:
        return replace(found, name=call.name, display={})
    names = "".join(f"\n{_left_out(file)}" for file in found.files)
    return replace(found, name=call.name, display={}, files=(), text=found.text + names)


def _file(file: File, *, images: bool) -> Part:
    if file.data is None:
        return Text(f'<file name="{file.name}">\n{file.text or ""}\n</file>')
    return file if images and file.media_type.startswith("image/") else Text(_left_out(file))


def _left_out(file: File) -> str:
    return f"[{file.name} ({file.media_type}) is left out: this model cannot read it]"


def _shell(shell: Shell) -> str:
    ended = "" if shell.exit_code is None else f"\n(exit code {shell.exit_code})"
    return f"I ran this command myself:\n$ {shell.command}\n{shell.output}{ended}"
