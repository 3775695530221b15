"""The words of a command line, as far as their values are known before the command runs.

A word whose value depends on variables, files or other programs keeps its source text and is marked. No value is
guessed. These functions only process text.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, Literal, TypeAlias

from holdfast.schema.base import Value

Kind: TypeAlias = Literal["literal", "glob", "stream", "dynamic"]
"""``literal``: exactly this text. ``glob``: the names of the files that match. ``stream``: a file name that stands for
the output or input of another command. ``dynamic``: unknown, possibly zero or several words."""


ANY_GLOB: Final = "*"


class Arg(Value, frozen=True):
    """One word of a command. The text is the value of a literal, the pattern of a glob, or else the source text."""

    text: str
    kind: Kind = "literal"
    tilde: bool = False
    """Whether it starts with an unquoted ``~``, which the shell expands."""
    one_word: bool = False
    """Whether an unknown value is exactly one word, because it is quoted."""
    globbed: tuple[str, ...] = ()
    """For an unknown value: the unquoted variables in which the shell expands globs; `ANY_GLOB` if it may do so in
    anything else."""

    @property
    def literal(self) -> bool:
        return self.kind == "literal"


class Assign(Value, frozen=True):
    """A variable assignment."""

    name: str
    value: Arg
    exported: bool = False
    """Whether the programs that follow get it in their environment."""

    @property
    def harmless(self) -> bool:
        """Whether no command does anything else because of it.

        Programs read variables with any name. A few of them only change the form of the output, if they have one of the
        usual values. Variables in lower case are harmless if only the shell has them.
        """
        if usual := next((values for names, values in _USUAL_VALUES if names.fullmatch(self.name)), None):
            return self.value.literal and usual.fullmatch(self.value.text) is not None
        return not self.exported and _SHELL_VARIABLE.fullmatch(self.name) is not None


_DOUBLE_ESCAPES: Final = re.compile(r"\\([\"\\$`\n])")
_GLOB: Final = re.compile(r"[*?\[]")
_BRACE_SEPARATOR: Final = re.compile(r",|\.\.")
_ANSI: Final = re.compile(
    r"\\(?:(?P<plain>[abeEfnrtv\\'\"?])|x(?P<hex>[0-9A-Fa-f]{1,2})|(?P<octal>[0-7]{1,3})"
    r"|u(?P<u>[0-9A-Fa-f]{1,4})|U(?P<U>[0-9A-Fa-f]{1,8}))|\\"
)
_ANSI_PLAIN: Final = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r"} | {
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "?": "?",
}
_CONTINUATION: Final = re.compile(r"\\\n")
_USUAL_CONTINUATION: Final = re.compile(r"[^\s\\][ \t]+\\\n[ \t]*[^\s\\]")


def _has_braces(text: str) -> bool:
    """Whether the shell may replace one word by several because of braces. It takes linear time."""
    start, end = text.find("{"), text.rfind("}")
    return 0 <= start < end and _BRACE_SEPARATOR.search(text, start, end) is not None


def has_glob(text: str) -> bool:
    """Whether the shell may replace unquoted text by the names of files."""
    return _GLOB.search(text) is not None


def parse_unquoted(source: str, *, first: bool) -> Arg:
    """Parse an unquoted part of a word. ``first``: it is the start of the word, where a tilde is expanded."""
    plain, active = [], []
    position = 0
    while position < len(source):
        char = source[position]
        if char == "\\" and position + 1 < len(source):
            position += 1
            if source[position] != "\n":
                plain.append(source[position])
                active.append("x")
        else:
            plain.append(char)
            active.append(char)
        position += 1
    text, unquoted = "".join(plain), "".join(active)
    if "$" in unquoted or "`" in unquoted or _has_braces(unquoted) or "=~" in unquoted or ":~" in unquoted:
        return Arg(source, "dynamic", globbed=(ANY_GLOB,) if has_glob(unquoted) or "$" in unquoted else ())
    if has_glob(unquoted):
        if text != unquoted or "[" in unquoted or re.search(r"[?*+@!]\(", unquoted):
            return Arg(source, "dynamic", globbed=(ANY_GLOB,))
        return Arg(text, "glob", first and text.startswith("~"))
    return Arg(text, tilde=first and unquoted.startswith("~"))


def parse_double_quoted(inner: str) -> str:
    """The value of double-quoted text without expansions."""
    return _DOUBLE_ESCAPES.sub(lambda found: "" if found[1] == "\n" else found[1], inner)


def parse_ansi_quoted(inner: str) -> Arg:
    """The value of ``$'…'``."""
    unknown = False

    def value(found: re.Match[str]) -> str:
        nonlocal unknown
        if plain := found["plain"]:
            return _ANSI_PLAIN[plain]
        digits, base = (found["octal"], 8) if found["octal"] else (found["hex"] or found["u"] or found["U"], 16)
        number = int(digits, base) if digits else 0
        if not 0 < number < 0x80:
            unknown = True
            return ""
        return chr(number)

    text = _ANSI.sub(value, inner)
    return Arg(inner, "dynamic") if unknown else Arg(text)


def join_parts(parts: list[Arg], source: str) -> Arg:
    """Join adjacent parts into one word."""
    if len(parts) == 1:
        return parts[0]
    if all(part.literal for part in parts):
        text = "".join(part.text for part in parts)
        bare_braces = _has_braces(source)
        return Arg(source, "dynamic", globbed=_globbed(parts)) if bare_braces else Arg(text, tilde=parts[0].tilde)
    one_word = all(part.literal or part.one_word for part in parts) and not _has_braces(source)
    return Arg(source, "dynamic", one_word=one_word, globbed=_globbed(parts))


def _globbed(parts: list[Arg]) -> tuple[str, ...]:
    if any(part.kind == "glob" for part in parts):
        return (ANY_GLOB,)
    return tuple(dict.fromkeys(name for part in parts for name in part.globbed))


_MAX_LINE: Final = 10_000


def why_unreadable(line: str) -> str | None:
    """Why a line cannot be parsed: a user cannot see what it does, or the shell may interpret it differently."""
    if len(line) > _MAX_LINE:
        return f"the line is longer than {_MAX_LINE:,} characters"
    for char in line:
        if not (" " <= char <= "~" or char in "\t\n") and unicodedata.category(char) in _INVISIBLE:
            return f"the line has an invisible or control character (U+{ord(char):04X})"
    if len(_CONTINUATION.findall(line)) != len(_USUAL_CONTINUATION.findall(line)):
        return "the line is continued with a backslash in an unusual place"
    return None


def find_look_alike(text: str) -> str | None:
    """The first character that looks like an ASCII dash, quote, semicolon, space or other special character."""
    for char in text:
        if char.isascii():
            continue
        plain = unicodedata.normalize("NFKC", char)
        if unicodedata.category(char) == "Pd" or any(part.isascii() and not part.isalnum() for part in plain):
            return f"U+{ord(char):04X}"
    return None


_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})


_USUAL_VALUES: Final = (
    (
        re.compile(r"LANG|LANGUAGE|LC_[A-Z]+"),
        re.compile(r"|C|POSIX|C\.(?:UTF-8|utf8)|[a-z]{2}(?:_[A-Z]{2})?\.(?:UTF-8|utf8)"),
    ),
    (re.compile(r"TZ"), re.compile(r"|[A-Z]{3,4}(?:[+-]?\d+)?|[A-Z][A-Za-z]+/[A-Z][A-Za-z_]+")),
    (re.compile(r"NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|COLUMNS|LINES|CI"), re.compile(r"\d*|true|false")),
    (re.compile(r"TERM"), re.compile(r"dumb|xterm(?:-256color)?|linux|vt100")),
)
_SHELL_VARIABLE: Final = re.compile(r"(?!.*(?:proxy|npm|config))[a-z_][a-z0-9_]*")


def changes_programs(name: str) -> bool:
    """Whether a variable of the shell may change what a command does, whatever its value is.

    A variable in lower case does not, unless programs are known to read variables like it from the environment.
    """
    return _SHELL_VARIABLE.fullmatch(name) is None
