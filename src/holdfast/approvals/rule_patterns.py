"""The patterns of rules: how each is written, read, and compared. `rules` says what they mean."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Final, Literal, TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit

from holdfast.approvals.shell.shell_words import Arg
from holdfast.schema.base import Value

Match: TypeAlias = Literal["no", "maybe", "yes"]
"""Whether a pattern matches a command of which not every word is known."""

_FORBIDDEN_BARE: Final = frozenset(";|&<>()`$\n\r")
_WILD: Final = re.compile(r"\\(.)|([*?])|([^\\*?]+)|\\$", re.DOTALL)
_DOTS: Final = re.compile(r"(?:^|[/=:])\.\.(?:$|/)")


class Piece(Value, frozen=True):
    """One word of a command pattern."""

    text: str
    """The literal text, where it is one."""
    regex: str
    wild: bool

    def takes(self, word: str) -> bool:
        return re.fullmatch(self.regex, word, re.DOTALL) is not None


class CommandPattern(Value, frozen=True):
    """A command, word by word."""

    pieces: tuple[Piece, ...]
    more: bool
    """Whether further words may follow."""

    @classmethod
    def read(cls, text: str) -> CommandPattern:
        pieces = _pieces(text)
        more = len(pieces) > 0 and pieces[-1].wild and pieces[-1].text == "*"
        if not pieces:
            raise ValueError("the pattern has no words")
        return cls(tuple(pieces[:-1] if more else pieces), more)

    def compare(self, argv: tuple[Arg, ...]) -> Match:
        """``yes`` only when every possible value of the words matches; ``maybe`` when some might."""
        if self._certain(argv):
            return "yes"
        return "maybe" if self._possible(argv) else "no"

    def named(self, argv: tuple[Arg, ...]) -> frozenset[int]:
        """Which words of a certain match the pattern names itself, so that they may lie outside of the workspace."""
        return frozenset(
            at
            for at, piece in enumerate(self.pieces[: len(argv)])
            if not piece.wild or piece.text.startswith(("/", "~/"))
        )

    def climbs(self, argv: tuple[Arg, ...]) -> bool:
        """Whether a word that a wildcard matched has a ``..`` component."""
        return any(
            piece.wild and piece.text != "*" and _DOTS.search(arg.text)
            for piece, arg in zip(self.pieces, argv, strict=False)
        )

    def _certain(self, argv: tuple[Arg, ...]) -> bool:
        count = len(self.pieces)
        if len(argv) < count or (len(argv) > count and not self.more):
            return False
        return all(
            (arg.literal and piece.takes(arg.text)) or (arg.kind == "stream" and piece.wild and piece.text == "*")
            for piece, arg in zip(self.pieces, argv[:count], strict=True)
        )

    def _possible(self, argv: tuple[Arg, ...]) -> bool:
        """Whether some values of the words match: which pieces may be behind us, word by word."""
        behind = {0}
        for arg in argv:
            behind = self._after(arg, behind)
        return len(self.pieces) in behind

    def _after(self, arg: Arg, before: set[int]) -> set[int]:
        end = len(self.pieces)
        after: set[int] = set()
        for start in before:
            if start == end and self.more:
                after.add(end)
            if arg.kind == "dynamic":
                after.update(range(start, end + 1))
                continue
            position = start
            while position < end and _could_be(self.pieces[position], arg):
                position += 1
                after.add(position)
                if arg.kind != "glob":
                    break
        return after


def _could_be(piece: Piece, arg: Arg) -> bool:
    if arg.literal:
        return piece.takes(arg.text)
    return arg.kind == "stream" or piece.wild or fnmatchcase(piece.text, arg.text)


def _pieces(text: str) -> list[Piece]:
    """Splits a command pattern into words, in the shell's quoting; ``*`` and ``?`` are wild only unquoted."""
    pieces: list[Piece] = []
    word: list[str] = []
    regex: list[str] = []
    wild, open_, position = False, False, 0
    while position < len(text):
        char = text[position]
        if char in " \t":
            if open_:
                pieces.append(Piece("".join(word), "".join(regex), wild))
                word, regex, wild, open_ = [], [], False, False
            position += 1
            continue
        quoted, position = _quoted(text, position)
        open_ = True
        if quoted is not None:
            word.append(quoted)
            regex.append(re.escape(quoted))
            continue
        if char in _FORBIDDEN_BARE:
            raise ValueError(f"{char!r} is not part of one command; quote it, or write one rule per command")
        wild = wild or char in "*?"
        word.append(char)
        regex.append({"*": ".*", "?": "."}.get(char) or re.escape(char))
    if open_:
        pieces.append(Piece("".join(word), "".join(regex), wild))
    return pieces


