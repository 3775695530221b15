"""The patterns of rules: parse them and compare them with commands, paths, URLs and text.

The docstring of `rules` describes the syntax.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Final, Literal, TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit

from holdfast.approvals.shell.shell_words import Arg
from holdfast.schema.base import Value

Match: TypeAlias = Literal["no", "maybe", "yes"]
"""Whether a pattern matches a command. ``maybe``: it depends on words whose values are unknown."""

_FORBIDDEN_BARE: Final = frozenset(";|&<>()`$\n\r")
_WILD: Final = re.compile(r"\\(.)|([*?])|([^\\*?]+)|\\$", re.DOTALL)
_PARENT: Final = re.compile(r"(?:^|[/=:])\.\.(?:$|/)")


class WordPattern(Value, frozen=True):
    """One word of a command pattern."""

    text: str
    """The text without quotes; wildcards are kept as written."""
    regex: str
    wild: bool

    def matches(self, word: str) -> bool:
        return re.fullmatch(self.regex, word, re.DOTALL) is not None


class CommandPattern(Value, frozen=True):
    """Matches a command word by word."""

    words: tuple[WordPattern, ...]
    open_ended: bool
    """Whether more words may follow: the pattern ends with a separate ``*``."""

    @classmethod
    def parse(cls, text: str) -> CommandPattern:
        words = _split_words(text)
        if not words:
            raise ValueError("the pattern has no words")
        open_ended = words[-1].wild and words[-1].text == "*"
        return cls(tuple(words[:-1] if open_ended else words), open_ended)

    def compare(self, argv: tuple[Arg, ...]) -> Match:
        """``yes`` if every possible value of the words matches; ``maybe`` if only some values do."""
        if self._always_matches(argv):
            return "yes"
        return "maybe" if self._may_match(argv) else "no"

    def named_words(self, argv: tuple[Arg, ...]) -> frozenset[int]:
        """The positions of words that the pattern names itself. Those may be outside the workspace."""
        return frozenset(
            at for at, word in enumerate(self.words[: len(argv)]) if not word.wild or word.text.startswith(("/", "~/"))
        )

    def wildcard_matches_parent(self, argv: tuple[Arg, ...]) -> bool:
        """Whether a word that a wildcard matched has a ``..`` component."""
        return any(
            word.wild and word.text != "*" and _PARENT.search(arg.text)
            for word, arg in zip(self.words, argv, strict=False)
        )

    def _always_matches(self, argv: tuple[Arg, ...]) -> bool:
        count = len(self.words)
        if len(argv) < count or (len(argv) > count and not self.open_ended):
            return False
        return all(
            (arg.literal and word.matches(arg.text)) or (arg.kind == "stream" and word.wild and word.text == "*")
            for word, arg in zip(self.words, argv[:count], strict=True)
        )

    def _may_match(self, argv: tuple[Arg, ...]) -> bool:
        """Simulate the pattern as a state machine; a state is the number of pattern words matched so far."""
        states = {0}
        for arg in argv:
            states = self._next_states(arg, states)
        return len(self.words) in states

    def _next_states(self, arg: Arg, states: set[int]) -> set[int]:
        end = len(self.words)
        after: set[int] = set()
        for start in states:
            if start == end and self.open_ended:
                after.add(end)
            if arg.kind == "dynamic":
                after.update(range(start, end + 1))
                continue
            position = start
            while position < end and _may_match_word(self.words[position], arg):
                position += 1
                after.add(position)
                if arg.kind != "glob":
                    break
        return after


def _may_match_word(word: WordPattern, arg: Arg) -> bool:
    if arg.literal:
        return word.matches(arg.text)
    return arg.kind == "stream" or word.wild or fnmatchcase(word.text, arg.text)


def _split_words(text: str) -> list[WordPattern]:
    """Split a command pattern into words with the shell's quoting. Only unquoted ``*`` and ``?`` are wildcards."""
    words: list[WordPattern] = []
    word: list[str] = []
    regex: list[str] = []
    wild, in_word, position = False, False, 0
    while position < len(text):
        char = text[position]
        if char in " \t":
            if in_word:
                words.append(WordPattern("".join(word), "".join(regex), wild))
                word, regex, wild, in_word = [], [], False, False
            position += 1
            continue
        quoted, position = _quoted(text, position)
        in_word = True
        if quoted is not None:
            word.append(quoted)
            regex.append(re.escape(quoted))
            continue
        if char in _FORBIDDEN_BARE:
            raise ValueError(f"{char!r} cannot be part of a command; quote it, or write one rule per command")
        wild = wild or char in "*?"
        word.append(char)
        regex.append({"*": ".*", "?": "."}.get(char) or re.escape(char))
    if in_word:
        words.append(WordPattern("".join(word), "".join(regex), wild))
    return words


