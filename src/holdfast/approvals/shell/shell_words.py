"""The words of a shell line: what a program will be given, as far as that is known before it runs.

Pure text. A word whose value depends on variables, files or other programs keeps its source and says so; nothing here
guesses a value.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, Literal, TypeAlias

from holdfast.schema.base import Value

Kind: TypeAlias = Literal["literal", "glob", "stream", "dynamic"]
"""``literal``: exactly this text. ``glob``: names of files that match. ``stream``: another command's output or input,
as a file name. ``dynamic``: not known, and perhaps none or several words."""


class Arg(Value, frozen=True):
    """One word of a command. The text is the value of a literal, the pattern of a glob, else the source."""

    text: str
    kind: Kind = "literal"
    tilde: bool = False
    """Starts with an unquoted ``~``, which the shell replaces."""

    @property
    def literal(self) -> bool:
        return self.kind == "literal"


class Assign(Value, frozen=True):
    """A variable that is set for one command."""

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
_LINE_END: Final = re.compile(r"\\\n")
_PLAIN_LINE_END: Final = re.compile(r"[^\s\\][ \t]+\\\n[ \t]*[^\s\\]")


def bare(source: str, *, first: bool) -> Arg:
    """An unquoted piece of a word. ``first``: it starts the word, where a tilde counts."""
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


def double_quoted(inner: str) -> str:
    """The value of a piece between double quotes that holds no expansion."""
    return _DOUBLE_ESCAPES.sub(lambda found: "" if found[1] == "\n" else found[1], inner)


def ansi_quoted(inner: str) -> Arg:
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


def join(pieces: list[Arg], source: str) -> Arg:
    """Pieces that touch each other, as the one word they are."""
    if len(pieces) == 1:
        return pieces[0]
    if all(piece.literal for piece in pieces):
        text = "".join(piece.text for piece in pieces)
        bare_braces = _BRACES.search(source)
        return Arg(source, "dynamic") if bare_braces else Arg(text, tilde=pieces[0].tilde)
    return Arg(source, "dynamic")


MAX_LINE: Final = 10_000


def not_readable(line: str) -> str | None:
    """Why a line must not be read at all: a person cannot see what it does, or the shell may read it otherwise."""
    if len(line) > MAX_LINE:
        return f"the line is longer than {MAX_LINE:,} characters"
    for char in line:
        if not (" " <= char <= "~" or char in "\t\n") and unicodedata.category(char) in _INVISIBLE:
            return f"the line has an invisible or control character (U+{ord(char):04X})"
    if len(_LINE_END.findall(line)) != len(_PLAIN_LINE_END.findall(line)):
        return "a line's end is taken away in a way that is not followed"
    return None


def look_alike(text: str) -> str | None:
    """The first character that passes for a plain one that means something: a dash, a quote, a semicolon, a space."""
    for char in text:
        if char.isascii():
            continue
        plain = unicodedata.normalize("NFKC", char)
        if unicodedata.category(char) == "Pd" or any(part.isascii() and not part.isalnum() for part in plain):
            return f"U+{ord(char):04X}"
    return None


_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})
