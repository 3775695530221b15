"""The changed files of a session, with their diffs; undo and redo."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import Screen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from holdfast.schema.runs import Accepted
from holdfast.schema.sessions import FileChange
from holdfast.tui.background_calls import call_in_background
from holdfast.tui.bindings import bindings_for, hints
from holdfast.tui.details_panel import change_counts
from holdfast.tui.session_controller import SessionController
from holdfast.tui.terminal_signals import plain_text
from holdfast.tui.transcript.diff_rows import diff_rows
from holdfast.tui.transcript.palette import Palette
from holdfast.tui.transcript.rows import rows_as_text
from holdfast.tui.undo_confirmation import undo_after_question

_STATES = {"applied": "", "undone": "undone", "changed_since": "changed since: undo leaves it alone"}


class ChangesScreen(Screen[None]):
    DEFAULT_CSS = """
    ChangesScreen #files {
        width: 40%; max-width: 60; border: none; border-right: solid $border; background: $background;
    }
    ChangesScreen #diff-scroll { width: 1fr; padding: 0 1; }
    ChangesScreen #diff { height: auto; }
    ChangesScreen #changes-hint { height: 1; background: $panel; color: $text-muted; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_for("changes"),
        Binding("escape,q", "app.pop_screen", show=False),
    ]

    def __init__(self, controller: SessionController) -> None:
        super().__init__()
        self._controller = controller
        self._changes: tuple[FileChange, ...] = ()
        self._reasons: dict[str, str] = {}
        """Why undo would not restore a file, or not without a question."""
        self._notes: tuple[str, ...] = ()

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield OptionList(id="files")
            with VerticalScroll(id="diff-scroll"):
                yield Static("", id="diff", markup=False)
        yield Static("", id="changes-hint", markup=False)

    def on_mount(self) -> None:
        self.query_one("#changes-hint", Static).update(f"changes · {hints(self.app, 'undo', 'redo')} · esc closes")
        call_in_background(self, self.load())

    async def load(self) -> None:
        client = await self._controller.link.ready()
        session_id = self._controller.link.session_id
        if session_id:
            found = await client.changes(session_id)
            self._changes = found.items
            self._notes = tuple(dict.fromkeys(note for run in found.runs for note in run.notes))
            preview = await client.preview_undo(session_id)
            self._reasons = {file.path: file.why for file in preview.files if file.action in ("skip", "confirm")}
        files = self.query_one("#files", OptionList)
        files.set_options([Option(Text(_row(change))) for change in self._changes])
        if self._changes:
            files.highlighted = 0
            files.focus()
        else:
            self.query_one("#diff", Static).update("This session has changed no files.")

    @on(OptionList.OptionHighlighted, "#files")
    def _chosen(self, event: OptionList.OptionHighlighted) -> None:
        self._draw_diff(self._changes[event.option_index])

    def on_resize(self) -> None:
        index = self.query_one("#files", OptionList).highlighted
        if index is not None and index < len(self._changes):
            self.call_after_refresh(self._draw_diff, self._changes[index])

    def _draw_diff(self, change: FileChange) -> None:
        width = max(self.query_one("#diff-scroll").size.width - 3, 20)
        diff = draw_diff(change, width, Palette.of_app(self.app))
        told = [plain_text(text) for text in (self._reasons.get(change.path, ""), *self._notes) if text]
        self.query_one("#diff", Static).update(Text("\n\n").join([Text(text, style="dim") for text in told] + [diff]))

    def action_undo(self) -> None:
        call_in_background(self, self._change(undo_after_question(self.app, self._controller)))

    def action_redo(self) -> None:
        call_in_background(self, self._change(self._controller.redo()))

    async def _change(self, work: Awaitable[Accepted]) -> None:
        accepted = await work
        client = await self._controller.link.ready()
        run = await client.wait_run(accepted.run.id, seconds=60)
        text = run.error.message if run.error else run.text or run.state
        self.notify(plain_text(text, longest=600), markup=False)
        await self.load()


def _row(change: FileChange) -> str:
    notes = [_STATES[change.state], "by a command" if change.by_command else ""]
    note = " · ".join(note for note in notes if note)
    return f"{plain_text(change.path)}  {change_counts(change.diff)}  {note}".rstrip()


def draw_diff(change: FileChange, width: int, palette: Palette) -> Text:
    """In two columns if there is room."""
    rows = rows_as_text(diff_rows(change.diff, width, palette, indent=("", palette.dim)))
    return rows or Text("(no text to show)")
