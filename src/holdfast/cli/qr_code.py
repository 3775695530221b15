"""A QR code for the terminal, by `segno` of the extra ``holdfast[web]``."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

_HALVES = {(False, False): " ", (True, False): "▀", (False, True): "▄", (True, True): "█"}
_BORDER = 2


def qr_lines(text: str) -> list[str] | None:
    """The lines of a QR code, dark on light whatever the terminal's colours; ``None`` without the library."""
    if find_spec("segno") is None:
        return None
    code = import_module("segno").make_qr(text, error="l")
    return [f"\x1b[30;107m{line}\x1b[0m" for line in half_blocks(code.matrix)]


def half_blocks(matrix: Sequence[Sequence[int]]) -> list[str]:
    """Two rows of modules per line of text, with a border. Pure."""
    width = len(matrix[0]) + 2 * _BORDER
    side, edge = [False] * _BORDER, [[False] * width for _ in range(_BORDER)]
    rows = [*edge, *([*side, *map(bool, row), *side] for row in matrix), *edge]
    if len(rows) % 2:
        rows.append([False] * width)
    return [
        "".join(_HALVES[upper, lower] for upper, lower in zip(rows[n], rows[n + 1], strict=True))
        for n in range(0, len(rows), 2)
    ]
