"""What a prompt's text means while it is written: mentions, commands, shell lines, history. Pure."""

from __future__ import annotations

import re
from typing import Literal

from holdfast.schema.base import Value

LONG_PASTE_LINES = 12
LONG_PASTE_CHARACTERS = 2_000

_MENTION = re.compile(r"(?:^|(?<=\s))@(\S*)\Z")
_COMMAND = re.compile(r"\A/(\S*)\Z")
_LINE_RANGE = re.compile(r"\A(.+?):(\d+)(?:-(\d+))?\Z")
_RESOURCE = re.compile(r"\A[\w.-]+:[A-Za-z][\w+.-]*:")
"""The beginning of ``server:uri``, a resource of an MCP server. It has no line range."""
_MENTIONED = re.compile(r"(?:^|(?<=\s))@(\S+)")

ComposerKind = Literal["prompt", "command", "shell"]


class Completion(Value, frozen=True):
    """The word before the cursor that can be completed."""

    kind: Literal["file", "command"]
    query: str
    start: int
    """Offset of the word in the text before the cursor, including its ``@`` or ``/``."""
    suffix: str = ""
    """The line range of a mention, kept when the file is completed."""


class MentionedFile(Value, frozen=True):
    path: str
    first: int | None = None
    last: int | None = None


class Typed(Value, frozen=True):
    """A text that was sent, by what it asks for."""

    kind: ComposerKind
    text: str
    """The prompt, the shell command, or the command's name."""
    arguments: str = ""


def completion_at(before: str) -> Completion | None:
    """What can be completed at the end of the text before the cursor."""
    if found := _COMMAND.match(before):
        return Completion("command", found[1], 0)
    line_start = before.rfind("\n") + 1
    if found := _MENTION.search(before[line_start:]):
        path, suffix = _split_range(found[1])
        return Completion("file", path, line_start + found.start(), suffix)
    return None


def complete(before: str, completion: Completion, choice: str) -> str:
    """The text before the cursor with the completed word."""
    sign = "/" if completion.kind == "command" else "@"
    end = "" if completion.kind == "file" and choice.endswith("/") else " "
    return f"{before[: completion.start]}{sign}{choice}{completion.suffix}{end}"


def read_typed(text: str) -> Typed:
    """Decide what a sent text is. A path such as ``/usr/bin is slow`` is a prompt, not a command."""
    stripped = text.strip()
    if stripped.startswith("!") and stripped[1:].strip():
        return Typed("shell", stripped[1:].strip())
    if found := re.match(r"/([A-Za-z][\w:-]*)(?:\s+(.*))?\Z", stripped, re.DOTALL):
        return Typed("command", found[1], (found[2] or "").strip())
    return Typed("prompt", text.strip())


def mentioned_files(text: str) -> tuple[MentionedFile, ...]:
    """The files that a prompt mentions, in order, each once."""
    found: dict[str, MentionedFile] = {}
    for match in _MENTIONED.finditer(text):
        word = match[1].rstrip(",;!?)")
        name, suffix = _split_range(word)
        numbers = [int(number) for number in suffix[1:].split("-")] if suffix else []
        found.setdefault(word, MentionedFile(name, *(numbers if len(numbers) == 2 else numbers * 2)))
    return tuple(found.values())


def is_long_paste(text: str) -> bool:
    """Whether pasted text becomes an attachment instead of a part of the prompt."""
    return text.count("\n") >= LONG_PASTE_LINES or len(text) > LONG_PASTE_CHARACTERS


def _split_range(word: str) -> tuple[str, str]:
    found = None if _RESOURCE.match(word) else _LINE_RANGE.match(word)
    return (found[1], word[len(found[1]) :]) if found else (word, "")


class PromptHistory:
    """Past prompts, walked with up and down. The draft is kept while one looks at older prompts."""

    def __init__(self, prompts: tuple[str, ...] = (), *, limit: int = 1000) -> None:
        self._limit = limit
        self._prompts: list[str] = []
        self._position: int | None = None
        self._draft = ""
        for prompt in prompts:
            self.add(prompt)

    @property
    def prompts(self) -> tuple[str, ...]:
        return tuple(self._prompts)

    def add(self, prompt: str) -> None:
        """Add a sent prompt at the end; a repeated prompt moves there."""
        self._position = None
        if not prompt.strip():
            return
        if prompt in self._prompts:
            self._prompts.remove(prompt)
        self._prompts.append(prompt)
        del self._prompts[: -self._limit]

    def older(self, current: str) -> str | None:
        """The prompt before the shown one; ``None`` at the beginning."""
        if self._position is None:
            if not self._prompts:
                return None
            self._draft = current
            self._position = len(self._prompts)
        if self._position == 0:
            return None
        self._position -= 1
        return self._prompts[self._position]

    def newer(self) -> str | None:
        """The prompt after the shown one, or at the end the draft; ``None`` if the draft is shown."""
        if self._position is None:
            return None
        self._position += 1
        if self._position >= len(self._prompts):
            self._position = None
            return self._draft
        return self._prompts[self._position]

    def edited(self) -> None:
        """The shown text was changed: it is the draft now."""
        self._position = None


def typeable(text: str) -> str:
    """Pasted text as it could have been typed: one kind of line ends, no control characters but tabs."""
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
