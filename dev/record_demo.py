"""Record `holdfast demo` on a pseudo-terminal and draw it as docs/demo.svg: ``python -m dev.record_demo``.

The picture is animated with CSS; a reader who prefers reduced motion sees the whole session at once.
"""

from __future__ import annotations

import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

TARGET = Path(__file__).parents[1] / "docs" / "demo.svg"
COLUMNS, ROWS = 100, 60
SHORTEST_PAUSE, LONGEST_PAUSE = 0.15, 0.9
SLOWER = 2.5
"""How much slower the picture plays than the demo ran."""

_CELL_WIDTH, _LINE_HEIGHT, _MARGIN, _BAR = 8.4, 19, 18, 34
_TOKENS = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")
_COLOURS = {"31": "#f07178", "32": "#9ece6a", "33": "#e0af68", "36": "#7dcfff"}


class Span(NamedTuple):
    text: str
    style: str


class Line:
    """A row of the terminal, and the time of its first text."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.at = 0.0

    def write(self, text: str, style: str, at: float) -> None:
        if not self.text.strip():
            self.at = at
        if self.spans and self.spans[-1].style == style:
            text = self.spans.pop().text + text
        self.spans.append(Span(text, style))

    def clear(self) -> None:
        self.spans = []

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)


def record() -> Iterator[tuple[float, str]]:
    """The time and text of each write of the demo."""
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    env.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "demo"], stdin=slave, stdout=slave, stderr=slave, env=env
    )
    os.close(slave)
    began = time.monotonic()
    try:
        while text := _read(master):
            yield time.monotonic() - began, text
    finally:
        os.close(master)
        if process.wait(60) != 0:
            raise SystemExit(f"the demo failed with status {process.returncode}")


def _read(master: int) -> str:
    try:
        return os.read(master, 65536).decode("utf-8", "replace")
    except OSError:  # the other side is closed
        return ""


def parse_lines(pieces: Iterator[tuple[float, str]]) -> list[Line]:
    """The final screen. Handles what the demo uses: colours, carriage return, clear line."""
    lines, style = [Line()], ""
    for at, piece in pieces:
        for codes, command, move, text in _TOKENS.findall(piece):
            if command == "m":
                style = _style(codes, style)
            elif command == "K" or move == "\r":
                if command == "K":
                    lines[-1].clear()
            elif move == "\n":
                lines.append(Line())
            elif text:
                lines[-1].write(text, style, at)
    return list(_wrap(_strip_blank_lines(lines)))


def _style(codes: str, style: str) -> str:
    if codes in ("", "0"):
        return ""
    if codes == "1":
        return "font-weight:bold"
    if codes == "2":
        return "opacity:.6"
    return f"fill:{_COLOURS[codes]}" if codes in _COLOURS else style


def _strip_blank_lines(lines: list[Line]) -> list[Line]:
    while lines and not lines[0].text.strip():
        lines.pop(0)
    while lines and not lines[-1].text.strip():
        lines.pop()
    return lines


def _wrap(lines: list[Line]) -> Iterator[Line]:
    """The lines, wrapped at the width of the terminal."""
    for line in lines:
        rest = line
        while len(rest.text) > COLUMNS:
            head, tail = Line(), Line()
            head.at = tail.at = rest.at
            left = COLUMNS
            for span in rest.spans:
                if span.text[:left]:
                    head.spans.append(Span(span.text[:left], span.style))
                if span.text[left:]:
                    tail.spans.append(Span(span.text[left:], span.style))
                left = max(left - len(span.text), 0)
            yield head
            rest = tail
        yield rest


def schedule(lines: list[Line]) -> list[float]:
    """The time at which each line appears: as recorded, with long pauses shortened."""
    times, now, before = [], 0.3, 0.0
    for line in lines:
        if line.text.strip():
            now += min(max((line.at - before) * SLOWER, SHORTEST_PAUSE), LONGEST_PAUSE)
            before = max(before, line.at)
        times.append(now)
    return times


def draw(lines: list[Line]) -> str:
    width = round(COLUMNS * _CELL_WIDTH + 2 * _MARGIN)
    height = len(lines) * _LINE_HEIGHT + 2 * _MARGIN + _BAR
    rows = [
        f'<text x="{_MARGIN}" y="{_BAR + _MARGIN + (number + 1) * _LINE_HEIGHT - 5}" '
        f'style="animation-delay:{at:.2f}s">{_tspans(line)}</text>'
        for number, (line, at) in enumerate(zip(lines, schedule(lines), strict=True))
        if line.text.strip()
    ]
    buttons = [f'<circle cx="{20 + 20 * n}" cy="17" r="6" fill="{fill}"/>' for n, fill in enumerate(_BUTTONS)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img" xml:space="preserve">',
            "<title>holdfast demo, recorded</title>",
            "<style>",
            "text { font: 14px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #c8d0e0;",
            "       white-space: pre; animation: appear .01s backwards; }",
            "@keyframes appear { from { visibility: hidden; } }",
            "@media (prefers-reduced-motion: reduce) { text { animation: none; } }",
            "</style>",
            f'<rect width="{width}" height="{height}" rx="10" fill="#16181f"/>',
            *buttons,
            *rows,
            "</svg>",
            "",
        ]
    )


_BUTTONS = ("#f07178", "#e0af68", "#9ece6a")


def _tspans(line: Line) -> str:
    """One tspan per style; leading blanks are kept."""
    parts = []
    for text, style in line.spans:
        shown = escape(text)
        parts.append(f'<tspan style="{style}">{shown}</tspan>' if style else f"<tspan>{shown}</tspan>")
    return "".join(parts).replace("  ", " \u00a0")


def text_of(svg: str) -> list[str]:
    """The lines of a picture, as plain text."""
    from xml.etree import ElementTree

    rows = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return ["".join(row.itertext()).replace("\u00a0", " ") for row in rows]


def main() -> None:
    lines = parse_lines(record())
    TARGET.write_text(draw(lines), encoding="utf-8")
    print(f"{TARGET}: {len(lines)} lines, plays for {schedule(lines)[-1]:.0f} s")


if __name__ == "__main__":
    main()