def _quoted(text: str, position: int) -> tuple[str | None, int]:
    """The quoted text that starts here and where it ends; ``None`` when the character is a bare one."""
    char = text[position]
    if char == "\\":
        if position + 1 == len(text):
            raise ValueError("it ends in a backslash")
        return text[position + 1], position + 2
    if char not in "'\"":
        return None, position + 1
    end = text.find(char, position + 1)
    if end < 0:
        raise ValueError(f"the quote {char} is not closed")
    return text[position + 1 : end], end + 1


class PathPattern(Value, frozen=True):
    """A path, or a name at any depth."""

    text: str
    regex: str
    absolute: bool
    name_only: bool

    @classmethod
    def read(cls, text: str) -> PathPattern:
        if _DOTS.search(text):
            raise ValueError("'..' is not followed in a path pattern; write the path it leads to")
        anchored = text.removeprefix("./") or "."
        trimmed = anchored.rstrip("/") or "/"
        absolute = text.startswith(("/", "~/"))
        return cls(text, _wild(trimmed), absolute, "/" not in text and trimmed != "*")

    def matches(self, path: str, *, workspace: str, home: str, folded: bool = False) -> bool:
        """Whether an absolute path, or a directory above it, matches. ``folded``: upper and lower case are the same."""
        flags = re.DOTALL | (re.IGNORECASE if folded else re.NOFLAG)
        return any(re.fullmatch(self.regex, shape, flags) for shape in self._shapes(path, workspace, home))

    def _shapes(self, path: str, workspace: str, home: str) -> list[str]:
        if self.name_only:
            return path.split("/")
        if not self.absolute:
            relative = relative_to(path, workspace)
            return [] if relative is None else _ancestors(relative)
        if self.text.startswith("~"):
            below = relative_to(path, home)
            return [] if below is None else [f"~/{shape}" for shape in _ancestors(below)]
        return _ancestors(path)


def relative_to(path: str, root: str) -> str | None:
    """The path below a root, ``"."`` for the root itself, ``None`` outside of it."""
    if path == root:
        return "."
    prefix = root if root.endswith("/") else f"{root}/"
    return path[len(prefix) :] if path.startswith(prefix) else None


def _ancestors(path: str) -> list[str]:
    ends = [at for at, char in enumerate(path) if char == "/" and at > 0]
    return [path, *(path[:end] for end in ends)]


class UrlPattern(Value, frozen=True):
    """A URL by its parts."""

    scheme: str
    host: str
    any_below: bool
    """Whether the host stands for all below it (``*.python.org``)."""
    port: int | None
    path: str

    @classmethod
    def read(cls, text: str) -> UrlPattern:
        parts = split_url(text.replace("*.", "any-host-below.", 1) if "://*." in text else text)
        if parts is None:
            raise ValueError("it is not a plain http(s) URL; write for example 'https://docs.python.org/*'")
        host = parts.hostname or ""
        below = host.startswith("any-host-below.")
        host = host.removeprefix("any-host-below.")
        if "*" in host or "?" in text:
            raise ValueError("only the path may hold '*', and the host start with '*.'")
        return cls(parts.scheme, host, below, _port(parts), _wild(parts.path or "/"))

    def matches(self, url: str) -> bool:
        parts = split_url(url)
        if parts is None or parts.scheme != self.scheme or _port(parts) != self.port:
            return False
        host = parts.hostname or ""
        if not (host == self.host or (self.any_below and host.endswith(f".{self.host}"))):
            return False
        path = parts.path or "/"
        if ".." in unquote(unquote(path)):
            return False
        return re.fullmatch(self.path, path + (f"?{parts.query}" if parts.query else ""), re.DOTALL) is not None


def split_url(url: str) -> SplitResult | None:
    """The parts of a plain http(s) URL; ``None`` for one that could pass for another (user, odd characters)."""
    if not url.isascii() or not url.isprintable() or any(char in url for char in ' \\"<>^`{|}'):
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc or "%" in parts.netloc:
        return None
    return parts


def _port(parts: SplitResult) -> int | None:
    return parts.port or {"http": 80, "https": 443}[parts.scheme]


class TextPattern(Value, frozen=True):
    """Any text."""

    regex: str

    @classmethod
    def read(cls, text: str) -> TextPattern:
        return cls(_wild(text))

    def matches(self, text: str) -> bool:
        return re.fullmatch(self.regex, text, re.DOTALL) is not None


def _wild(text: str) -> str:
    """A pattern with ``*``, ``?`` and backslash escapes, as a regular expression."""
    regex = []
    for found in _WILD.finditer(text):
        escaped, wildcard, plain = found.groups()
        if wildcard:
            regex.append(".*" if wildcard == "*" else ".")
        elif escaped or plain:
            regex.append(re.escape(escaped or plain))
        else:
            raise ValueError("it ends in a backslash")
    return "".join(regex)


def literal_path(path: str) -> str:
    """A path as a pattern that matches only itself."""
    return re.sub(r"([\\*?])", r"\\\1", path)
