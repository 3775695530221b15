"""Highlighted source code as styled lines."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from rich.style import Style

from holdfast.tui.transcript.cells import clean, expand_tabs
from holdfast.tui.transcript.palette import Palette
from holdfast.tui.transcript.rows import LineRows, StyledRun

_LARGEST = 200_000
"""Characters of code that are highlighted. Longer code is plain."""

_COMMON_LANGUAGES = ("python", "bash")
"""Those that are loaded in advance. The rules of another language take at most 20 ms when they are first needed."""

TARGETS: Final = re.compile(
    r"""(?P<url>https?://[^\s<>"'`\])}]*[^\s<>"'`\])}.,;:!?])
      | (?P<place>(?<![\w/.@~-])(?:~|\.{1,2})?/?(?:[\w@.+-]+/)*[\w@+-][\w@.+-]*\.\w{1,8}:\d+(?::\d+)?\b)""",
    re.VERBOSE,
)
"""Addresses, and places in files such as ``src/a.py:12``."""


def clean_lines(text: str, *, tab_size: int = 4) -> list[str]:
    """The lines of a text, safe to draw."""
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    lines = text.split("\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    return [expand_tabs(clean(line), size=tab_size) for line in lines]


def with_targets(text: str, style: Style, palette: Palette) -> list[StyledRun]:
    """Plain text in which links and places in files can be clicked."""
    if "://" not in text and ":" not in text:
        return [(text, style)]
    runs: list[StyledRun] = []
    position = 0
    for found in TARGETS.finditer(text):
        runs.append((text[position : found.start()], style))
        runs.append((found[0], target_style(found[0], style + palette.link)))
        position = found.end()
    runs.append((text[position:], style))
    return [run for run in runs if run[0]]


def target_style(target: str, style: Style) -> Style:
    return style + Style.from_meta({"target": target})


def highlight(code: str, language: str, palette: Palette) -> list[list[StyledRun]] | None:
    """The lines of code with colours; ``None`` if the language is unknown or the code too long."""
    lexer = _lexer(language)
    if lexer is None or len(code) > _LARGEST:
        return None
    lines: list[list[StyledRun]] = [[]]
    for kind, value in lexer.get_tokens(code):
        style = _token_style(palette.code_theme, kind) if value.strip() else palette.text
        for number, piece in enumerate(value.split("\n")):
            if number:
                lines.append([])
            if piece:
                lines[-1].append((piece, style))
    while lines and not lines[-1]:
        lines.pop()
    return lines


def prepare_highlighting(palette: Palette) -> None:
    """Load what the first code block needs. It takes 100 ms, so call it in a thread: keys would wait for it later."""
    for language in _COMMON_LANGUAGES:
        highlight("x = 1", language, palette)


@lru_cache(maxsize=64)
def _lexer(language: str) -> Any:
    from rich.syntax import Syntax

    return Syntax("", language).lexer if language else None


@lru_cache(maxsize=1024)
def _token_style(theme: str, kind: Any) -> Style:
    from rich.syntax import Syntax

    style = Syntax.get_theme(theme).get_style_for_token(kind)
    return Style(color=style.color, bold=style.bold, italic=style.italic)


def code_rows(code: str, language: str, width: int, palette: Palette, *, indent: StyledRun) -> LineRows:
    """Code with colours, if the language is known."""
    lines = clean_lines(code)
    coloured = highlight("\n".join(lines), language, palette)

    def styled(number: int, text: str) -> list[StyledRun]:
        if coloured is None or number >= len(coloured):
            return [(text, palette.text)]
        return coloured[number]

    return LineRows(lines, width, make=styled, indent=indent)


def plain_rows(text: str, width: int, style: Style, *, indent: StyledRun) -> LineRows:
    """Text without any colours of its own."""
    return LineRows(clean_lines(text), width, make=lambda _, line: [(line, style)], indent=indent)
