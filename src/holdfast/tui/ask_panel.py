"""Approvals and questions, in the composer's place.

A key counts only after a pause: half a second after the panel appeared and after the last key. Until then typed text
goes on into the draft, so that a key meant for the prompt neither answers nor gets lost. A key that is no answer begins
such a text: the rest of the word does not answer either.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar, Literal

from rich.cells import cell_len
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.events import Key
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input, Static

from holdfast.client.view_values import OpenAsk
from holdfast.schema.approvals import Approval, ApprovalDecision, Question, QuestionItem, RuleScope
from holdfast.tui.actions import actions_in
from holdfast.tui.bindings import bindings_for, key_of, keys_of
from holdfast.tui.status_words import seconds_until, span
from holdfast.tui.terminal_signals import plain_text
from holdfast.tui.transcript.diff_rows import diff_rows
from holdfast.tui.transcript.palette import Palette
from holdfast.tui.transcript.rows import rows_as_text

GRACE_SECONDS = 0.5
_LARGEST_BODY = 20_000

_ASKS_FOR = {
    "bash": "Run this command?",
    "fetch": "Fetch this address?",
    "download": "Download this?",
    "edit": "Change this file?",
    "multiedit": "Change this file?",
    "write": "Write this file?",
    "apply_patch": "Change these files?",
}


class AskPanel(Vertical, can_focus=True):
    """Shows one ask at a time, and posts the answer."""

    DEFAULT_CSS = """
    AskPanel { height: auto; max-height: 60%; padding: 0 1; display: none; }
    AskPanel.-shown { display: block; }
    AskPanel #ask-title { height: auto; text-style: bold; color: $warning; }
    AskPanel #ask-scroll { height: auto; max-height: 14; scrollbar-size-vertical: 1; }
    AskPanel #ask-body { height: auto; padding: 0 2; }
    AskPanel #ask-keys { height: auto; }
    AskPanel #ask-note { height: auto; color: $text-muted; }
    AskPanel #ask-input { border: none; height: 1; padding: 0 1; background: $surface; display: none; }
    AskPanel #ask-input:focus { border: none; }
    AskPanel.-writing #ask-input { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_for("answer")]

    class Decided(Message):
        def __init__(
            self,
            approval: Approval,
            decision: ApprovalDecision,
            *,
            pattern: tuple[str, ...],
            scope: RuleScope,
            feedback: str,
        ) -> None:
            super().__init__()
            self.approval = approval
            self.decision = decision
            self.pattern = pattern
            self.scope: RuleScope = scope
            self.feedback = feedback

    class Answered(Message):
        def __init__(self, question: Question, answers: list[list[str]] | None) -> None:
            super().__init__()
            self.question = question
            self.answers = answers

    class TypedAhead(Message):
        """Text that was typed before the panel took keys. It belongs to the draft."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self) -> None:
        super().__init__(id="ask")
        self.ask: OpenAsk | None = None
        self._quiet_since = 0.0
        self._armed = False
        self._waiting = 1
        self._draft = ""
        self._purpose: Literal["", "why", "rule", "text"] = ""
        self._pattern: tuple[str, ...] = ()
        self._answers: list[list[str]] = []
        self._chosen: set[int] = set()
        self._timer: Timer | None = None
        self._made: tuple[tuple[str, int, str], Text] | None = None
        """The exact command or diff, for an approval, a width and a theme."""
        self._drawn: dict[str, str | Text] = {}

    def compose(self) -> ComposeResult:
        yield Static("", id="ask-title", markup=False)
        with VerticalScroll(id="ask-scroll", can_focus=False):
            yield Static("", id="ask-body", markup=False)
        yield Input(id="ask-input", select_on_focus=False)
        yield Static("", id="ask-keys", markup=False)
        yield Static("", id="ask-note", markup=False)

    def on_mount(self) -> None:
        self._timer = self.set_interval(0.1, self._tick, pause=True)

    @property
    def is_writing(self) -> bool:
        return self._purpose != ""

    @property
    def is_armed(self) -> bool:
        return self._armed

    def show(self, ask: OpenAsk | None, *, waiting: int, draft: str, typing: bool) -> None:
        """Show an ask, or none. ``waiting`` counts all open ones; ``typing``: the draft was edited just now."""
        assert self._timer is not None
        is_new = ask is not None and (self.ask is None or ask.id != self.ask.id)
        self.ask, self._waiting, self._draft = ask, waiting, draft
        self.set_class(ask is not None, "-shown")
        if ask is None:
            self._timer.pause()
            self._stop_writing()
            return
        if is_new:
            self._quiet_since = time.monotonic()
            self._armed = False
            self._answers, self._chosen = [], set()
            self._pattern = ask.approval.patterns if ask.approval else ()
            self._stop_writing()
            self._timer.resume()
            self.focus()
        self._draw()

    def on_key(self, event: Key) -> None:
        if self._purpose or event.key in ("escape", "ctrl+c", "ctrl+q", "pageup", "pagedown"):
            return
        if self._armed and self.ask is not None and self.ask.question is not None:
            self._question_key(self.ask.question, event)
        elif not self._armed or (event.is_printable and not self._is_answer(event)):
            event.stop()
            event.prevent_default()
            self._quiet_since, self._armed = time.monotonic(), False
            if event.is_printable and event.character:
                self.post_message(self.TypedAhead(event.character))

    def _is_answer(self, event: Key) -> bool:
        keys = (key for action in actions_in("answer") for key in keys_of(self.app, action.name).split(","))
        return not set(keys).isdisjoint(event.aliases)

    def _tick(self) -> None:
        if not self._armed and time.monotonic() - self._quiet_since >= GRACE_SECONDS:
            self._armed = True
        self._draw()

    # Approvals.

    def _decide(self, decision: ApprovalDecision, *, scope: RuleScope = "project", why: str = "") -> None:
        if self._armed and self.ask is not None and self.ask.approval is not None:
            pattern = self._pattern if decision in ("always", "session") else ()
            decided = self.Decided(self.ask.approval, decision, pattern=pattern, scope=scope, feedback=why)
            self.post_message(decided)

    def action_allow_once(self) -> None:
        self._decide("once")

    def action_allow_session(self) -> None:
        self._decide("session")

    def action_allow_always(self) -> None:
        self._decide("always")

    def action_allow_everywhere(self) -> None:
        self._decide("always", scope="all")

    def action_deny(self) -> None:
        if self._armed and self.ask is not None and self.ask.approval is not None:
            self._write("why", "", "why not? the agent reads it; enter sends, empty is fine")

    def action_edit_rule(self) -> None:
        if self._armed and self._pattern:
            self._write("rule", " ; ".join(self._pattern), "the rule that 'always' and 'this session' save")

    def _write(self, purpose: Literal["why", "rule", "text"], value: str, placeholder: str) -> None:
        self._purpose = purpose
        field = self.query_one("#ask-input", Input)
        field.value, field.placeholder = value, placeholder
        self.add_class("-writing")
        field.focus()

    def stop_writing(self) -> None:
        """Leave the text field without an answer."""
        self._stop_writing()
        self.focus()
        self._draw()

    def _stop_writing(self) -> None:
        self._purpose = ""
        self.remove_class("-writing")

    @on(Input.Submitted, "#ask-input")
    def _written(self, event: Input.Submitted) -> None:
        event.stop()
        purpose, value = self._purpose, event.value
        if purpose == "text" and not value.strip():
            return
        self.stop_writing()
        if purpose == "why":
            self._decide("deny", why=value.strip())
        elif purpose == "rule" and value.strip():
            self._pattern = tuple(rule.strip() for rule in value.split(" ; ") if rule.strip())
            self._draw()
        elif purpose == "text":
            self._give([value])

    # Questions.

    def _question_key(self, question: Question, event: Key) -> None:
        item = question.items[len(self._answers)]
        options = options_of(item)
        character = event.character or ""
        if event.key == "enter":
            event.stop()
            if item.kind == "text" or not options:
                self._write("text", "", "your answer")
            elif item.kind == "multiple":
                self._give([options[index] for index in sorted(self._chosen)])
        elif item.kind == "yes_no" and character.lower() in ("y", "n"):
            event.stop()
            self._give(["yes" if character.lower() == "y" else "no"])
        elif character.isdigit() and 0 < int(character) <= len(options):
            event.stop()
            index = int(character) - 1
            if item.kind == "multiple":
                self._chosen ^= {index}
                self._draw()
            else:
                self._give([options[index]])
        elif character == "o" and item.kind != "yes_no":
            event.stop()
            self._write("text", "", "your answer")
        elif character == "d":
            event.stop()
            self.post_message(self.Answered(question, None))

    def _give(self, answer: list[str]) -> None:
        question = self.ask.question if self.ask else None
        if question is None:
            return
        self._answers.append(answer)
        self._chosen = set()
        if len(self._answers) == len(question.items):
            self.post_message(self.Answered(question, self._answers))
            self._answers = []
        self._draw()

    # Drawing.

    def _draw(self) -> None:
        if self.ask is None or not self.is_mounted:
            return
        title, body, keys = self._approval() if self.ask.approval else self._question()
        width = max(self.size.width - 2, 20)
        count = f"1 of {self._waiting} waiting" if self._waiting > 1 else ""
        title = f"{title}{' ' * max(width - cell_len(title) - cell_len(count), 3)}{count}".rstrip()
        pause = () if self._armed else ("(keys work after a pause)",)
        shown_keys = flow((*keys, *pause), width)
        for name, shown in (("title", title), ("body", body), ("keys", shown_keys), ("note", "\n".join(self._notes()))):
            if self._drawn.get(name) != shown:
                self._drawn[name] = shown
                self.query_one(f"#ask-{name}", Static).update(shown)

    def _notes(self) -> list[str]:
        assert self.ask is not None
        subject = self.ask.approval or self.ask.question
        notes = []
        approval = self.ask.approval
        if approval and approval.why and plain_text(approval.why) != plain_text(approval.title):
            notes.append(f"asked because: {plain_text(approval.why)}")
        if subject is not None and subject.deadline_at:
            left = span(seconds_until(subject.deadline_at, time.time()))
            notes.append(f"{'counts as denied' if approval else 'is dismissed'} in {left}")
        if self._draft.strip():
            notes.append(f"your draft is kept: “{plain_text(self._draft, longest=60)}”")
        return notes

    def _approval(self) -> tuple[str, Text, tuple[str, ...]]:
        assert self.ask is not None
        assert self.ask.approval is not None
        approval, app = self.ask.approval, self.app
        rule = f"{key_of(app, 'allow_always')} always: {plain_text(', '.join(self._pattern), longest=80)}"
        edit = f"({key_of(app, 'edit_rule')} edit)"
        keys = [f"{key_of(app, 'allow_once')} once"]
        if self._pattern:
            everywhere = f"{key_of(app, 'allow_everywhere')} always, in all projects"
            keys += [f"{key_of(app, 'allow_session')} this session", f"{rule} {edit}", everywhere]
        keys.append(f"{key_of(app, 'deny')} no, and say why")
        title = _ASKS_FOR.get(approval.tool, f"Allow {plain_text(approval.tool)}?")
        return title, self._approval_body(approval), tuple(keys)

    def _approval_body(self, approval: Approval) -> Text:
        width = max((self.size.width or self.app.size.width) - 8, 20)
        key = (approval.id, width, self.app.theme)
        if self._made is None or self._made[0] != key:
            self._made = (key, approval_body(approval, width=width, palette=Palette.of_app(self.app)))
        return self._made[1]

    def _question(self) -> tuple[str, Text, tuple[str, ...]]:
        assert self.ask is not None
        assert self.ask.question is not None
        question = self.ask.question
        item = question.items[min(len(self._answers), len(question.items) - 1)]
        number = f"  ({len(self._answers) + 1} of {len(question.items)})" if len(question.items) > 1 else ""
        body = Text()
        for index, option in enumerate(options_of(item)):
            mark = ("[x] " if index in self._chosen else "[ ] ") if item.kind == "multiple" else ""
            body.append(f"{index + 1}  {mark}{plain_text(option, longest=500)}\n")
        keys = {
            "yes_no": ("y yes", "n no"),
            "single": ("number chooses", "o other"),
            "multiple": ("number marks", "enter sends", "o other"),
            "text": ("enter writes the answer",),
        }[item.kind]
        return plain_text(item.text, longest=2000) + number, body, (*keys, "d dismiss")


def options_of(item: QuestionItem) -> tuple[str, ...]:
    return ("yes", "no") if item.kind == "yes_no" and not item.options else item.options


def flow(pieces: tuple[str, ...], width: int) -> str:
    """Pieces side by side as far as they fit. A piece is not broken at the end of a line if it fits into one."""
    lines = [""]
    for piece in pieces:
        joined = f"{lines[-1]}   {piece}" if lines[-1] else piece
        if lines[-1] and cell_len(joined) > width:
            lines.append(piece)
        else:
            lines[-1] = joined
    return "\n".join(lines)


def approval_body(approval: Approval, *, width: int, palette: Palette) -> Text:
    """The exact command, the diff in one or two columns, or the arguments as lines."""
    diff = approval.display.get("diff")
    if isinstance(diff, str) and diff:
        rows = diff_rows(diff[:_LARGEST_BODY], width, palette, indent=("", palette.dim))
        rest = "\n(the rest is not shown: it is too long)" if len(diff) > _LARGEST_BODY else ""
        return Text.assemble((visible(approval.title), "bold"), "\n", rows_as_text(rows), rest)
    body = Text(visible(approval.title), style="bold")
    arguments: Any = approval.display.get("arguments")
    if isinstance(arguments, dict):
        for name, value in arguments.items():
            body.append(f"\n{plain_text(str(name))}  {plain_text(str(value))}", style="")
    return body


def visible(text: str) -> str:
    """Control characters shown as symbols; lines and tabs stay."""
    return "".join(_shown(character) for character in text[:_LARGEST_BODY])


def _shown(character: str) -> str:
    if character in "\n\t" or character.isprintable():
        return character
    return chr(0x2400 + ord(character)) if ord(character) < 0x20 else "\ufffd"
