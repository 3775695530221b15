"""Text as terminal cells: control characters made visible, tabs expanded, lines broken at a width. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from rich.cells import cell_len

_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
"""Everything that a terminal might obey or that hides text, except newline and tab."""

_FAST_BREAK = 20_000
"""Longer lines are broken at the width, not at words."""


def clean(text: str) -> str:
    """Make control characters and characters that change the direction of text visible."""
    return _CONTROL.sub(_visible, text) if not _is_plain(text) else text


def _is_plain(text: str) -> bool:
    return text.isprintable() and _CONTROL.search(text) is None


def _visible(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    return f"⟨{code:X}⟩"


def expand_tabs(text: str, *, size: int = 4) -> str:
    """Replace tabs by blanks up to the next tab stop, counted in cells."""
    if "\t" not in text:
        return text
    parts = text.split("\t")
    line, column = [parts[0]], width_of(parts[0])
    for part in parts[1:]:
        blanks = size - column % size
        line += [" " * blanks, part]
        column += blanks + width_of(part)
    return "".join(line)


def width_of(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)


@lru_cache(maxsize=4096)
def _char_width(char: str) -> int:
    return cell_len(char)


def break_line(text: str, width: int) -> list[tuple[int, int]]:
    """Where a line is broken so that each piece fits the width: between words if possible. Blanks at a break go."""
    width = max(width, 1)
    if width_of(text) <= width:
        return [(0, len(text))]
    if text.isascii():
        if len(text) > _FAST_BREAK:
            return [(start, min(start + width, len(text))) for start in range(0, len(text), width)]
        return _break_ascii(text, width)
    return _break_wide(text, width)


def _break_ascii(text: str, width: int) -> list[tuple[int, int]]:
    pieces, start = [], 0
    while len(text) - start > width:
        blank = text.rfind(" ", start + 1, start + width + 1)
        if blank > start and text[start:blank].strip():
            pieces.append((start, blank))
            start = blank + 1
        else:
            pieces.append((start, start + width))
            start += width
    pieces.append((start, len(text)))
    return pieces


def _break_wide(text: str, width: int) -> list[tuple[int, int]]:
    pieces, start, column, blank, joined = [], 0, 0, -1, False
    for index, char in enumerate(text):
        size = 0 if joined else _char_width(char)
        joined = char == "\u200d"
        if column + size > width and index > start:
            if char == " ":
                end = following = index
            elif blank > start:
                end, following = blank, blank + 1
            else:
                end = following = index
            pieces.append((start, end))
            start, blank = following, -1
            column = width_of(text[start:index])
        if char == " ":
            if index == start and pieces:
                start = index + 1
                continue
            blank = index
        column += size
    pieces.append((start, len(text)))
    return [piece for piece in pieces if piece[0] <= piece[1]]


def shorten(text: str, width: int) -> str:
    """The text on one line, cut at the width."""
    return cut(" ".join(text.split()), width)


def cut(line: str, width: int) -> str:
    """A line, cut at the width."""
    if width_of(line) <= width:
        return line
    pieces = []
    column = 0
    for char in line:
        column += _char_width(char)
        if column > width - 1:
            break
        pieces.append(char)
    return "".join(pieces) + "…" if width > 0 else ""
