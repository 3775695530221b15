"""Events as a person follows them: the agent's text as it grows, one line per tool call, what is being waited for."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable

from holdfast.cli.printed_text import PrintedText, Write
from holdfast.cli.screen import Screen, one_line, plain
from holdfast.client.transcript import Transcript
from holdfast.schema.events import (
    Delta,
    Event,
    JobFinished,
    MessageCreated,
    MessageFinished,
    MessageUpdated,
    RunProgress,
    RunRetrying,
    Snapshot,
)
from holdfast.schema.messages import Message, Notice, Shell, Text, ToolCall, ToolResult
from holdfast.schema.runs import Now

_MAIN_ARGUMENTS = ("command", "path", "pattern", "url", "query", "title", "job")
_PHASES = {
    "starting": "starting",
    "first_token": "first token",
    "streaming": "answering",
    "approval": "waiting for your word",
    "question": "waiting for your answer",
    "compacting": "summarizing the conversation",
    "stopping": "stopping",
    "store": "the database cannot be written; trying again",
}


def words_for(now: Now) -> str:
    """What an active run is doing."""
    if now.phase == "tool":
        return one_line(now.what) or "working"
    if now.phase == "retry":
        return f"retry {now.what}"
    words = _PHASES.get(now.phase, now.phase)
    return f"{words}: {one_line(now.what)}" if now.what and now.phase in ("approval", "question") else words


class EventPrinter:
    """Tells one session, or within it the runs in ``runs``. With ``text=False``, only what goes to stderr."""

    def __init__(
        self, screen: Screen, *, session_id: str, runs: Collection[str] | None = None, text: bool = True
    ) -> None:
        self._screen = screen
        self._session_id = session_id
        self._runs = None if runs is None else set(runs)
        self._text = text
        self._said: dict[tuple[str, int], PrintedText] = {}
        self._calls: dict[str, ToolCall] = {}
        self._told: set[str] = set()
        self._speaking: str | None = None

    def also(self, run_id: str) -> None:
        """From now on this run's words belong to what is told (a steer joined it)."""
        if self._runs is not None:
            self._runs.add(run_id)

    def tell(self, event: Event, transcript: Transcript) -> None:
        match event:
            case Delta(of="text"):
                self._delta(event, transcript)
            case Snapshot():
                self._snapshot(event, transcript)
            case MessageCreated() | MessageUpdated():
                self._message(event.message)
            case MessageFinished():
                self._message(event.message)
                if self._speaking == event.message.id:
                    self._screen.block()  # its last line is whole: what comes now may be shown below it
            case RunProgress() if self._is_told(event.run_id):
                if event.now.phase != "retry":  # told with its time by the event of the retry itself
                    self._screen.status(words_for(event.now))
            case RunRetrying() if self._is_told(event.run_id):
                self._screen.note(f"{event.cause}: {one_line(event.message)}; again in {event.wait:.0f} s")
                self._screen.status(f"{event.cause}, retry", seconds=event.wait)
            case JobFinished() if event.session_id == self._session_id:
                self._screen.note(f"background job ended: {one_line(event.job.command)}")
            case _:
                pass

    def catch_up(self, messages: Iterable[Message]) -> None:
        """Messages as they are stored, where events may have been missed."""
        for message in messages:
            self._message(message)

    def known(self, messages: Iterable[Message]) -> None:
        """Messages that need not be told."""
        for message in messages:
            self._note_calls(message)
            self._told.update(part.call_id for part in message.parts if isinstance(part, ToolResult))
            self._told.update(f"{message.id}.{n}" for n, part in enumerate(message.parts) if isinstance(part, Notice))
            for number, part in enumerate(message.parts):
                if isinstance(part, Text):
                    self._said.setdefault((message.id, number), PrintedText()).end_at(part.text)

    def _is_told(self, run_id: str) -> bool:
        return self._runs is None or run_id in self._runs

    def _is_ours(self, message: Message | None) -> bool:
        return message is not None and message.session_id == self._session_id and self._is_told(message.run_id)

    def _delta(self, event: Delta, transcript: Transcript) -> None:
        message = transcript.messages.get(event.message_id)
        if message is None or message.role != "assistant" or not self._is_ours(message):
            return
        said = self._said.setdefault((event.message_id, event.part), PrintedText())
        if said.continues(offset=event.offset, attempt=event.attempt):
            self._write(event.message_id, said.add(event.text))
            return
        for part in transcript.open_parts(event.message_id):
            if part.part == event.part:
                self._write(event.message_id, said.grow_to(part.text, attempt=part.attempt))

    def _snapshot(self, event: Snapshot, transcript: Transcript) -> None:
        message = transcript.messages.get(event.message_id)
        if message is None or message.role != "assistant" or not self._is_ours(message):
            return
        for part in event.parts:
            if part.of == "text":
                said = self._said.setdefault((event.message_id, part.part), PrintedText())
                self._write(event.message_id, said.grow_to(part.text, attempt=part.attempt))

    def _message(self, message: Message) -> None:
        self._note_calls(message)
        ours = self._is_ours(message)
        if ours and message.role == "assistant":
            for number, part in enumerate(message.parts):
                if isinstance(part, Text):
                    said = self._said.setdefault((message.id, number), PrintedText())
                    self._write(message.id, said.end_at(part.text))
        for number, part in enumerate(message.parts):
            match part:
                case ToolResult() if ours or message.session_id != self._session_id:
                    self._result(part, inner=not ours)
                case Notice() if ours:
                    self._notice(f"{message.id}.{number}", part)
                case Shell() if ours and part.exit_code is not None:
                    self._shell(message.id, part)
                case _:
                    pass

    def _note_calls(self, message: Message) -> None:
        self._calls.update((part.id, part) for part in message.parts if isinstance(part, ToolCall))

    def _write(self, message_id: str, write: Write) -> None:
        if not write.text or not self._text:
            return
        if write.anew:
            self._screen.note("the model was asked again; what follows replaces the text before")
        if write.anew or self._speaking != message_id:
            self._screen.block()
            self._speaking = message_id
        self._screen.text(write.text)

    def _notice(self, key: str, notice: Notice) -> None:
        if key not in self._told:
            self._told.add(key)
            self._screen.note(plain(notice.text))

    def _shell(self, key: str, shell: Shell) -> None:
        if key not in self._told:
            self._told.add(key)
            self._screen.note(f"$ {plain(shell.command)}\n{plain(shell.output.rstrip())}")

    def _result(self, result: ToolResult, *, inner: bool) -> None:
        if result.call_id in self._told:
            return
        self._told.add(result.call_id)
        call = self._calls.get(result.call_id)
        style = self._screen.style
        mark = style.good("✓") if result.status == "ok" else style.bad("✗")
        title = title_with_target(call, result) if call else ""
        outcome = outcome_of(result)
        line = f"{mark} {result.name} {style.dim(title)}".rstrip() + (f"  {outcome}" if outcome else "")
        self._screen.note(f"  {'  ' if inner else ''}{line}")


