"""Glob patterns as regular expressions without exponential backtracking. Pure.

``*`` and ``?`` match within a name, ``**`` matches directories, ``[…]`` is a set, ``{a,b}`` are alternatives. Between
two stars the first match is always sufficient, so the groups are atomic.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.errors import ToolError

_MAX_ALTERNATIVES = 256
_STAR = "*"
_ANY_DIRECTORIES = "(?:[^/]+/)*"


def compile_glob(pattern: str) -> re.Pattern[str]:
    """Compile a pattern for paths relative to the searched directory. Without a slash it matches at any depth."""
    pattern = pattern.removeprefix("./")
    if not pattern:
        raise ToolError("the pattern is empty; pass one such as '**/*.py'")
    alternatives = [one if "/" in one else f"**/{one}" for one in expand_braces(pattern)]
    try:
        return re.compile("|".join(map(translate, alternatives)), re.DOTALL)
    except re.error as error:
        raise ToolError(f"the pattern {pattern!r} is invalid: {error}") from error


def translate(pattern: str) -> str:
    """Return the regular expression of a pattern without braces, for `re.fullmatch` of a whole path."""
    groups: list[list[str]] = [[]]
    segments = pattern.split("/")
    for segment in segments:
        if segment == "**":
            groups.append([])
        else:
            groups[-1].append(_segment(segment))
    first, *rest = ["/".join(group) for group in groups]
    if not rest:
        return f"(?:{first})"
    open_end = segments[-1] == "**"
    middle, last = rest[:-1], rest[-1]
    parts = [f"{first}/" if first else ""]
    parts += [f"(?>{_ANY_DIRECTORIES[:-1]}*?{group}/)" for group in middle if group]
    parts.append(".+" if open_end else f"{_ANY_DIRECTORIES}{last}")
    return f"(?:{''.join(parts)})"


def expand_braces(pattern: str) -> list[str]:
    """Expand ``a{b,c}`` to ``ab`` and ``ac``, also nested. An unpaired brace is literal."""
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        current = waiting.pop()
        found = _first_braces(current)
        if found is None:
            done.append(current)
        else:
            start, stop, choices = found
            waiting += [current[:start] + choice + current[stop:] for choice in reversed(choices)]
        if len(done) + len(waiting) > _MAX_ALTERNATIVES:
            raise ToolError(f"the pattern {pattern!r} has too many alternatives (more than {_MAX_ALTERNATIVES})")
    return list(dict.fromkeys(done))


def _first_braces(pattern: str) -> tuple[int, int, list[str]] | None:
    """Return start, end and alternatives of the first complete pair of braces with a comma."""
    start = pattern.find("{")
    while start >= 0:
        depth, pieces, piece_start = 0, [], start + 1
        for position in range(start, len(pattern)):
            character = pattern[position]
            depth += (character == "{") - (character == "}")
            if character == "," and depth == 1:
                pieces.append(pattern[piece_start:position])
                piece_start = position + 1
            elif depth == 0:
                if pieces:
                    return start, position + 1, [*pieces, pattern[piece_start:position]]
                break
        start = pattern.find("{", start + 1)
    return None


def _segment(segment: str) -> str:
    chunks: list[list[str]] = [[]]
    for token in _tokens(segment):
        if token == _STAR:
            chunks.append([])
        else:
            chunks[-1].append(token)
    first, *rest = ["".join(chunk) for chunk in chunks]
    if not rest:
        return first
    middle = "".join(f"(?>[^/]*?{chunk})" for chunk in rest[:-1] if chunk)
    return f"{first}{middle}[^/]*{rest[-1]}" if first or middle or rest[-1] else "[^/]+"


def _tokens(segment: str) -> Iterator[str]:
    """Yield stars, and expressions that match one character each."""
    position = 0
    while position < len(segment):
        character = segment[position]
        position += 1
        if character == "*":
            yield _STAR
        elif character == "?":
            yield "[^/]"
        elif character == "\\" and position < len(segment):
            yield re.escape(segment[position])
            position += 1
        elif character == "[" and (found := _set(segment, position)):
            expression, position = found
            yield expression
        else:
            yield re.escape(character)


def _set(segment: str, position: int) -> tuple[str, int] | None:
    """Parse a ``[…]`` whose content starts at the position. None if it is not closed; the bracket is then literal."""
    start = position
    negated = segment[position : position + 1] in ("!", "^")
    position += negated
    members: list[str] = []
    while position < len(segment):
        character = segment[position]
        if character == "]" and position > start + negated:
            body = "".join(members)
            return (f"[^/{body}]" if negated else f"(?!/)[{body}]"), position + 1
        if character == "\\" and position + 1 < len(segment):
            position += 1
            members.append(re.escape(segment[position]))
        elif character == "-" and members and segment[position + 1 : position + 2] not in ("", "]"):
            members.append("-")
        else:
            members.append(re.escape(character))
        position += 1
    return None
