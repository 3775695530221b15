"""The widget: draws the visible rows of a session, follows its end, and lets text be searched, selected and copied."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Self

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.timer import Timer

from holdfast.client.transcript_fold import TranscriptFold
from holdfast.client.view_values import Block, CallBlock, PromptBlock, ShellBlock, SummaryBlock, ThinkingBlock
from holdfast.tui.state import TranscriptState, block_text
from holdfast.tui.transcript.block_rows import DrawContext
from holdfast.tui.transcript.glyphs import SYMBOLS, Glyphs
from holdfast.tui.transcript.layout import Anchor, TranscriptLayout
from holdfast.tui.transcript.palette import Palette
from holdfast.tui.transcript.rows import BLANK, Row, RowSource, StaticRows
from holdfast.tui.transcript.text_selection import TextPlace, TextSelection, selected_text
from holdfast.tui.transcript.transcript_scrollbar import TranscriptScrollBar

_SHORTEST_PAUSE = 0.05
"""Seconds between two draws of text that is being written."""
_LONGEST_PAUSE = 0.4
"""However slow the machine is: what is drawn at once must not grow with each draw."""
_KEPT_STRIPS = 1000
"""Rows that are kept as they were drawn."""
_COST_FACTOR = 4.0
"""Pause at least this many times as long as the last draw took."""

_BLANK_ROWS = StaticRows((BLANK,))


class TranscriptView(ScrollView, can_focus=True):
    """The blocks of one session."""

    DEFAULT_CSS = """
    TranscriptView {
        height: 1fr;
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-size-vertical: 1;
    }
    """
    ALLOW_SELECT = False

    following: reactive[bool] = reactive(True)
    """The end of the session is kept in view."""
    unseen: reactive[int] = reactive(0)
    """Entries that were added below while something else is being read."""

    class TargetChosen(Message):
        """A link, or a place in a file such as ``src/a.py:12``, was clicked."""

        def __init__(self, target: str) -> None:
            super().__init__()
            self.target = target

    class TextCopied(Message):
        """Text was copied."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class SubagentChosen(Message):
        """The session of a sub-agent was chosen, to be shown by itself."""

        def __init__(self, session_id: str) -> None:
            super().__init__()
            self.session_id = session_id

    class OlderWanted(Message):
        """The first loaded entry is visible, and there are older messages on the server."""

    def __init__(
        self,
        fold: TranscriptFold,
        *,
        subagent: Callable[[str], Sequence[Block]] = lambda _: (),
        widget_id: str | None = None,
    ) -> None:
        super().__init__(id=widget_id)
        self.state = TranscriptState()
        self._subagent = subagent
        self._fold = fold
        self._layout_width = 80
        self._glyphs = SYMBOLS
        self._rows = TranscriptLayout(fold, self._draw_context(Palette.from_variables({}, name="", dark=True)))
        self._anchor = Anchor(0, 0)
        self._moving = False
        self._pause: Timer | None = None
        self._last_draw = 0.0
        self._last_cost = 0.0
        self._seen_entries = len(fold.entries)
        self._selection: TextSelection | None = None
        self._pressed: TextPlace | None = None
        self._base = Style()
        self._strips: LRUCache[tuple[int, int], tuple[RowSource, Strip]] = LRUCache(_KEPT_STRIPS)
        self._rows_to_show: list[Strip] | None = None
        """The rows that are to be shown, where they are known."""
        self._scrollbar: TranscriptScrollBar | None = None
        self._shown_rows: list[Strip] | None = None
        """The rows as they were shown last."""

    # The session.

    def show(self, fold: TranscriptFold) -> None:
        """Show another session, from its end."""
        self._finish_scrolling()
        self._fold = fold
        self.state = TranscriptState()
        self._selection = None
        self._rows = TranscriptLayout(fold, self._rows.context)
        self.unseen = 0
        self._go_to(None)

    def on_mount(self) -> None:
        self.watch(self.app, "theme", self._theme_changed, init=False)
        self._theme_changed()

    def on_resize(self) -> None:
        width = self.scrollable_content_region.width or self.size.width
        if width and width != self._layout_width:
            self._layout_width = width
            self._strips.clear()
            self._rows.redraw_all(self._draw_context(self._rows.context.palette))
        self.draw_now()

    def _theme_changed(self) -> None:
        self._rows.redraw_all(self._draw_context(Palette.of_app(self.app)))
        self.draw_now()

    def _draw_context(self, palette: Palette) -> DrawContext:
        return DrawContext(
            width=self._layout_width,
            palette=palette,
            is_open=self._is_open,
            subagent=self._subagent,
            glyphs=self._glyphs,
        )

    def use_glyphs(self, glyphs: Glyphs) -> None:
        """Draw with other signs."""
        if glyphs is not self._glyphs:
            self._glyphs = glyphs
            self._rows.redraw_all(self._draw_context(self._rows.context.palette))
            self.draw_now()

    def _is_open(self, block: Block) -> bool:
        return self.state.is_open(block)

    # Drawing.

    def session_changed(self) -> None:
        """Draw what changed: soon, but not more often than is useful."""
        if self._pause is not None:
            return
        due = self._last_draw + min(max(_SHORTEST_PAUSE, _COST_FACTOR * self._last_cost), _LONGEST_PAUSE)
        wait = due - time.monotonic()
        if wait <= 0:
            self.draw_now()
        else:
            self._pause = self.set_timer(wait, self.draw_now)

    @property
    def has_draw_ahead(self) -> bool:
        """What has changed will be drawn."""
        return self._pause is not None

    def draw_now(self) -> None:
        """Take over all changes, and keep the place that is being read, or the end."""
        if self._pause is not None:
            self._pause.stop()
            self._pause = None
        self._finish_scrolling()
        started = time.monotonic()
        layout, height = self._rows, max(self.size.height, 1)
        if (before := layout.refresh()) is not None:
            self._anchor = layout.moved(self._anchor, before)
            self._seen_entries += max(len(layout.entries) - len(before), 0)
            if self._selection is not None:
                self._selection = TextSelection(
                    *(TextPlace(layout.moved(place.anchor, before), place.column) for place in self._selection)
                )
        if self.following:
            layout.draw_end(height)
            self._seen_entries = len(layout.entries)
            self.unseen = 0
        else:
            layout.draw_from(self._anchor, height)
            self.unseen = max(len(layout.entries) - self._seen_entries, 0)
        self._place_and_refresh()
        self._last_draw = time.monotonic()
        self._last_cost = self._last_draw - started

    def _place_and_refresh(self) -> None:
        self._place()
        self._refresh_changed_rows()

    def _place(self) -> None:
        """Set the height and the position of the view."""
        self._finish_scrolling()
        self._moving = True
        try:
            size = Size(self._layout_width, self._rows.height)
            if size != self.virtual_size:
                self._set_virtual_size(size)
            row = self._rows.height if self.following else self._rows.row_of(self._anchor)
            self.scroll_to(y=row, animate=False, force=True)
            self._move_scrollbar()
        finally:
            self._moving = False

    def _finish_scrolling(self) -> None:
        """Be at once where a key or the wheel leads: setting the position would end its animation at another place."""
        self.app.animator.force_stop_animation(self, "scroll_y")

    def _set_virtual_size(self, size: Size) -> None:
        """Set the size of all rows. The widget stays as large as it is, so that the screen needs no new layout."""
        self.set_reactive(TranscriptView.virtual_size, size)
        self.scroll_y = self.validate_scroll_y(self.scroll_y)

    @property
    def vertical_scrollbar(self) -> TranscriptScrollBar:
        if self._scrollbar is None:
            made = TranscriptScrollBar(name="vertical", thickness=self.scrollbar_size_vertical)
            made.display = False
            self._scrollbar = self._vertical_scrollbar = made
            self.app._start_widget(self, made)  # noqa: SLF001 - as Textual makes its own
        return self._scrollbar

    def _move_scrollbar(self) -> None:
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.show(rows=self.virtual_size.height, position=self.scroll_y)

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        self._rows_to_show = None
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def _refresh_changed_rows(self) -> None:
        """Draw the rows that differ from what is shown."""
        visible, shown, width = self._make_visible(), self._shown_rows, self._layout_width
        if shown is None or len(shown) != len(visible):
            self.refresh()
        else:
            changed = [
                Region(0, y, width, 1)
                for y, (new, old) in enumerate(zip(visible, shown, strict=True))
                if new is not old and new != old
            ]
            if changed:
                self.refresh(*changed)
        self._rows_to_show = visible

    def _make_visible(self) -> list[Strip]:
        """The rows in view. Rows without marks of search, cursor and selection are kept from draw to draw."""
        top, height, locate, kept = self.scroll_offset.y, self.size.height, self._rows.locate, self._kept_strip
        if self.state.search or self._selection is not None or (self.state.cursor and self.has_focus):
            strips = [self._row_strip(number) for number in range(top, top + height)]
        else:
            strips = []
            for number in range(top, top + height):
                found = locate(number)
                strips.append(kept(_BLANK_ROWS, 0) if found is None else kept(*found[0].rows.leaf(found[1])))
        if self.unseen and strips:
            strips[-1] = self._with_marker(strips[-1], self._layout_width)
        return strips

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        if self._moving or round(old_value) == round(new_value):
            return
        self._move_scrollbar()
        self.refresh()
        height = max(self.size.height, 1)
        at_end = new_value >= self.max_scroll_y
        self.following = at_end and (self.following or new_value > old_value)
        if self.following:
            self.unseen, self._seen_entries = 0, len(self._rows.entries)
            self._rows.draw_end(height)
            self.call_later(self._place_and_refresh)
            return
        anchor = self._rows.anchor_at(round(new_value))
        before = self._rows.row_of(Anchor(anchor.entry + 1, 0)) if new_value < old_value else 0
        self._rows.draw_from(anchor, height)
        if new_value < old_value and anchor.entry + 1 < len(self._rows.entries):
            grown = self._rows.row_of(Anchor(anchor.entry + 1, 0)) - before
            anchor = Anchor(anchor.entry, max(anchor.row + grown, 0))
        self._anchor = anchor
        if self._rows.height != self.virtual_size.height or self._rows.row_of(anchor) != round(new_value):
            self.call_later(self._place_and_refresh)
        if round(new_value) == 0 and self._fold.older is not None:
            self.post_message(self.OlderWanted())

    def render_lines(self, crop: Region) -> list[Strip]:
        base = self.rich_style
        if base != self._base:
            self._base = base
            self._strips.clear()
            self._rows_to_show = None
        if self.styles.gutter.totals != (0, 0) or self.opacity < 1.0:
            self._shown_rows = None
            return super().render_lines(crop)
        # Without borders and padding, the rows are the widget. Strips that are kept remember what filters made of them.
        if self._rows_to_show is None:
            self._rows_to_show = self._make_visible()
        strips = self._rows_to_show
        if crop.size == self.size:
            self._shown_rows = strips
        else:
            strips = strips[crop.y : crop.bottom]
        background = self.background_colors[1]
        for line_filter in self.get_line_filters():
            strips = [strip.apply_filter(line_filter, background) for strip in strips]
        first, last = crop.column_span
        return strips if (first, last) == (0, self._layout_width) else [strip.crop(first, last) for strip in strips]

    def render_line(self, y: int) -> Strip:
        if self._rows_to_show is None:
            self._rows_to_show = self._make_visible()
        return self._rows_to_show[y]

    def _row_strip(self, number: int) -> Strip:
        """A row with its marks."""
        found = self._rows.locate(number)
        if found is None:
            return self._kept_strip(_BLANK_ROWS, 0)
        drawn, inner = found
        row = drawn.rows.row(inner)
        strip = self._finished(row)
        if self.state.search:
            strip = self._with_matches(strip, row)
        if drawn.block.id == self.state.cursor and self.has_focus:
            strip = strip.apply_style(self._rows.context.palette.cursor)
        return self._with_selection(strip, number) if self._selection is not None else strip

    def _kept_strip(self, source: RowSource, number: int) -> Strip:
        key = (id(source), number)
        kept = self._strips.get(key)
        if kept is None or kept[0] is not source:
            kept = self._strips[key] = (source, self._finished(source.row(number)))
        return kept[1]

    def _finished(self, row: Row) -> Strip:
        """A row in the full width, on the background of the widget."""
        width, base = self._layout_width, self._base
        segments = list(Segment.apply_style(row.segments, base))
        length = sum(segment.cell_length for segment in segments)
        if length < width:
            segments.append(Segment(" " * (width - length), base))
        return Strip(segments, max(length, width)).adjust_cell_length(width)

    def _with_marker(self, strip: Strip, width: int) -> Strip:
        text = f" ↓ {self.unseen} new "
        marker = Segment(text, self._rows.context.palette.selected)
        return Strip.join([strip.crop(0, max(width - len(text), 0)), Strip([marker])])

    def _with_matches(self, strip: Strip, row: Row) -> Strip:
        text, query = row.plain.casefold(), self.state.search.casefold()
        found = text.find(query)
        while found >= 0:
            start = strip.index_to_cell_position(found)
            end = strip.index_to_cell_position(found + len(query))
            strip = _styled(strip, start, end, self._rows.context.palette.found)
            found = text.find(query, found + len(query))
        return strip

    def _with_selection(self, strip: Strip, number: int) -> Strip:
        assert self._selection is not None
        low, high = self._selection.ordered
        columns = self._selection.columns(
            number, first=self._rows.row_of(low.anchor), last=self._rows.row_of(high.anchor)
        )
        if columns is None:
            return strip
        end = strip.cell_length if columns[1] is None else min(columns[1], strip.cell_length)
        return _styled(strip, columns[0], end, self._rows.context.palette.selected)

    # Moving.

    def scroll_to_end(self) -> None:
        """Follow the end again."""
        self._go_to(None)

    def _go_to(self, place: Anchor | None) -> None:
        """Go to a place, or follow the end."""
        self._finish_scrolling()
        self.following = place is None
        if place is not None:
            self._anchor = place
        self.draw_now()

    def scroll_to_block(self, block_id: str) -> None:
        """Bring a block to the screen, its first row at the top if it is not visible whole."""
        place = self._rows.place_of(block_id)
        if place is None:
            return
        row, height = place
        top = round(self.scroll_y)
        if top <= row and row + height <= top + self.size.height:
            return
        self._go_to(self._rows.anchor_at(row))

    def move_cursor(self, step: int) -> None:
        """Move the block cursor. Without one, start at the last visible block."""
        blocks = [block.id for _, block in self._rows.all_blocks()]
        if not blocks:
            return
        if self.state.cursor in blocks:
            index = min(max(blocks.index(self.state.cursor) + step, 0), len(blocks) - 1)
        else:
            _, block = self._rows.row(round(self.scroll_y) + min(self.size.height, self._rows.height) - 1)
            index = blocks.index(block.id) if block is not None else len(blocks) - 1
        self.state = self.state.with_cursor(blocks[index])
        self.scroll_to_block(blocks[index])
        self.refresh()

    def move_to_prompt(self, step: int) -> None:
        """Go to the previous or next prompt."""
        prompts = [(index, block) for index, block in self._rows.all_blocks() if isinstance(block, PromptBlock)]
        if not prompts:
            return
        top = self._rows.anchor_at(round(self.scroll_y)).entry
        known = [number for number, (_, block) in enumerate(prompts) if block.id == self.state.cursor]
        if known:
            chosen = known[0] + step
        elif step < 0:
            chosen = max((number for number, (index, _) in enumerate(prompts) if index < top), default=0)
        else:
            chosen = min((number for number, (index, _) in enumerate(prompts) if index > top), default=len(prompts) - 1)
        _, block = prompts[min(max(chosen, 0), len(prompts) - 1)]
        self.state = self.state.with_cursor(block.id)
        place = self._rows.place_of(block.id)
        if place is not None:
            self._go_to(self._rows.anchor_at(place[0]))

    # Search.

    def search(self, query: str) -> int:
        """Mark a text wherever it is, and go to its last occurrence. Returns the number of blocks that have it."""
        self.state = self.state.with_search(query)
        found = self._matching_blocks()
        if found:
            self._go_to_match(found[-1])
        self.refresh()
        return len(found)

    def next_match(self, step: int) -> None:
        """Go to the next or previous block that has the text."""
        found = self._matching_blocks()
        if not found:
            return
        ids = [block.id for block in found]
        index = ids.index(self.state.cursor) + step if self.state.cursor in ids else len(ids) - 1
        self._go_to_match(found[index % len(found)])

    def _matching_blocks(self) -> list[Block]:
        query = self.state.search.casefold()
        return [block for _, block in self._rows.all_blocks() if query and query in block_text(block).casefold()]

    def _go_to_match(self, block: Block) -> None:
        self.state = self.state.with_cursor(block.id)
        if isinstance(block, CallBlock | ThinkingBlock | SummaryBlock | ShellBlock) and not self.state.is_open(block):
            self.toggle_block(block)
        place = self._rows.place_of(block.id)
        if place is None:
            return
        row, height = place
        query = self.state.search.casefold()
        offset = next((n for n in range(height) if query in self._rows.row(row + n)[0].plain.casefold()), 0)
        self._go_to(self._rows.anchor_at(max(row + offset - self.size.height // 3, 0)))

    # Folding and copying.

    @property
    def cursor_block(self) -> Block | None:
        return next((block for _, block in self._rows.all_blocks() if block.id == self.state.cursor), None)

    def toggle_block(self, block: Block | None = None) -> None:
        """Fold or unfold a block, by default the one under the cursor."""
        block = block or self.cursor_block
        if block is None:
            return
        top = self._rows.anchor_at(round(self.scroll_y))
        self.state = self.state.toggled(block)
        self._rows.redraw_states()
        if not self.following:
            self._anchor = top
        self.draw_now()

    def enter_subagent(self) -> None:
        """Show the session of the sub-agent under the cursor."""
        block = self.cursor_block
        if isinstance(block, CallBlock) and block.child_session_id is not None:
            self.post_message(self.SubagentChosen(block.child_session_id))

    def copy(self) -> str:
        """Copy the selection, or the block under the cursor."""
        text = self.selected_text
        if not text and (block := self.cursor_block) is not None:
            text = block_text(block)
        if text:
            self.app.copy_to_clipboard(text)
            self.post_message(self.TextCopied(text))
        return text

    @property
    def selected_text(self) -> str:
        if self._selection is None:
            return ""
        return selected_text(self._selection, lambda number: self._rows.row(number)[0], self._rows.row_of)

    def clear_selection(self) -> None:
        self._selection = None
        self.refresh()

    def extend_selection(self, *, rows: int = 0, columns: int = 0) -> None:
        """Select with keys: from the cursor's block on, or from the first visible row."""
        if self._selection is None:
            place = self._rows.place_of(self.state.cursor) if self.state.cursor else None
            start = TextPlace(self._rows.anchor_at(place[0] if place else round(self.scroll_y)), 0)
            self._selection = TextSelection(start, start)
        end = self._selection.end
        row = min(max(self._rows.row_of(end.anchor) + rows, 0), max(self._rows.height - 1, 0))
        column = min(max(end.column + columns, 0), self._layout_width - 1)
        self._selection = self._selection._replace(end=TextPlace(self._rows.anchor_at(row), column))
        self.refresh()

    # The mouse.

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.button != 1:
            return
        self._pressed = self._place_at(event.x, event.y)
        self._selection = None
        self.capture_mouse()
        self.refresh()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._pressed is None:
            return
        if event.y < 0:
            self.scroll_relative(y=-1, animate=False)
        elif event.y >= self.size.height:
            self.scroll_relative(y=1, animate=False)
        place = self._place_at(event.x, min(max(event.y, 0), self.size.height - 1))
        if self._selection is not None or place != self._pressed:
            self._selection = TextSelection(self._pressed, place)
            self.refresh()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self._pressed is None:
            return
        self._pressed = None
        self.release_mouse()
        if self._selection is not None:
            if self.selected_text:
                self.copy()
            return
        target = event.style.meta.get("target")
        if isinstance(target, str):
            self.post_message(self.TargetChosen(target))
            return
        _, block = self._rows.row(event.y + self.scroll_offset.y)
        if block is not None:
            self.state = self.state.with_cursor(block.id)
            if isinstance(block, CallBlock | ThinkingBlock | SummaryBlock | ShellBlock):
                self.toggle_block(block)
            self.refresh()

    def _place_at(self, x: int, y: int) -> TextPlace:
        return TextPlace(self._rows.anchor_at(y + self.scroll_offset.y), max(x, 0))


def _styled(strip: Strip, start: int, end: int, style: Style) -> Strip:
    """A strip with some of its cells in another style."""
    if end <= start:
        return strip
    marked = Strip([Segment(text, own + style if own else style) for text, own, _ in strip.crop(start, end)])
    return Strip.join([strip.crop(0, start), marked, strip.crop(end)])
