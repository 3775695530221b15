"""An exact option parser, the same for every command that Holdfast understands.

The options of a program are listed in one text: ``-ab`` are flags, ``-n:`` takes a text and ``-f@`` takes a file, as
the rest of the word or as the next word; ``-I?`` takes a text only as the rest of the word; ``-#`` is a number such as
``-20``. ``-L+`` takes a text as the next word and must stand alone, for programs in which the letters of a word take
their values from the words after it. Long options are written ``--name``, ``--name:``, ``--name@`` and ``--name?`` in
the same way. Whatever is not listed is not understood, abbreviations included.

A value that is a word of its own must not look like an option, except for numbers and patterns: another version of the
program may not take a value there. Some systems end the options at the first operand, so a value after it counts as a
file, too.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from holdfast.approvals.shell.shell_commands import Argv
from holdfast.approvals.shell.shell_words import Arg
from holdfast.schema.base import Value

Takes: TypeAlias = Literal["nothing", "text", "file", "attached", "next word"]
_TAKES: Final[dict[str, Takes]] = {":": "text", "@": "file", "?": "attached", "+": "next word"}
_PATTERN_OPTIONS: Final = frozenset({"-e", "--regexp", "--expression"})
_VALUE: Final = re.compile(r"(?!-).*|--?\d\S*|-", re.DOTALL)
_NUMBER: Final = re.compile(r"-\d+")


class ParsedOptions(Value, frozen=True):
    """The words of a command, told apart."""

    options: tuple[tuple[str, str], ...] = ()
    """Each option as it is listed (``-n``, ``--lines``), with its text."""
    files: Argv = ()
    """The files that options name."""
    operands: Argv = ()

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)


class NotUnderstood(Value, frozen=True):
    """The position of the first word that is not understood."""

    position: int


@functools.cache
def known_options(listed: str) -> dict[str, Takes]:
    """Parse a list of options."""
    known: dict[str, Takes] = {}
    for word in listed.split():
        takes = _TAKES.get(word[-1], "nothing")
        name = word if takes == "nothing" else word[:-1]
        if name.startswith("--"):
            known[name] = takes
        else:
            known.update(dict.fromkeys((f"-{letter}" for letter in name[1:]), takes))
    return known


def parse_options(
    args: Argv, listed: str, *, mixed: bool = True, word_ok: Callable[[Arg], bool] | None = None
) -> ParsedOptions | NotUnderstood:
    """Tell options and operands apart.

    ``mixed``: options may follow operands; otherwise the first operand ends them. An option must be a literal word. An
    operand must be one as well, unless ``word_ok`` accepts it.
    """
    known = known_options(listed)
    options: list[tuple[str, str]] = []
    files: list[Arg] = []
    operands: list[Arg] = []
    position = 0
    while position < len(args):
        arg = args[position]
        if arg.literal and arg.text == "--":
            operands += args[position + 1 :]
            break
        if not (arg.literal and arg.text.startswith("-") and arg.text != "-"):
            if not (mixed or arg.literal):
                return NotUnderstood(position)
            operands += (arg,) if mixed else args[position:]
            if mixed:
                position += 1
                continue
            break
        found = _option(args, position, known)
        if found is None:
            return NotUnderstood(position)
        named, taken = found
        for name, value in named:
            options.append((name, value.text if value else ""))
            if value is not None and (known[name] == "file" or (operands and taken > 1)):
                files.append(value)
        position += taken
    if mixed:
        for at, arg in enumerate(operands):
            if not (arg.literal or arg.kind == "stream" or (word_ok and word_ok(arg))):
                return NotUnderstood(len(args) - len(operands) + at)
    return ParsedOptions(tuple(options), tuple(files), tuple(operands))


def _option(args: Argv, position: int, known: dict[str, Takes]) -> tuple[list[tuple[str, Arg | None]], int] | None:
    """The options in one word with their values, and how many words they take; ``None`` if it is not understood."""
    text = args[position].text
    if not text.isascii() or args[position].tilde:
        return None
    following = args[position + 1] if position + 1 < len(args) else None
    if text.startswith("--"):
        return _long_option(text, following, known)
    if _NUMBER.fullmatch(text) and "-#" in known:
        return [("-#", Arg(text[1:]))], 1
    found: list[tuple[str, Arg | None]] = []
    for at, letter in enumerate(text[1:], start=2):
        name, rest = f"-{letter}", text[at:]
        match known.get(name):
            case "nothing":
                found.append((name, None))
            case "attached":
                return [*found, (name, Arg(rest))], 1
            case "text" | "file" if rest:
                return [*found, (name, Arg(rest))], 1
            case "text" | "file" if following is not None and _may_be_value(name, following):
                return [*found, (name, following)], 2
            case "next word" if len(text) == 2 and following is not None and _may_be_value(name, following):
                return [(name, following)], 2
            case _:
                return None
    return found, 1


def _long_option(
    text: str, following: Arg | None, known: dict[str, Takes]
) -> tuple[list[tuple[str, Arg | None]], int] | None:
    name, given, value = text.partition("=")
    match known.get(name):
        case "nothing" if not given:
            return [(name, None)], 1
        case "attached":
            return [(name, Arg(value))], 1
        case "text" | "file" if given:
            return [(name, Arg(value))], 1
        case "text" | "file" if following is not None and _may_be_value(name, following):
            return [(name, following)], 2
        case _:
            return None


def _may_be_value(name: str, word: Arg) -> bool:
    return word.literal and (name in _PATTERN_OPTIONS or _VALUE.fullmatch(word.text) is not None)
