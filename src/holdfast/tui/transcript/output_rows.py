"""The output of commands as rows: text with its ANSI colours, never as markup."""

from __future__ import annotations

import re
from typing import Final

from rich.color import Color
from rich.style import Style

from holdfast.tui.transcript.cells import clean, expand_tabs
from holdfast.tui.transcript.code_rows import with_targets
from holdfast.tui.transcript.palette import Palette
from holdfast.tui.transcript.rows import LineRows, StyledRun

_SEQUENCE: Final = re.compile(
    r"\x1b\[(?P<sgr>[0-9;:]*)m"
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # other control sequences
    r"|\x1b[\]PX^_].*?(?:\x1b\\|\x07|$)"  # commands for the terminal, such as its title
    r"|\x1b[@-Z\\-_]"
)
_ATTRIBUTES: Final = {
    1: Style(bold=True),
    2: Style(dim=True),
    3: Style(italic=True),
    4: Style(underline=True),
    7: Style(reverse=True),
    9: Style(strike=True),
    22: Style(bold=False, dim=False),
    23: Style(italic=False),
    24: Style(underline=False),
    27: Style(reverse=False),
    29: Style(strike=False),
    39: Style(color="default"),
    49: Style(bgcolor="default"),
}


class AnsiStyle:
    """The style that colour sequences have set so far."""

    def __init__(self, base: Style) -> None:
        self._base = base
        self.style = base

    def apply(self, parameters: str) -> None:
        """Apply the numbers of one sequence. Unknown numbers are ignored."""
        codes = [int(code) if code.isdigit() and len(code) < 6 else 0 for code in re.split("[;:]", parameters)]
        position = 0
        while position < len(codes):
            code = codes[position]
            position += 1
            if code == 0:
                self.style = self._base
            elif code in _ATTRIBUTES:
                self.style += _ATTRIBUTES[code]
            elif 30 <= code <= 37 or 90 <= code <= 97:
                self.style += Style(color=Color.from_ansi(code - 30 if code < 90 else code - 82))
            elif 40 <= code <= 47 or 100 <= code <= 107:
                self.style += Style(bgcolor=Color.from_ansi(code - 40 if code < 100 else code - 92))
            elif code in (38, 48):
                color, used = _extended(codes[position : position + 4])
                position += used
                if color is not None:
                    self.style += Style(color=color) if code == 38 else Style(bgcolor=color)


def _extended(codes: list[int]) -> tuple[Color | None, int]:
    match codes:
        case [5, number, *_]:
            return (Color.from_ansi(number), 2) if number < 256 else (None, 2)
        case [2, red, green, blue, *_]:
            return (Color.from_rgb(red, green, blue), 4) if max(red, green, blue) < 256 else (None, 4)
        case _:
            return None, len(codes)


def _parse_line(line: str, state: AnsiStyle) -> list[StyledRun]:
    runs: list[StyledRun] = []
    position = 0
    for found in _SEQUENCE.finditer(line):
        runs.append((line[position : found.start()], state.style))
        if found["sgr"] is not None:
            state.apply(found["sgr"])
        position = found.end()
    runs.append((line[position:], state.style))
    return [(expand_tabs(clean(text), size=8), style) for text, style in runs if text]


def visible_lines(text: str) -> list[str]:
    """The lines as a terminal would leave them: of a line that was overwritten, the last version."""
    lines = text.split("\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    if "\r" in text:
        lines = [line.rstrip("\r").rpartition("\r")[2] for line in lines]
    return lines


def output_rows(text: str, width: int, palette: Palette, *, indent: StyledRun, last: int | None = None) -> LineRows:
    """The output, or only its last lines."""
    lines = visible_lines(text)
    if last is not None:
        lines = lines[-last:]
    coloured: dict[int, list[StyledRun]] = {}
    if "\x1b" in text:
        state = AnsiStyle(palette.text)
        for number, line in enumerate(lines):
            if "\x1b" in line or state.style != palette.text:
                runs = _parse_line(line, state)
                coloured[number] = runs
                lines[number] = "".join(part for part, _ in runs)
    lines = [line if number in coloured else expand_tabs(clean(line), size=8) for number, line in enumerate(lines)]

    def styled(number: int, line: str) -> list[StyledRun]:
        found = coloured.get(number)
        return with_targets(line, palette.text, palette) if found is None else found

    return LineRows(lines, width, make=styled, indent=indent)
