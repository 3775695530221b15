"""Markdown as rows, and text that is still being written.

The source is split into top-level blocks. A block is made into rows once, when the next one starts; only the last one
is made again while it grows. An open code fence is plain and gets its colours when it closes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from rich.style import Style

from holdfast.tui.transcript.cells import clean, expand_tabs, width_of
from holdfast.tui.transcript.code_rows import code_rows, plain_rows, target_style, with_targets
from holdfast.tui.transcript.palette import Palette
from holdfast.tui.transcript.rows import (
    BLANK,
    JoinedRows,
    Row,
    RowSource,
    StaticRows,
    StyledRun,
    decoration,
    make_row,
    wrap_runs,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

_FENCE: Final = re.compile(r" {0,3}(?P<mark>`{3,}|~{3,})(?P<info>[^`]*)$")
_LARGEST_TAIL = 4_000
"""Characters of an open block that are shown as Markdown. A longer one is plain until it is complete."""


def split_blocks(source: str) -> Iterator[tuple[int, int, bool]]:
    """Start, end and completeness of the top-level blocks. The last one may still grow."""
    start = position = 0
    fence: str | None = None
    seen_text = False
    last_blank = False
    for line in source.splitlines(keepends=True):
        complete = line.endswith("\n")
        text = line.rstrip("\r\n")
        end = position + len(line)
        if fence is not None:
            stripped = text.strip()
            if complete and len(stripped) >= len(fence) and set(stripped) == {fence[0]}:
                fence = None
                yield start, end, True
                start, seen_text, last_blank = end, False, False
            position = end
            continue
        opening = _FENCE.match(text)
        if opening and complete:
            if seen_text:
                yield start, position, True
            start, seen_text, fence = position, True, opening["mark"]
        elif not text.strip():
            last_blank = seen_text
        else:
            if last_blank and not text.startswith((" ", "\t")) and complete:
                yield start, position, True
                start = position
            seen_text, last_blank = True, False
        position = end
    if start < len(source) and source[start:].strip():
        yield start, len(source), False


class MarkdownRows:
    """The rows of a text that may grow. `update` makes only what is new."""

    def __init__(self, width: int, palette: Palette, *, indent: StyledRun) -> None:
        self._width = width
        self._palette = palette
        self._indent = indent
        self._committed: list[RowSource] = []
        self._source = ""
        """The source of the committed blocks."""
        self.rows: RowSource = StaticRows(())

    def update(self, text: str, *, is_open: bool) -> None:
        if not text.startswith(self._source):
            self._committed, self._source = [], ""
        base = len(self._source)
        tail: RowSource | None = None
        end_of_committed = base
        for start, end, complete in split_blocks(text[base:]):
            source = text[base + start : base + end]
            if complete or not is_open:
                self._add(self._committed, self._complete(source))
                end_of_committed = base + end
            else:
                tail = self._unfinished(source)
        self._source = text[:end_of_committed]
        parts = list(self._committed)
        if tail is not None:
            self._add(parts, tail)
        self.rows = JoinedRows(parts)

    def _add(self, parts: list[RowSource], rows: RowSource) -> None:
        if rows.height:
            if parts:
                parts.append(StaticRows((BLANK,)))
            parts.append(rows)

    def _complete(self, source: str) -> RowSource:
        return JoinedRows(markdown_rows(source, self._width, self._palette, indent=self._indent))

    def _unfinished(self, source: str) -> RowSource:
        first, _, rest = source.lstrip("\n").partition("\n")
        if _FENCE.match(first):
            deeper = (self._indent[0] + "  ", self._indent[1])
            return plain_rows(rest, self._width, self._palette.text, indent=deeper)
        if len(source) <= _LARGEST_TAIL:
            return self._complete(source)
        return plain_rows(source.strip("\n"), self._width, self._palette.text, indent=self._indent)


def markdown_rows(source: str, width: int, palette: Palette, *, indent: StyledRun) -> list[RowSource]:
    """The rows of complete Markdown, with blank lines between its blocks."""
    from markdown_it.tree import SyntaxTreeNode

    tree = SyntaxTreeNode(_parser().parse(source))
    return _Renderer(width, palette).blocks(tree.children, (indent,), (indent,), spaced=True)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


class _Renderer:
    def __init__(self, width: int, palette: Palette) -> None:
        self._width = width
        self._palette = palette

    def blocks(
        self,
        nodes: Sequence[SyntaxTreeNode],
        first: tuple[StyledRun, ...],
        following: tuple[StyledRun, ...],
        *,
        spaced: bool,
    ) -> list[RowSource]:
        """``first`` is the decoration of the first row, ``following`` of all others."""
        found: list[RowSource] = []
        for node in nodes:
            rows = self._block(node, following if found else first, following)
            if rows.height:
                if found and spaced:
                    found.append(StaticRows((decoration(*following) if following else BLANK,)))
                found.append(rows)
        return found

    def _block(self, node: SyntaxTreeNode, first: tuple[StyledRun, ...], following: tuple[StyledRun, ...]) -> RowSource:
        palette = self._palette
        match node.type:
            case "heading":
                style = palette.accent + Style(bold=True) if node.tag in ("h1", "h2") else palette.strong
                return StaticRows(self._wrapped(self._inline(node, style), first, following))
            case "paragraph":
                return StaticRows(self._wrapped(self._inline(node, palette.text), first, following))
            case "fence" | "code_block":
                language = node.info.split()[0] if node.info.split() else ""
                return code_rows(node.content, language, self._width, palette, indent=_merged(following, "  "))
            case "bullet_list" | "ordered_list":
                return self._list(node, first, following)
            case "blockquote":
                bar: StyledRun = ("│ ", palette.dim)
                return JoinedRows(self.blocks(node.children, (*first, bar), (*following, bar), spaced=True))
            case "hr":
                rule = "─" * max(min(self._width - _width(first), 40), 1)
                return StaticRows((decoration(*first, (rule, palette.dim)),))
            case "table":
                return self._table(node, first, following)
            case _:
                return plain_rows(node.content or "", self._width, palette.text, indent=_merged(following, ""))

    def _list(self, node: SyntaxTreeNode, first: tuple[StyledRun, ...], following: tuple[StyledRun, ...]) -> RowSource:
        start = node.attrs.get("start", 1)
        number = int(start) if isinstance(start, int | str) and str(start).isdigit() else 1
        rows: list[RowSource] = []
        for offset, item in enumerate(node.children):
            mark = f"{number + offset}. " if node.type == "ordered_list" else "• "
            blank: StyledRun = (" " * len(mark), self._palette.dim)
            start_of_row = following if rows else first
            rows += self.blocks(
                item.children, (*start_of_row, (mark, self._palette.dim)), (*following, blank), spaced=False
            )
        return JoinedRows(rows)

    def _table(self, node: SyntaxTreeNode, first: tuple[StyledRun, ...], following: tuple[StyledRun, ...]) -> RowSource:
        """Columns as wide as their content. A table that does not fit is shown as one paragraph per cell."""
        lines = [row for part in node.children for row in part.children]
        cells = [[self._inline(cell, self._palette.text) for cell in row.children] for row in lines]
        sizes = [
            max((width_of(_plain(row[column])) for row in cells if column < len(row)), default=0)
            for column in range(max((len(row) for row in cells), default=0))
        ]
        rows: list[RowSource] = []
        if sum(sizes) + 2 * len(sizes) + _width(first) > self._width:
            for row in cells[1:]:
                for head, cell in zip(cells[0], row, strict=False):
                    named = [(f"{_plain(head)}: ", self._palette.dim), *cell]
                    rows.append(StaticRows(self._wrapped(named, following if rows else first, following)))
            return JoinedRows(rows)
        for number, row in enumerate(cells):
            runs: list[StyledRun] = []
            for size, cell in zip(sizes, row, strict=False):
                styled = [(text, self._palette.strong if number == 0 else style) for text, style in cell]
                runs += [*styled, (" " * (size - width_of(_plain(cell)) + 2), self._palette.text)]
            rows.append(StaticRows((make_row(runs, prefix=following if rows else first),)))
            if number == 0:
                rule = "─" * max(sum(sizes) + 2 * (len(sizes) - 1), 1)
                rows.append(StaticRows((decoration(*following, (rule, self._palette.dim)),)))
        return JoinedRows(rows)

    def _wrapped(
        self, runs: Sequence[StyledRun], first: tuple[StyledRun, ...], following: tuple[StyledRun, ...]
    ) -> list[Row]:
        rows: list[Row] = []
        for line in _lines(runs):
            rows += wrap_runs(line, self._width, first=following if rows else first, following=following)
        return rows

    def _inline(self, node: SyntaxTreeNode, style: Style) -> list[StyledRun]:
        runs: list[StyledRun] = []
        for child in node.children:
            match child.type:
                case "inline" | "em" | "strong" | "s":
                    runs += self._inline(child, style + _EMPHASIS[child.type])
                case "text":
                    runs += with_targets(_safe(child.content), style, self._palette)
                case "code_inline":
                    text = _safe(child.content)
                    runs += with_targets(text, style + self._palette.code, self._palette)
                case "link":
                    href = str(child.attrs.get("href", ""))
                    inner = self._inline(child, style + self._palette.link)
                    runs += [(text, target_style(href, run_style)) for text, run_style in inner]
                case "image":
                    runs.append((f"[{_safe(child.content) or 'image'}]", style + self._palette.dim))
                case "softbreak":
                    runs.append((" ", style))
                case "hardbreak":
                    runs.append(("\n", style))
                case _:
                    runs.append((_safe(child.content or ""), style))
        return runs


_EMPHASIS = {"inline": Style(), "em": Style(italic=True), "strong": Style(bold=True), "s": Style(strike=True)}


def _safe(text: str) -> str:
    return expand_tabs(clean(text.replace("\n", " ")))


def _plain(runs: Sequence[StyledRun]) -> str:
    return "".join(text for text, _ in runs)


def _width(runs: Sequence[StyledRun]) -> int:
    return sum(width_of(text) for text, _ in runs)


def _merged(runs: Sequence[StyledRun], more: str) -> StyledRun:
    style = runs[-1][1] if runs else Style()
    return _plain(runs) + more, style


def _lines(runs: Sequence[StyledRun]) -> Iterator[list[StyledRun]]:
    line: list[StyledRun] = []
    for text, style in runs:
        if text == "\n":
            yield line
            line = []
        else:
            line.append((text, style))
    yield line
