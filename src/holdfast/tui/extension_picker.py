"""The list of extensions: MCP servers, language servers, hooks, skills, commands, agents, with their states."""

from __future__ import annotations

from textual.widgets import OptionList

from holdfast.schema.extensions import ExtensionKind, ExtensionState, ExtensionStatus
from holdfast.tui.picker import Picker, PickerRow
from holdfast.tui.server_link import ServerLink
from holdfast.tui.terminal_signals import plain_text

KIND_WORDS: dict[ExtensionKind, str] = {
    "mcp": "mcp",
    "lsp": "lsp",
    "hook": "hook",
    "skill": "skill",
    "command": "command",
    "agent": "agent",
    "instructions": "instructions",
}
STATE_MARKS: dict[ExtensionState, tuple[str, str]] = {
    "ready": ("●", "$success"),
    "starting": ("◐", "$primary"),
    "needs_auth": ("◐", "$warning"),
    "failed": ("✗", "$error"),
    "disabled": ("○", "$text-muted"),
}
STATE_WORDS: dict[ExtensionState, str] = {
    "ready": "ready",
    "starting": "starting",
    "needs_auth": "login",
    "failed": "failed",
    "disabled": "off",
}


class ExtensionPicker(Picker):
    """Its rows follow the events while it is open. Below them stands what the chosen one says of itself."""

    heading = "extensions"
    empty = "Nothing is configured. docs/extensions.md says how to add MCP servers, language servers, hooks and skills."

    def __init__(self, link: ServerLink) -> None:
        super().__init__(extension_rows(link.extensions))
        self._link = link

    def on_mount(self) -> None:
        super().on_mount()
        self.set_interval(0.5, self._refresh)

    def _refresh(self) -> None:
        rows = extension_rows(self._link.extensions)
        if list(self.rows) != rows:
            self.show_rows(rows)
            self._show_detail()

    def choose(self, row: PickerRow) -> None:
        """There is nothing to choose: the line below says all."""

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self._show_detail()

    def _show_detail(self) -> None:
        current = self.current
        found = next((s for s in self._link.extensions if current and _value(s) == current.value), None)
        if found is None:
            self.set_hint("esc closes")
        else:
            lines = (found.detail, f"configured in {found.source}" if found.source else "")
            self.set_hint("\n".join(plain_text(line, longest=400) for line in lines if line) or "esc closes")


def extension_rows(statuses: tuple[ExtensionStatus, ...]) -> list[PickerRow]:
    order = list(KIND_WORDS)
    rows = []
    for status in sorted(statuses, key=lambda status: (order.index(status.kind), status.name)):
        mark, style = STATE_MARKS[status.state]
        title = f"{KIND_WORDS[status.kind]:<13}{status.name}"
        rows.append(
            PickerRow(
                _value(status),
                title,
                notes=(STATE_WORDS[status.state],),
                mark=mark,
                style=style,
                searched=status.detail,
            )
        )
    return rows


def _value(status: ExtensionStatus) -> str:
    return f"{status.kind}:{status.name}:{status.source}"
