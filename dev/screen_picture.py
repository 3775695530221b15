"""Draw the cells of a terminal as an SVG picture. Pure, and the same for the same cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import TerminalTheme

CELL_WIDTH, LINE_HEIGHT = 8.4, 19
_MARGIN, _BAR = 12, 30
_BUTTONS = ("#e0706c", "#e0a458", "#7fb27f")


def _rgb(number: int) -> tuple[int, int, int]:
    return number >> 16, number >> 8 & 255, number & 255


def _terminal_theme(background: int, foreground: int) -> TerminalTheme:
    normal = (0x1C1F26, 0xD0605E, 0x6FA86F, 0xD09A50, 0x5F8FCB, 0xB07CC6, 0x4FA8A8, 0xC8CDD6)
    bright = (0x6B7280, 0xE88A87, 0x93C993, 0xE8BB77, 0x8BB4E8, 0xCFA3E0, 0x7CCFCF, 0xF4F6F8)
    return TerminalTheme(_rgb(background), _rgb(foreground), [_rgb(c) for c in normal], [_rgb(c) for c in bright])


DARK_TERMINAL = _terminal_theme(0x14171C, 0xD5D9E0)
LIGHT_TERMINAL = _terminal_theme(0xFBFBFA, 0x20252D)


class Run(NamedTuple):
    """Neighbouring cells of one style."""

    column: int
    cells: int
    text: str
    style: Style


def runs_of(segments: Iterable[Segment]) -> list[Run]:
    runs: list[Run] = []
    column = 0
    for text, style, control in segments:
        if control or not text:
            continue
        own, cells = style or Style(), cell_len(text)
        if runs and runs[-1].style == own:
            last = runs.pop()
            runs.append(Run(last.column, last.cells + cells, last.text + text, own))
        else:
            runs.append(Run(column, cells, text, own))
        column += cells
    return runs


def draw_screen(
    rows: Sequence[Iterable[Segment]], *, columns: int, title: str, theme: TerminalTheme = DARK_TERMINAL
) -> str:
    """The picture of a terminal with these rows."""
    width, height = round(columns * CELL_WIDTH + 2 * _MARGIN), len(rows) * LINE_HEIGHT + _BAR + _MARGIN
    background = theme.background_color.hex
    body: list[str] = []
    for number, row in enumerate(rows):
        body += _draw_row(runs_of(row), _BAR + number * LINE_HEIGHT, theme)
    buttons = [f'<circle cx="{18 + 18 * n}" cy="15" r="5" fill="{fill}"/>' for n, fill in enumerate(_BUTTONS)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img" xml:space="preserve">',
            f"<title>{escape(title)}</title>",
            "<style>text { font: 14px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; "
            "white-space: pre; }</style>",
            f'<rect width="{width}" height="{height}" rx="9" fill="{background}"/>',
            *buttons,
            *body,
            "</svg>",
            "",
        ]
    )


def _draw_row(runs: list[Run], top: float, theme: TerminalTheme) -> list[str]:
    rectangles, texts = [], []
    for run in runs:
        foreground, background = _colours(run.style, theme)
        x, width = _MARGIN + run.column * CELL_WIDTH, run.cells * CELL_WIDTH
        if background != theme.background_color.hex:
            place = f'x="{x:.1f}" y="{top:.0f}" width="{width + 0.2:.1f}" height="{LINE_HEIGHT}"'
            rectangles.append(f'<rect {place} fill="{background}"/>')
        if run.text.strip() or run.style.underline:
            texts.append(_draw_text(run, x, top, foreground))
    return [*rectangles, *texts]


def _draw_text(run: Run, x: float, top: float, foreground: str) -> str:
    text = run.text.rstrip() if not run.style.underline else run.text
    indent = len(text) - len(text.lstrip(" "))
    x += indent * CELL_WIDTH
    text = text[indent:]
    marks = []
    if run.style.bold:
        marks.append("font-weight:bold")
    if run.style.italic:
        marks.append("font-style:italic")
    if run.style.underline:
        marks.append("text-decoration:underline")
    if run.style.strike:
        marks.append("text-decoration:line-through")
    style = f' style="{";".join(marks)}"' if marks else ""
    length = f' textLength="{cell_len(text) * CELL_WIDTH:.1f}" lengthAdjust="spacingAndGlyphs"'
    shown = escape(text).replace("  ", " \u00a0")
    return f'<text x="{x:.1f}" y="{top + LINE_HEIGHT - 5:.0f}" fill="{foreground}"{style}{length}>{shown}</text>'


def _colours(style: Style, theme: TerminalTheme) -> tuple[str, str]:
    foreground = _hex(style.color, theme, foreground=True)
    background = _hex(style.bgcolor, theme, foreground=False)
    if style.reverse:
        foreground, background = background, foreground
    if style.dim:
        foreground = _blend(foreground, background)
    return foreground, background


def _hex(color: Color | None, theme: TerminalTheme, *, foreground: bool) -> str:
    if color is None:
        return (theme.foreground_color if foreground else theme.background_color).hex
    return color.get_truecolor(theme, foreground=foreground).hex


def _blend(first: str, second: str) -> str:
    channels = ((int(first[n : n + 2], 16) * 3 + int(second[n : n + 2], 16) * 2) // 5 for n in (1, 3, 5))
    return "#" + "".join(f"{channel:02x}" for channel in channels)


def lines_of(svg: str) -> list[str]:
    """The text of a picture, line by line, for messages about differences."""
    from xml.etree import ElementTree

    lines: dict[str, list[tuple[float, str]]] = {}
    for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        text = "".join(element.itertext()).replace("\u00a0", " ")
        lines.setdefault(element.get("y", ""), []).append((float(element.get("x", "0")), text))
    found = []
    for _, parts in sorted(lines.items(), key=lambda item: float(item[0])):
        line = ""
        for x, text in sorted(parts):
            column = round((x - _MARGIN) / CELL_WIDTH)
            line += " " * (column - cell_len(line)) + text
        found.append(line)
    return found
