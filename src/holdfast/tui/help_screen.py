"""The help: every key and command, from the table of actions."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from holdfast.tui.actions import SCOPE_TITLES, actions_in, shown_key, slash_commands
from holdfast.tui.bindings import keys_of


class HelpScreen(ModalScreen[None]):
    DEFAULT_CSS = """
    HelpScreen { align: center middle; background: $background 50%; }
    HelpScreen > VerticalScroll {
        width: 94%; max-width: 100; height: 90%; background: $surface; border: round $border; padding: 0 1;
        border-title-color: $primary; scrollbar-size-vertical: 1;
    }
    HelpScreen Static { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,f1,enter", "dismiss(None)", show=False)]

    def compose(self) -> ComposeResult:
        with VerticalScroll() as panel:
            panel.border_title = "keys and commands · esc closes"
            yield Static(self._text(), markup=False)

    def _text(self) -> Content:
        parts: list[tuple[str, str] | str] = []
        for scope, title in SCOPE_TITLES.items():
            parts.append((f"{title}\n", "bold"))
            for action in actions_in(scope):
                keys = " ".join(shown_key(key) for key in keys_of(self.app, action.name).split(","))
                parts += [(f"  {keys:<24}", "$primary"), f"{action.does}\n"]
            parts.append("\n")
        parts.append(("Commands\n", "bold"))
        for name, does in slash_commands():
            parts += [(f"  /{name:<23}", "$primary"), f"{does}\n"]
        parts += ["\n", ("In a prompt\n", "bold")]
        for sign, does in (
            ("@path, @path:10-20", "Mention a file, or lines of it"),
            ("!command", "Run your own command in this directory"),
        ):
            parts += [(f"  {sign:<24}", "$primary"), f"{does}\n"]
        return Content.assemble(*parts)
