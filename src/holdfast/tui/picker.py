"""The list that is filtered while one types. All pickers are this screen with other rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.events import Resize
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from holdfast.schema.base import Value
from holdfast.tui.fuzzy_match import best_matches
from holdfast.tui.terminal_signals import plain_text
from holdfast.tui.transcript.cells import cut

_LONGEST_TITLE = 300


class PickerRow(Value, frozen=True):
    """One row. ``value`` is returned when the row is chosen."""

    value: str
    title: str
    notes: tuple[str, ...] = ()
    """Right of the title, dropped from the left where they do not fit."""
    mark: str = " "
    style: str = ""
    """A theme variable for the mark, such as ``$success``."""
    searched: str = ""
    """More text that the filter looks at."""


class Picker(ModalScreen[str | None]):
    """Shows rows and a filter. Dismissed with the chosen row's value, or with None."""

    DEFAULT_CSS = """
    Picker { align: center top; background: $background 50%; }
    Picker > Vertical {
        width: 90%; max-width: 110; height: auto; max-height: 80%; margin-top: 2;
        background: $surface; border: round $border; border-title-color: $primary; padding: 0 1;
    }
    Picker Input { border: none; height: 1; padding: 0; background: $surface; }
    Picker Input:focus { border: none; }
    Picker OptionList {
        border: none; height: auto; max-height: 20; padding: 0; background: $surface; scrollbar-size-vertical: 1;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    Picker #empty { color: $text-muted; height: auto; }
    Picker #hint { color: $text-muted; height: auto; }
    Picker.-plain > Vertical { border: none; }
    Picker.-narrow > Vertical { width: 100%; max-height: 100%; margin-top: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Close", show=False),
        Binding("ctrl+c", "dismiss(None)", show=False, priority=True),
        Binding("down", "move(1)", show=False),
        Binding("up", "move(-1)", show=False),
        Binding("pagedown", "move(10)", show=False),
        Binding("pageup", "move(-10)", show=False),
    ]

    heading: str = ""
    empty: str = "Nothing matches."
    placeholder: str = "type to filter"

    def __init__(self, rows: Iterable[PickerRow] = (), *, heading: str = "", hint: str = "", chosen: str = "") -> None:
        super().__init__()
        self.rows: tuple[PickerRow, ...] = tuple(rows)
        self.heading = heading or self.heading
        self.hint = hint
        self._chosen = chosen
        self._shown: list[PickerRow] = []
        self._width = 0

    def compose(self) -> ComposeResult:
        with Vertical() as panel:
            panel.border_title = self.heading
            yield Input(placeholder=self.placeholder, id="filter", select_on_focus=False)
            yield OptionList(id="rows")
            yield Static(self.empty, id="empty", markup=False)
            yield Static(self.hint, id="hint", markup=False)

    def on_mount(self) -> None:
        if not self.query("#rows"):
            return  # the interface is closing
        self.query_one("#rows", OptionList).can_focus = False
        field = self.query_one("#filter", Input)
        field.cursor_blink = self.app.animation_level != "none"
        field.focus()
        self.set_class(bool(getattr(self.app, "plain", False)), "-plain")
        self.show_rows(self.rows)

    @property
    def query_text(self) -> str:
        return self.query_one("#filter", Input).value

    @property
    def current(self) -> PickerRow | None:
        """The highlighted row; ``None`` also before the list is drawn and after it was closed."""
        index = next((options.highlighted for options in self.query("#rows").results(OptionList)), None)
        return self._shown[index] if index is not None and index < len(self._shown) else None

    def set_hint(self, text: str) -> None:
        self.query_one("#hint", Static).update(text)

    def set_empty(self, text: str) -> None:
        """What is said when no row is shown."""
        for shown in self.query("#empty").results(Static):
            shown.update(text)

    def show_rows(self, rows: Sequence[PickerRow]) -> None:
        """Replace the rows; the chosen row stays chosen. Does nothing when the list was closed meanwhile."""
        if not self.query("#empty"):
            return
        self._remember_choice()
        self.rows = tuple(rows)
        self._refilter(keep=True)

    def _remember_choice(self) -> None:
        current = self.current
        self._chosen = current.value if current else self._chosen

    def filter_rows(self, query: str) -> list[PickerRow]:
        hits = best_matches(query, (f"{row.title} {row.searched}" for row in self.rows))
        return [self.rows[index] for index, _ in hits]

    def _refilter(self, *, keep: bool) -> None:
        options = self.query_one("#rows", OptionList)
        self._shown = self.filter_rows(self.query_text)
        self._width = options.size.width or self._width  # a hidden list has none
        width = max((self._width or self.app.size.width - 8) - options.show_vertical_scrollbar, 16)
        options.set_options([Option(draw_row(row, width)) for row in self._shown])
        values = [row.value for row in self._shown]
        options.highlighted = None
        if values:
            options.highlighted = values.index(self._chosen) if keep and self._chosen in values else 0
        self.query_one("#empty").display = not values
        options.display = bool(values) or not self.query_text

    @on(Input.Changed, "#filter")
    def _filter_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.on_query(event.value)

    def on_query(self, query: str) -> None:
        """The filter has changed."""
        self._refilter(keep=False)

    @on(Input.Submitted, "#filter")
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if (row := self.current) is not None:
            self.choose(row)

    @on(OptionList.OptionSelected, "#rows")
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.choose(self._shown[event.option_index])

    def choose(self, row: PickerRow) -> None:
        self.dismiss(row.value)

    def action_move(self, by: int) -> None:
        options = self.query_one("#rows", OptionList)
        if self._shown:
            at = 0 if options.highlighted is None else options.highlighted + by
            wrap = abs(by) == 1
            options.highlighted = at % len(self._shown) if wrap else max(0, min(at, len(self._shown) - 1))

    def on_resize(self, event: Resize) -> None:
        self.set_class(event.size.width < 60 or event.size.height < 20, "-narrow")
        self.call_after_refresh(self._redraw)

    def _redraw(self) -> None:
        """Draw the rows for the new width. The list may have been closed meanwhile."""
        if self.query("#rows"):
            self._remember_choice()
            self._refilter(keep=True)


def draw_row(row: PickerRow, width: int) -> Content:
    """The mark, the title, and as many notes as fit."""
    title = plain_text(row.title, longest=_LONGEST_TITLE) or "(no title)"
    notes = list(row.notes)
    while notes and cell_len(title) + sum(cell_len(note) + 2 for note in notes) + 3 > width and cell_len(title) > 12:
        if cell_len(title) > 30 or len(notes) == 1:
            room = max(width - 3 - sum(cell_len(note) + 2 for note in notes), 12)
            title = cut(title, room)
            if cell_len(title) + sum(cell_len(note) + 2 for note in notes) + 3 <= width:
                break
        notes.pop(0)
    title = cut(title, max(width - 3 - sum(cell_len(note) + 2 for note in notes), 8))
    gap = max(width - 2 - cell_len(title) - sum(cell_len(note) + 2 for note in notes), 0)
    parts: list[Any] = [(f"{row.mark or ' '} ", row.style or "$foreground"), title, " " * gap]
    parts += [(f"  {note}", "$text-muted") for note in notes]
    return Content.assemble(*parts)
