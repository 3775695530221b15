"""A small dialog: a line of text, a secret, or a yes."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static


class TextDialog(ModalScreen[str | None]):
    """Asks for one line. Dismissed with the text, or with None. A secret is never echoed."""

    DEFAULT_CSS = """
    TextDialog { align: center middle; background: $background 50%; }
    TextDialog > Vertical {
        width: 90%; max-width: 90; height: auto; background: $surface; border: round $border; padding: 0 1;
        border-title-color: $primary;
    }
    TextDialog Static { height: auto; color: $text-muted; }
    TextDialog Input { border: none; height: 1; padding: 0; background: $surface; }
    TextDialog Input:focus { border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", show=False)]

    def __init__(self, question: str, *, value: str = "", note: str = "", secret: bool = False) -> None:
        super().__init__()
        self._question = question
        self._value = value
        self._note = note
        self._secret = secret

    def compose(self) -> ComposeResult:
        with Vertical() as panel:
            panel.border_title = self._question
            yield Input(self._value, password=self._secret, id="text", select_on_focus=False)
            yield Static(self._note or "enter accepts · esc closes", markup=False)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value)


class ConfirmDialog(ModalScreen[bool]):
    """A question that only ``y`` answers with yes."""

    DEFAULT_CSS = """
    ConfirmDialog { align: center middle; background: $background 50%; }
    ConfirmDialog > Vertical {
        width: 90%; max-width: 90; height: auto; background: $surface; border: round $warning; padding: 0 1;
    }
    ConfirmDialog Static { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", show=False),
        Binding("n,escape", "dismiss(False)", show=False),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._question, markup=False)
            yield Static("y yes · n no", markup=False)
