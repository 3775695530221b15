"""Ask the user for approvals and answers. The first answer counts; an answer by another client ends the wait here."""

from __future__ import annotations

import select
import sys
from collections.abc import Callable
from typing import TypeVar

from holdfast.cli.screen import Screen, one_line, plain
from holdfast.client.sync_client import SyncClient
from holdfast.errors import BadRequest, Conflict, Gone, NotFound
from holdfast.schema.approvals import Approval, ApprovalDecision, Question, QuestionItem, RuleScope

T = TypeVar("T")

_CHECK_SECONDS = 1.0
_ANSWERS: dict[str, tuple[ApprovalDecision, RuleScope]] = {
    "y": ("once", "project"),
    "yes": ("once", "project"),
    "once": ("once", "project"),
    "s": ("session", "project"),
    "session": ("session", "project"),
    "a": ("always", "project"),
    "always": ("always", "project"),
    "e": ("always", "all"),
    "everywhere": ("always", "all"),
    "n": ("deny", "project"),
    "no": ("deny", "project"),
    "deny": ("deny", "project"),
}
_MAX_ARGUMENT = 2_000
_MAX_DIFF_LINES = 60


class AnsweredElsewhere(Exception):
    """The request was closed, or answered by another client."""


class ApprovalPrompt:
    """Asks the user at the terminal."""

    def __init__(self, client: SyncClient, screen: Screen) -> None:
        self._client = client
        self._screen = screen
        self._input = sys.stdin
        self._input_ended = False

    def ask(self, request: Approval | Question) -> None:
        match request:
            case Approval():
                self._ask_approval(request)
            case Question():
                self._ask_question(request)

    def _ask_approval(self, asked: Approval) -> None:
        approval = self._get_open(lambda: self._client.approval(asked.id))
        if approval is None:
            return
        self._show_approval(approval)
        self._discard_typed_ahead()
        try:
            is_open = lambda: self._client.approval(approval.id).state == "open"  # noqa: E731
            decision, scope, feedback = self._ask_decision(is_open)
            self._client.answer_approval(approval.id, decision, scope=scope, feedback=feedback)
            self._screen.note(f"  {_describe(decision, scope, approval)}")
        except (AnsweredElsewhere, Conflict, Gone, NotFound):
            self._screen.note("  answered by another client")

    def _ask_question(self, asked: Question) -> None:
        question = self._get_open(lambda: self._client.question(asked.id))
        if question is None:
            return
        self._discard_typed_ahead()
        try:
            answers = self._ask_items(question)
            self._client.answer_question(question.id, answers)
        except (AnsweredElsewhere, Conflict, Gone, NotFound):
            self._screen.note("  answered by another client")
        except BadRequest as error:
            self._screen.warn(f"  {error.message}")
            self._client.answer_question(question.id, None)

    def _discard_typed_ahead(self) -> None:
        """Keys pressed before the question was shown are not an answer to it."""
        import termios

        try:
            termios.tcflush(self._input, termios.TCIFLUSH)
        except (termios.error, ValueError):
            pass  # not a terminal

    def _get_open(self, get: Callable[[], T]) -> T | None:
        try:
            found = get()
        except (Gone, NotFound):
            return None
        return found if getattr(found, "state", "") == "open" else None

    def _show_approval(self, approval: Approval) -> None:
        style = self._screen.style
        self._screen.status(None)
        self._screen.warn(f"{style.warn('?')} {approval.tool}: {style.bold(plain(approval.title))}")
        if approval.why:
            self._screen.warn(f"  {style.dim(one_line(approval.why))}")
        diff = approval.display.get("diff")
        if isinstance(diff, str) and diff:
            lines = plain(diff).splitlines()
            for line in lines[:_MAX_DIFF_LINES]:
                self._screen.warn("  " + style.diff_line(line))
            if len(lines) > _MAX_DIFF_LINES:
                self._screen.warn(f"  … {len(lines) - _MAX_DIFF_LINES} more lines")
        arguments = approval.display.get("arguments")
        if isinstance(arguments, dict):
            for name, value in arguments.items():
                self._screen.warn(f"  {style.dim(one_line(str(name)))}  {plain(str(value))[:_MAX_ARGUMENT]}")
        if approval.patterns:
            self._screen.warn(f"  {style.dim('always would allow: ' + ', '.join(map(one_line, approval.patterns)))}")

    def _ask_decision(self, is_open: Callable[[], bool]) -> tuple[ApprovalDecision, RuleScope, str]:
        prompt = "  [y] once  [s] this session  [a] always here  [e] everywhere  [n] no, or 'n REASON': "
        while True:
            line = self._read_line(prompt, is_open)
            if line is None:
                return "deny", "project", ""
            word, _, rest = line.strip().partition(" ")
            if found := _ANSWERS.get(word.lower()):
                decision, scope = found
                return decision, scope, rest.strip() if decision == "deny" else ""
            self._screen.warn("  please answer with y, s, a, e or n")

    def _ask_items(self, question: Question) -> list[list[str]] | None:
        found: list[list[str]] = []
        for item in question.items:
            answer = self._ask_item(item, lambda: self._client.question(question.id).state == "open")
            if answer is None:
                return None
            found.append(answer)
        return found

    def _ask_item(self, item: QuestionItem, is_open: Callable[[], bool]) -> list[str] | None:
        self._screen.status(None)
        self._screen.warn(f"{self._screen.style.warn('?')} {self._screen.style.bold(plain(item.text))}")
        for number, option in enumerate(item.options, 1):
            self._screen.warn(f"  {number}  {plain(option)}")
        while True:
            line = self._read_line(f"  {_HINTS[item.kind]}: ", is_open)
            if line is None:
                return None
            chosen = parse_answer(item, line.strip())
            if chosen is not None:
                return chosen
            self._screen.warn("  not one of the choices")

    def _read_line(self, prompt: str, is_open: Callable[[], bool]) -> str | None:
        """A line that the user typed; ``None`` at the end of input (Ctrl-D)."""
        if self._input_ended:
            return None
        self._screen.err.write(prompt)
        self._screen.err.flush()
        while not select.select([self._input], [], [], _CHECK_SECONDS)[0]:
            if not is_open():
                self._screen.err.write("\n")
                raise AnsweredElsewhere
        line = self._input.readline()
        if not line:
            self._input_ended = True
            self._screen.err.write("\n")
            return None
        return line