def title_of(call: ToolCall) -> str:
    """The argument that says most."""
    found = (call.arguments.get(name) for name in _MAIN_ARGUMENTS)
    return next((one_line(value, most=100) for value in found if isinstance(value, str)), "")


def title_with_target(call: ToolCall, result: ToolResult) -> str:
    """With the file that was really meant, where the argument led elsewhere (a link, for example)."""
    title, given, real = title_of(call), call.arguments.get("path"), _target_of(result)
    if real is None or not isinstance(given, str) or real in title.split():
        return title
    named = os.path.normpath(given)
    if named == os.path.normpath(real) or (os.path.isabs(named) and named.endswith(f"/{real}")):
        return title
    return f"{title} → {one_line(real, most=100)}"


def _target_of(result: ToolResult) -> str | None:
    files = result.display.get("files")
    if isinstance(files, list) and len(files) == 1 and isinstance(files[0], dict):
        found = files[0].get("path")
    else:
        found = result.display.get("path")
    return found if isinstance(found, str) else None


def outcome_of(result: ToolResult) -> str:
    """What came of a call, in a few words."""
    if result.status in ("denied", "cancelled"):
        return f"{result.status}: {one_line(result.text, most=120)}" if result.status == "denied" else "cancelled"
    if result.status == "unknown":
        return "outcome unknown"
    files = result.display.get("files")
    if isinstance(files, list):
        counts = [(file.get("added", 0), file.get("removed", 0)) for file in files if isinstance(file, dict)]
        return f"+{sum(added for added, _ in counts)} −{sum(removed for _, removed in counts)}"
    code = result.display.get("exit_code")
    if isinstance(code, int) and code:
        return f"exit {code}"
    if result.status == "error":
        return one_line(result.text, most=120)
    return ""
