"""The scroll bar of the transcript."""

from __future__ import annotations

from math import ceil
from typing import Self

from rich.segment import Segment
from textual.geometry import Region
from textual.reactive import Reactive
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.strip import Strip

_STEPS = len(ScrollBarRender.VERTICAL_BARS)
"""Places of an end of the thumb within a row."""


class TranscriptScrollBar(ScrollBar):
    """Looks like Textual's, and is drawn again only when it looks different.

    Each row that is added to a session moves the thumb, but in a long session by less than can be seen.
    """

    window_virtual_size: Reactive[int] = Reactive(100, repaint=False)
    position: Reactive[float] = Reactive(0, repaint=False)
    _drawn: tuple[int, int] | None = None
    _rows: tuple[Strip, ...] | None = None

    def show(self, *, rows: int, position: float) -> None:
        """Set the number of all rows and the first one in view. Each alone would move the thumb."""
        self.window_virtual_size, self.position = rows, position
        if self._thumb != self._drawn:
            self.refresh()

    @property
    def _thumb(self) -> tuple[int, int]:
        """Its start and end in steps, as Textual computes them."""
        size, window, virtual = self.size.height, self.window_size, self.window_virtual_size
        if not size or not window or window >= virtual:
            return 0, 0
        height = max(1, window * size / virtual)
        start = int((size - height) * self.position / (virtual - window) * _STEPS)
        return start, start + ceil(height * _STEPS)

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        self._rows = None
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def render_lines(self, crop: Region) -> list[Strip]:
        if self._rows is None or len(self._rows) != self.size.height:
            self._rows = tuple(self._make_rows())
            self._drawn = self._thumb
        strips = list(self._rows[crop.y : crop.bottom])
        return strips if crop.width == self.size.width else [strip.crop(*crop.column_span) for strip in strips]

    def _make_rows(self) -> list[Strip]:
        """Most rows are equal, so that they are made once."""
        bar = self.render()
        assert isinstance(bar, ScrollBarRender)
        style = self.app.console.get_style(bar.style)
        assert style.color is not None
        assert style.bgcolor is not None
        segments = bar.render_bar(
            size=self.size.height,
            virtual_size=bar.virtual_size,
            window_size=bar.window_size,
            position=bar.position,
            thickness=self.size.width,
            back_color=style.bgcolor,
            bar_color=style.color,
        ).segments
        made: dict[Segment, Strip] = {}
        for segment in segments:
            if segment not in made:
                made[segment] = self._finished(segment)
        return [made[segment] for segment in segments]

    def _finished(self, segment: Segment) -> Strip:
        strip = Strip(Segment.apply_style([segment], self.rich_style), self.size.width)
        for line_filter in self.get_line_filters():
            strip = strip.apply_filter(line_filter, self.background_colors[1])
        return strip
