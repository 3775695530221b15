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


class Arg(Value, frozen=True):
    """One word of a command. The text is the value of a literal, the pattern of a glob, or else the source text."""

    text: str
    kind: Kind = "literal"
    tilde: bool = False
    """Whether it starts with an unquoted ``~``, which the shell expands."""

    @property
    def literal(self) -> bool:
        return self.kind == "literal"


class Assign(Value, frozen=True):
    """A variable assignment for one command."""

    name: str
    value: Arg


_DOUBLE_ESCAPES: Final = re.compile(r"\\([\"\\$`\n])")
_GLOB: Final = re.compile(r"[*?\[]")
_BRACES: Final = re.compile(r"\{.*(?:,|\.\.).*\}", re.DOTALL)
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
    if "$" in unquoted or "`" in unquoted or _BRACES.search(unquoted) or "=~" in unquoted or ":~" in unquoted:
        return Arg(source, "dynamic")
    if _GLOB.search(unquoted):
        quoted_as_well = text != unquoted or "[" in unquoted or re.search(r"[?*+@!]\(", unquoted)
        return Arg(source, "dynamic") if quoted_as_well else Arg(text, "glob", first and text.startswith("~"))
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
        bare_braces = _BRACES.search(source)
        return Arg(source, "dynamic") if bare_braces else Arg(text, tilde=parts[0].tilde)
    return Arg(source, "dynamic")


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


_HARMLESS_VARIABLE: Final = re.compile(
    r"LANG|LANGUAGE|LC_[A-Z]+|TZ|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|COLUMNS|LINES|CI|TERM"
    r"|(?!.*proxy)[a-z_][a-z0-9_]*"
)


def changes_programs(name: str) -> bool:
    """Whether setting this variable may change what a command does.

    Programs read variables with upper-case names, and proxy variables in lower case. A few upper-case variables only
    change the form of the output. All others count, because there is no complete list of them.
    """
    return _HARMLESS_VARIABLE.fullmatch(name) is None
