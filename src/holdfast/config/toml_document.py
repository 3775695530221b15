"""TOML with line numbers: parse a document, find the line of a key, read and write dotted keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeAlias

KeyPath: TypeAlias = tuple[str, ...]

_MAX_KEY_PARTS = 32
_MAX_KEY_LENGTH = 500
_MAX_EQUALS_IN_KEY = 4
_MAX_SEARCHED = 1 << 18
_LONG_KEY = r"""(?a)(?<![\w"'-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){""" + f"{_MAX_KEY_PARTS}}}"
_BARE_KEYS = rf"[A-Za-z0-9_-]++(?:\.[A-Za-z0-9_-]++){{0,{_MAX_KEY_PARTS - 1}}}"
_BARE_KEY = r"[A-Za-z0-9_-]+"
_POSITION = r"\(at line (\d+), column \d+\)|\(at end of document\)"
_OPENING = r'"""|\'\'\'|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#.*'


class TomlError(ValueError):
    """The text is not valid TOML; `line` is set if it is known."""

    def __init__(self, message: str, *, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a document into plain values. The error never shows a value."""
    if found := re.search(_LONG_KEY, text):  # the parser needs memory quadratic in the depth of a key
        raise TomlError(f"a key has more than {_MAX_KEY_PARTS} parts", line=text.count("\n", 0, found.start()) + 1)
    import tomllib  # most users have few files of this kind, or none

    try:
        return tomllib.loads(text)
    except RecursionError:
        raise TomlError("lists or tables are nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        position = re.search(_POSITION, message)
        last = text.rstrip().count("\n") + 1
        line = (int(position[1]) if position[1] else last) if position else None
        reason = re.sub(_POSITION, "", message).strip() or "unexpected text"
        raise TomlError(f"is not valid TOML: {reason}", line=line) from None
    except ValueError:
        raise TomlError("is not valid TOML: a number or date is out of range") from None


def parse_key(text: str) -> KeyPath:
    """Split a dotted key, quoted as in TOML: ``providers.openai.models."gpt-5.5".price``."""
    path = _key_of(text)
    if path is None:
        raise ValueError(f"{text!r} is not a key; write it like limits.max_steps, and quote a part that contains a dot")
    return path


def format_key(path: KeyPath) -> str:
    """A key path as TOML writes it."""
    return ".".join(part if re.fullmatch(_BARE_KEY, part) else _quoted(part) for part in path)


class KeyLines:
    """The line of each key in a text. Best effort, for messages."""

    def __init__(self, text: str) -> None:
        self._lines: dict[KeyPath, int] = {}
        if len(text) <= _MAX_SEARCHED:
            for key, line in _keys_with_lines(text):
                self._lines.setdefault(key, line)

    def of(self, path: KeyPath) -> int | None:
        """The line of a key, or of its nearest parent in the text, or of the first key in it."""
        for size in range(len(path), 0, -1):
            if (line := self._lines.get(path[:size])) is not None:
                return line
        return next((line for key, line in self._lines.items() if key[: len(path)] == path), None)


def _keys_with_lines(text: str) -> Iterator[tuple[KeyPath, int]]:
    table: KeyPath = ()
    closing = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if closing:
            closing = "" if closing in line else closing
            continue
        stripped = line.strip()[:_MAX_KEY_LENGTH]
        if stripped.startswith("["):
            if (header := _header_of(stripped)) is not None:
                table = header
                yield header, number
        elif (key := _key_before_equals(stripped)) is not None:
            yield table + key, number
        closing = _left_open(line)


def _header_of(line: str) -> KeyPath | None:
    inner = line.split("#", 1)[0].strip() if '"' not in line and "'" not in line else line
    return _key_of(inner.strip().lstrip("[").rstrip("]"))


def _key_before_equals(line: str) -> KeyPath | None:
    end = line.find("=")
    for _ in range(_MAX_EQUALS_IN_KEY):
        if end < 0:
            return None
        if (key := _key_of(line[:end])) is not None:
            return key
        end = line.find("=", end + 1)
    return None


def _key_of(text: str) -> KeyPath | None:
    text = text.strip()
    if re.fullmatch(_BARE_KEYS, text):
        return tuple(text.split("."))
    if not text or text.startswith("#") or "\n" in text or re.search(_LONG_KEY, text):
        return None
    import tomllib

    try:
        found: Any = tomllib.loads(f"{text} = 0")
    except (ValueError, RecursionError):
        return None
    path = []
    while isinstance(found, dict):
        if len(found) != 1:
            return None
        [(part, found)] = found.items()
        path.append(part)
    return tuple(path) if found == 0 else None


def _left_open(line: str) -> str:
    """The quotes of a multi-line string that this line opens and does not close."""
    if '"""' not in line and "'''" not in line:
        return ""
    position, opening = 0, re.compile(_OPENING)
    while found := opening.search(line, position):
        quotes = found[0]
        position = found.end()
        if quotes in ('"""', "'''"):
            end = line.find(quotes, position)
            if end < 0:
                return quotes
            position = end + len(quotes)
    return ""


def _quoted(part: str) -> str:
    escaped = part.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda found: f"\\u{ord(found[0]):04x}", escaped) + '"'