def _quoted(text: str, position: int) -> tuple[str | None, int]:
    """The quoted text at this position, ``None`` if the character is not quoted; and the position after it."""
    char = text[position]
    if char == "\\":
        if position + 1 == len(text):
            raise ValueError("it ends with a backslash")
        return text[position + 1], position + 2
    if char not in "'\"":
        return None, position + 1
    end = text.find(char, position + 1)
    if end < 0:
        raise ValueError(f"the quote {char} is not closed")
    return text[position + 1 : end], end + 1


class PathPattern(Value, frozen=True):
    """Matches a path, or a file name in any directory."""

    text: str
    regex: str
    absolute: bool
    name_only: bool

    @classmethod
    def parse(cls, text: str) -> PathPattern:
        if _PARENT.search(text):
            raise ValueError("a path pattern cannot contain '..'; write the path without it")
        anchored = text.removeprefix("./") or "."
        trimmed = anchored.rstrip("/") or "/"
        absolute = text.startswith(("/", "~/"))
        return cls(text, _wildcard_regex(trimmed), absolute, "/" not in text and trimmed != "*")

    def matches(self, path: str, *, workspace: str, home: str, ignore_case: bool = False) -> bool:
        """Whether an absolute path or one of its parent directories matches."""
        flags = re.DOTALL | (re.IGNORECASE if ignore_case else re.NOFLAG)
        return any(re.fullmatch(self.regex, candidate, flags) for candidate in self._candidates(path, workspace, home))

    def _candidates(self, path: str, workspace: str, home: str) -> list[str]:
        if self.name_only:
            return path.split("/")
        if not self.absolute:
            relative = relative_to(path, workspace)
            return [] if relative is None else _ancestors(relative)
        if self.text.startswith("~"):
            below = relative_to(path, home)
            return [] if below is None else [f"~/{path}" for path in _ancestors(below)]
        return _ancestors(path)


def relative_to(path: str, root: str) -> str | None:
    """The path relative to a root: ``"."`` for the root itself, ``None`` if it is not below the root."""
    if path == root:
        return "."
    prefix = root if root.endswith("/") else f"{root}/"
    return path[len(prefix) :] if path.startswith(prefix) else None


def _ancestors(path: str) -> list[str]:
    ends = [at for at, char in enumerate(path) if char == "/" and at > 0]
    return [path, *(path[:end] for end in ends)]


class UrlPattern(Value, frozen=True):
    """Matches a URL by its parts."""

    scheme: str
    host: str
    subdomains: bool
    """Whether the pattern matches all subdomains of the host (``*.python.org``)."""
    port: int | None
    path: str

    @classmethod
    def parse(cls, text: str) -> UrlPattern:
        parts = split_url(text.replace("*.", "any-host-below.", 1) if "://*." in text else text)
        if parts is None:
            raise ValueError("it is not a plain http(s) URL; write it like 'https://docs.python.org/*'")
        host = parts.hostname or ""
        below = host.startswith("any-host-below.")
        host = host.removeprefix("any-host-below.")
        if "*" in host or "?" in text:
            raise ValueError("'*' is allowed only in the path, and as '*.' at the start of the host")
        return cls(parts.scheme, host, below, _port(parts), _wildcard_regex(parts.path or "/"))

    def matches(self, url: str) -> bool:
        parts = split_url(url)
        if parts is None or parts.scheme != self.scheme or _port(parts) != self.port:
            return False
        host = parts.hostname or ""
        if not (host == self.host or (self.subdomains and host.endswith(f".{self.host}"))):
            return False
        path = parts.path or "/"
        if ".." in unquote(unquote(path)):
            return False
        return re.fullmatch(self.path, path + (f"?{parts.query}" if parts.query else ""), re.DOTALL) is not None


def split_url(url: str) -> SplitResult | None:
    """The parts of a plain http(s) URL. ``None`` if it has a user name or odd characters and could mislead a reader."""
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
    """Matches any text."""

    regex: str

    @classmethod
    def parse(cls, text: str) -> TextPattern:
        return cls(_wildcard_regex(text))

    def matches(self, text: str) -> bool:
        return re.fullmatch(self.regex, text, re.DOTALL) is not None


def _wildcard_regex(text: str) -> str:
    """Convert a pattern with ``*``, ``?`` and backslash escapes to a regular expression."""
    regex = []
    for found in _WILD.finditer(text):
        escaped, wildcard, plain = found.groups()
        if wildcard:
            regex.append(".*" if wildcard == "*" else ".")
        elif escaped or plain:
            regex.append(re.escape(escaped or plain))
        else:
            raise ValueError("it ends with a backslash")
    return "".join(regex)


def escape_path(path: str) -> str:
    """The pattern that matches exactly this path."""
    return re.sub(r"([\\*?])", r"\\\1", path)
