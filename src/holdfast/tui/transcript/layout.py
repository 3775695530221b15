"""Where the blocks of a session are: rows of entries that were drawn, estimates for all others.

Only entries that come near the screen are drawn. When an estimate turns out wrong, the place that is being read stays
where it is: it is kept as an entry and a row within it, not as a number of rows from the top.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.client.transcript_fold import TranscriptEntry, TranscriptFold
from holdfast.client.view_values import Block, CallBlock, TextBlock
from holdfast.tui.transcript.block_rows import (
    SPACE,
    DrawContext,
    draw_block,
    estimated_height,
    needs_space_above,
    new_markdown,
)
from holdfast.tui.transcript.markdown_rows import MarkdownRows
from holdfast.tui.transcript.row_heights import RowHeights
from holdfast.tui.transcript.rows import BLANK, Row, RowSource

_KEPT_ENTRIES = 400
"""Drawn entries that are kept. Older ones are drawn again when they are shown again."""


class Anchor(NamedTuple):
    """A place: an entry and a row within it. It stays the same when heights above it change."""

    entry: int
    row: int


class DrawnBlock(NamedTuple):
    block: Block
    rows: RowSource
    start: int
    """The first row within the entry."""


class _DrawnEntry:
    __slots__ = ("blocks", "height", "revision", "seen")

    def __init__(self, blocks: list[DrawnBlock], height: int, revision: tuple[int, int]) -> None:
        self.blocks = blocks
        self.height = height
        self.revision = revision
        self.seen = 0


class TranscriptLayout:
    """The rows of one session at one width."""

    def __init__(self, fold: TranscriptFold, context: DrawContext) -> None:
        self.fold = fold
        self.context = context
        self._layout = -1
        self._heights = RowHeights()
        self._index: dict[int, int] = {}
        """The position of each entry, by its identity."""
        self._placed: list[TranscriptEntry] = []
        """The entries at the last refresh."""
        self._drawn: dict[int, _DrawnEntry] = {}
        self._texts: dict[str, MarkdownRows] = {}
        """Texts that still grow."""
        self._state = 0
        self.refresh()

    @property
    def height(self) -> int:
        return self._heights.total

    @property
    def entries(self) -> list[TranscriptEntry]:
        """The entries at the last `refresh`. The session may have more by now; they have no rows yet."""
        return self._placed

    def refresh(self) -> list[TranscriptEntry] | None:
        """Take over entries that were added, removed or changed.

        Returns the entries as they were if they have other positions now; see `moved`.
        """
        changed = self.fold.take_changed()
        entries = self.fold.entries
        if self._layout != self.fold.layout or len(self._placed) > len(entries):
            self._layout = self.fold.layout
            before, self._placed = self._placed, list(entries)
            self._index = {id(entry): index for index, entry in enumerate(self.entries)}
            self._heights = RowHeights([self._estimate(index) for index in range(len(self.entries))])
            return before
        for index in range(len(self._placed), len(entries)):
            self._index[id(entries[index])] = index
            self._placed.append(entries[index])
            self._heights.append(self._estimate(index))
        for entry in changed:
            if id(entry) in self._index:
                index = self._index[id(entry)]
                self._heights.set(index, self._estimate(index))
        return None

    def moved(self, anchor: Anchor, before: list[TranscriptEntry]) -> Anchor:
        """The same place after entries were added above it."""
        for entry in before[anchor.entry :]:
            if id(entry) in self._index:
                return Anchor(self._index[id(entry)], anchor.row)
        return Anchor(max(len(self.entries) - 1, 0), 0)

    def redraw_all(self, context: DrawContext) -> None:
        """The width or the palette changed."""
        self.context = context
        self._drawn.clear()
        self._texts.clear()
        self._layout = -1
        self.refresh()

    def redraw_states(self) -> None:
        """Something that is not in the blocks changed, such as what is folded."""
        self._state += 1

    def start_of(self, index: int) -> int:
        return self._heights.start_of(index)

    def anchor_at(self, row: int) -> Anchor:
        return Anchor(*self._heights.find(row))

    def row_of(self, anchor: Anchor) -> int:
        """The row of a place now."""
        if not self.entries:
            return 0
        index = min(anchor.entry, len(self.entries) - 1)
        return self._heights.start_of(index) + min(anchor.row, max(self._heights[index] - 1, 0))

    def draw_from(self, anchor: Anchor, rows: int) -> None:
        """Draw the entries that are visible below a place."""
        index, needed = anchor.entry, rows + anchor.row
        while index < len(self.entries) and needed > 0:
            needed -= self._draw(index).height
            index += 1

    def draw_end(self, rows: int) -> None:
        """Draw the last entries, until they fill a screen."""
        index = len(self.entries) - 1
        while index >= 0 and rows > 0:
            rows -= self._draw(index).height
            index -= 1

    def row(self, number: int) -> tuple[Row, Block | None]:
        """A row, and the block that it belongs to."""
        found = self.locate(number)
        return (BLANK, None) if found is None else (found[0].rows.row(found[1]), found[0].block)

    def locate(self, number: int) -> tuple[DrawnBlock, int] | None:
        """The block at a row, and the row within it; ``None`` between blocks.

        As it was last drawn: text that arrived since then would not fit the heights.
        """
        if not 0 <= number < self.height:
            return None
        index, offset = self._heights.find(number)
        drawn = self._drawn.get(id(self.entries[index])) or self._draw(index)
        for found in reversed(drawn.blocks):
            if offset >= found.start:
                inner = offset - found.start
                return (found, inner) if inner < found.rows.height else None
        return None

    def blocks(self, index: int) -> list[DrawnBlock]:
        """The blocks of an entry."""
        return self._draw(index).blocks

    def place_of(self, block_id: str) -> tuple[int, int] | None:
        """The first row of a block and its height."""
        for index in range(len(self.entries) - 1, -1, -1):
            if any(block.id == block_id for block in self.entries[index].blocks):
                for drawn in self.blocks(index):
                    if drawn.block.id == block_id:
                        return self.start_of(index) + drawn.start, drawn.rows.height
        return None

    def all_blocks(self) -> Iterator[tuple[int, Block]]:
        for index, entry in enumerate(self.entries):
            for block in entry.blocks:
                yield index, block

    def _estimate(self, index: int) -> int:
        drawn = self._drawn.get(id(self.entries[index]))
        if drawn is not None:
            return drawn.height
        blocks = self.entries[index].blocks
        height = sum(estimated_height(block, self.context.width) for block in blocks)
        return height + (1 if blocks else 0)

    def _draw(self, index: int) -> _DrawnEntry:
        entry = self.entries[index]
        drawn = self._drawn.get(id(entry))
        revision = (entry.revision, self._state)
        if drawn is None or drawn.revision != revision or self._has_subagent(drawn):
            drawn = self._drawn[id(entry)] = self._make(index, entry, revision)
            self._heights.set(index, drawn.height)
            if len(self._drawn) > _KEPT_ENTRIES:
                self._drawn.pop(next(iter(self._drawn)))
        return drawn

    def _has_subagent(self, drawn: _DrawnEntry) -> bool:
        """A running sub-agent's calls are drawn below the call that started it, and change by themselves."""
        return any(
            isinstance(found.block, CallBlock) and found.block.child_session_id and found.block.state == "running"
            for found in drawn.blocks
        )

    def _make(self, index: int, entry: TranscriptEntry, revision: tuple[int, int]) -> _DrawnEntry:
        above = self._block_above(index)
        found: list[DrawnBlock] = []
        row = 0
        for block in entry.blocks:
            rows = draw_block(block, self.context, self._text(block))
            if rows.height and needs_space_above(block, above):
                row += SPACE.height
            found.append(DrawnBlock(block, rows, row))
            row += rows.height
            above = block if rows.height else above
        return _DrawnEntry(found, row, revision)

    def _block_above(self, index: int) -> Block | None:
        for above in range(index - 1, max(index - 8, -1), -1):
            blocks = self.entries[above].blocks
            if blocks:
                return blocks[-1]
        return None

    def _text(self, block: Block) -> MarkdownRows | None:
        if not isinstance(block, TextBlock):
            return None
        if not block.open:
            return self._texts.pop(block.id, None)
        if block.id not in self._texts:
            self._texts[block.id] = new_markdown(self.context)
        return self._texts[block.id]