_HINTS = {
    "yes_no": "y or n, Ctrl-D to skip",
    "single": "number, Ctrl-D to skip",
    "multiple": "numbers separated by commas, Ctrl-D to skip",
    "text": "your answer, Ctrl-D to skip",
}


def parse_answer(item: QuestionItem, line: str) -> list[str] | None:
    """The answer that a typed line stands for; ``None`` if it is invalid. Pure."""
    match item.kind:
        case "yes_no":
            return {"y": ["yes"], "yes": ["yes"], "n": ["no"], "no": ["no"]}.get(line.lower())
        case "single" | "multiple":
            words = [word.strip() for word in line.split(",")] if item.kind == "multiple" else [line]
            found = [_option(item, word) for word in words if word]
            return None if not found or None in found else [option for option in found if option is not None]
        case _:
            return [line] if line else None


def _option(item: QuestionItem, word: str) -> str | None:
    if word.isascii() and word.isdigit():
        return item.options[int(word) - 1] if 0 < int(word) <= len(item.options) else None
    return word if word in item.options else None


def _describe(decision: ApprovalDecision, scope: RuleScope, approval: Approval) -> str:
    match decision:
        case "once":
            return "allowed once"
        case "session":
            return "allowed for this session"
        case "always":
            where = "everywhere" if scope == "all" else "in this directory"
            return f"always allowed {where}: {', '.join(map(one_line, approval.patterns))}"
        case _:
            return "denied"


class ApprovalNotices:
    """Prints how to answer, once per request, where the user cannot be asked."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._printed: set[str] = set()

    def ask(self, request: Approval | Question) -> None:
        if request.id in self._printed:
            return
        self._printed.add(request.id)
        match request:
            case Approval():
                self._screen.note(f"? {request.tool}: {plain(request.title)}")
                self._screen.note(f"  'holdfast approvals answer {request.id} once' allows it")
            case Question():
                self._screen.note(f"? {'; '.join(plain(item.text) for item in request.items)}")
