"""Print the events of a session: the agent's text as it grows, one line per tool call, and the current activity."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable

from holdfast.cli.screen import Screen, one_line, plain
from holdfast.client.transcript import Transcript
from holdfast.schema.base import Value
from holdfast.schema.events import (
    ApprovalResolved,
    ClientAttached,
    ClientDetached,
    Delta,
    DeviceChanged,
    Event,
    Heartbeat,
    Hello,
    JobFinished,
    MessageCreated,
    MessageFinished,
    MessageUpdated,
    PairingFailed,
    Reset,
    RunFinished,
    RunProgress,
    RunRetrying,
    RunStarted,
    Snapshot,
    TodoChanged,
)
from holdfast.schema.hooks import hook_lines
from holdfast.schema.messages import Finish, Message, Notice, Shell, Text, ToolCall, ToolResult, call_title, text_of
from holdfast.schema.runs import Now, Run
from holdfast.schema.sessions import Todo

_QUIET_HOOKS = ("ok", "allowed", "asked", "denied", "changed", "added", "stopped")
"""What hooks did is shown with ``--verbose``, or by the result of the call. Their failures are always shown."""
_PHASES = {
    "starting": "starting",
    "first_token": "first token",
    "streaming": "answering",
    "approval": "waiting for your approval",
    "question": "waiting for your answer",
    "compacting": "summarizing the conversation",
    "stopping": "stopping",
    "store": "the database cannot be written; retrying",
}


def describe_activity(now: Now) -> str:
    """What an active run is doing."""
    if now.phase == "tool":
        return one_line(now.what) or "working"
    if now.phase == "retry":
        return f"waiting to try again: {now.what}"
    text = _PHASES.get(now.phase, now.phase)
    return f"{text}: {one_line(now.what)}" if now.what and now.phase in ("approval", "question") else text


class EventPrinter:
    """Prints one session, or only the runs in ``runs``. With ``text=False``, only what goes to stderr.

    Without ``runs`` it also prints the prompts, and how runs ended and approvals were decided.
    """

    def __init__(
        self,
        screen: Screen,
        *,
        session_id: str,
        runs: Collection[str] | None = None,
        text: bool = True,
        verbose: bool = False,
    ) -> None:
        """``verbose``: also print the output of tools, and the task list when it changes."""
        self._screen = screen
        self._session_id = session_id
        self._runs = None if runs is None else set(runs)
        self._text = text
        self._verbose = verbose
        self._parts: dict[tuple[str, int], PrintedText] = {}
        self._calls: dict[str, ToolCall] = {}
        self._printed: set[str] = set()
        self._current_message: str | None = None
        self._is_cut = False
        """The current message reached the output limit: the text of the next one continues it."""

    def add_run(self, run_id: str) -> None:
        """Print this run too, because a steer has joined it."""
        if self._runs is not None:
            self._runs.add(run_id)

    def print_event(self, event: Event, transcript: Transcript) -> None:
        match event:
            case Delta(of="text"):
                self._print_delta(event, transcript)
            case Snapshot():
                self._print_snapshot(event, transcript)
            case MessageCreated() | MessageUpdated():
                self._print_message(event.message)
            case MessageFinished():
                self._print_message(event.message)
                if self._current_message == event.message.id:
                    self._is_cut = is_cut_text(event.message)
                    if not self._is_cut:
                        self._screen.block()  # the next output starts below this message
            case RunProgress() if self._includes_run(event.run_id):
                if event.now.phase != "retry":  # RunRetrying shows it with a countdown
                    self._screen.status(describe_activity(event.now))
            case RunRetrying() if self._includes_run(event.run_id):
                self._screen.note(f"{event.cause}: {one_line(event.message)}; retrying in {event.wait:.0f} s")
                self._screen.status(f"{event.cause}, retry", seconds=event.wait)
            case TodoChanged() if self._verbose and event.session_id == self._session_id:
                self._screen.note("\n".join(todo_lines(event.todos)))
            case JobFinished() if event.session_id == self._session_id:
                self._screen.note(f"background job ended: {one_line(event.job.command)}")
            case _ if self._runs is None:
                self._print_session_event(event)
            case _:
                pass

    def print_messages(self, messages: Iterable[Message]) -> None:
        """Print stored messages, as far as they were not printed before."""
        for message in messages:
            if self._runs is None and message.role == "user" and (text := text_of(message.parts)):
                self._print_prompt(message.run_id, text)
            self._print_message(message)

    def skip_messages(self, messages: Iterable[Message]) -> None:
        """Treat messages as printed."""
        for message in messages:
            self._remember_calls(message)
            if message.role == "user":
                self._printed.add(message.run_id)
            self._printed.update(part.call_id for part in message.parts if isinstance(part, ToolResult))
            self._printed.update(_notice_key(message, part) for part in message.parts if isinstance(part, Notice))
            for number, part in enumerate(message.parts):
                if isinstance(part, Text):
                    self._part(message.id, number).end_at(part.text)

    def _part(self, message_id: str, number: int) -> PrintedText:
        return self._parts.setdefault((message_id, number), PrintedText())

    def _includes_run(self, run_id: str) -> bool:
        return self._runs is None or run_id in self._runs

    def _includes(self, message: Message) -> bool:
        return message.session_id == self._session_id and self._includes_run(message.run_id)

    def _has_text_of(self, message_id: str, transcript: Transcript) -> bool:
        message = transcript.messages.get(message_id)
        return message is not None and message.role == "assistant" and self._includes(message)

    def _print_delta(self, event: Delta, transcript: Transcript) -> None:
        if not self._has_text_of(event.message_id, transcript):
            return
        printed = self._part(event.message_id, event.part)
        if printed.continues(offset=event.offset, attempt=event.attempt):
            self._write(event.message_id, printed.add(event.text))
            return
        for part in transcript.open_parts(event.message_id):
            if part.part == event.part:
                self._write(event.message_id, printed.grow_to(part.text, attempt=part.attempt))

    def _print_snapshot(self, event: Snapshot, transcript: Transcript) -> None:
        if not self._has_text_of(event.message_id, transcript):
            return
        for part in event.parts:
            if part.of == "text":
                printed = self._part(event.message_id, part.part)
                self._write(event.message_id, printed.grow_to(part.text, attempt=part.attempt))

    def _print_message(self, message: Message) -> None:
        self._remember_calls(message)
        included = self._includes(message)
        is_subagent = message.session_id != self._session_id
        for number, part in enumerate(message.parts):
            if isinstance(part, Text) and included and message.role == "assistant":
                self._write(message.id, self._part(message.id, number).end_at(part.text))
        for part in message.parts:
            match part:
                case ToolResult() if included or is_subagent:
                    self._print_result(part, indent=is_subagent)
                case Notice(code="hook" | "hook_context") if not self._verbose:
                    pass  # a hook that failed has another code and is always shown
                case Notice() if included:
                    self._note_once(_notice_key(message, part), plain(part.text))
                case Shell() if included and part.exit_code is not None:
                    self._note_once(message.id, f"$ {plain(part.command)}\n{plain(part.output.rstrip())}")
                case _:
                    pass

    def _print_session_event(self, event: Event) -> None:
        match event:
            case RunStarted() if event.session_id == self._session_id and event.run.kind == "prompt":
                self._print_prompt(event.run.id, event.run.prompt)
            case RunFinished() if event.session_id == self._session_id:
                self._print_run_end(event.run)
            case ApprovalResolved() if event.approval.decision:
                self._screen.note(f"  {event.approval.decision}, by {event.approval.answered_by or 'another client'}")
            case _:
                pass

    def _print_prompt(self, run_id: str, text: str) -> None:
        if run_id not in self._printed:
            self._printed.add(run_id)
            self._screen.block()
            self._screen.end_text()
            self._screen.note(self._screen.style.bold(f"> {plain(text)}"))

    def _print_run_end(self, run: Run) -> None:
        self._screen.status(None)
        if run.state != "completed":
            reason = run.error.message if run.error else run.reason
            self._screen.note(self._screen.style.warn(f"{run.state}: {reason}"))

    def _remember_calls(self, message: Message) -> None:
        self._calls.update((part.id, part) for part in message.parts if isinstance(part, ToolCall))

    def _write(self, message_id: str, piece: PrintedPiece) -> None:
        if not piece.text or not self._text:
            return
        if piece.replaces:
            self._screen.note("the request to the model was repeated; the following text replaces the text above")
        if piece.replaces or self._current_message != message_id:
            if piece.replaces or not self._is_cut:
                self._screen.block()
            self._current_message, self._is_cut = message_id, False
        self._screen.text(piece.text)

    def _note_once(self, key: str, text: str) -> None:
        if key not in self._printed:
            self._printed.add(key)
            self._screen.note(text)

    def _print_result(self, result: ToolResult, *, indent: bool) -> None:
        call = self._calls.get(result.call_id)
        style = self._screen.style
        mark = style.good("✓") if result.status == "ok" else style.bad("✗")
        title = title_with_target(call, result) if call else ""
        outcome = outcome_of(result)
        name = result.display.get("tool") or result.name  # ours, if the model called it by another one
        line = f"{mark} {name} {style.dim(title)}".rstrip() + (f"  {outcome}" if outcome else "")
        margin = "    " if indent else "  "
        hooks = hook_lines(result.display, without=() if self._verbose else _QUIET_HOOKS)
        output = [*(output_lines(result) if self._verbose else ()), *map(one_line, hooks)]
        self._note_once(result.call_id, "\n".join([f"{margin}{line}", *(f"{margin}│ {each}" for each in output)]))


def is_session_event(event: Event) -> bool:
    """Whether the event is about a session; the others are about connections and devices."""
    return not isinstance(
        event, Hello | Heartbeat | Reset | ClientAttached | ClientDetached | DeviceChanged | PairingFailed
    )


def is_cut_text(message: Message) -> bool:
    """Whether the message is a text that reached the output limit, so that the agent goes on with it."""
    finish = next((part for part in message.parts if isinstance(part, Finish)), None)
    has_calls = any(isinstance(part, ToolCall) for part in message.parts)
    return finish is not None and finish.reason == "max_tokens" and not has_calls


class PrintedPiece(Value, frozen=True):
    text: str
    replaces: bool = False
    """It replaces the text printed before instead of continuing it."""


class PrintedText:
    """How much of one message part was printed.

    Printed text cannot be taken back. So this class decides what to print next: the rest of the known text, nothing
    while a new attempt repeats the old one, or the whole text again once it differs. Pure.
    """

    __slots__ = ("_attempt", "_is_behind", "_length", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._attempt = 0
        self._is_behind = False
        """Another attempt has begun and has not yet exceeded the printed text."""

    @property
    def text(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def continues(self, *, offset: int, attempt: int) -> bool:
        """Whether text at this offset can be printed directly."""
        return offset == self._length and attempt in (self._attempt, 0) and not self._is_behind

    def add(self, text: str) -> PrintedPiece:
        self._pieces.append(text)
        self._length += len(text)
        return PrintedPiece(text)

    def grow_to(self, whole: str, *, attempt: int) -> PrintedPiece:
        """The text of this attempt so far."""
        if attempt > self._attempt:
            self._is_behind = self._length > 0
            self._attempt = attempt
        printed = self.text
        if whole.startswith(printed):
            self._is_behind = False
            return self.add(whole[len(printed) :])
        if printed.startswith(whole):
            return PrintedPiece("")
        return self._replace(whole)

    def end_at(self, whole: str) -> PrintedPiece:
        """The part is complete; ``whole`` is the stored text."""
        printed = self.text
        if whole.startswith(printed):
            self._is_behind = False
            return self.add(whole[len(printed) :])
        if printed.startswith(whole) and not self._is_behind:
            return PrintedPiece("")  # after a crash the stored text may be shorter than the printed one
        return self._replace(whole)

    def _replace(self, whole: str) -> PrintedPiece:
        self._pieces, self._length, self._is_behind = [whole], len(whole), False
        return PrintedPiece(whole, replaces=True)


_TODO_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


def todo_lines(todos: Iterable[Todo]) -> list[str]:
    """The task list, one line per task."""
    return [f"  {_TODO_MARKS[todo.status]} {one_line(todo.text)}" for todo in todos] or ["  the task list is empty"]


def output_lines(result: ToolResult) -> list[str]:
    """What a tool returned: the diff of an edit, otherwise the text that the model got."""
    diff = result.display.get("diff")
    shown = diff if isinstance(diff, str) and diff and result.status == "ok" else result.text
    return plain(shown.rstrip()).splitlines()


def title_with_target(call: ToolCall, result: ToolResult) -> str:
    """The title, with the real file if the argument led elsewhere, for example by a symbolic link."""
    title, path, real = one_line(call_title(call, result), most=100), call.arguments.get("path"), _target_of(result)
    if not title and real is not None:
        return one_line(real, most=100)
    if real is None or not isinstance(path, str) or real in title.split():
        return title
    named = os.path.normpath(path)
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
    """The outcome of a call in a few words."""
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


def _notice_key(message: Message, notice: Notice) -> str:
    """Identifies a notice also after parts were added before it."""
    return f"{message.id}.{notice.code}.{notice.text}"
