"""The last line: mode, what is being waited for, the connection, and the keys of the focus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.content import Content
from textual.widget import Widget

from holdfast.schema.base import Value
from holdfast.tui.status_words import MODE_WORDS
from holdfast.tui.transcript.cells import cut

if TYPE_CHECKING:
    from holdfast.schema.runs import Mode


class StatusFacts(Value, frozen=True):
    """What the line says, from left to right."""

    mode: Mode = "ask"
    headline: str = ""
    """Model, context and cost, where no details panel shows them."""
    activity: str = ""
    problem: str = ""
    """The state of the connection, if it is not live."""
    hints: str = ""
    plain: bool = False


class StatusLine(Widget):
    DEFAULT_CSS = """
    StatusLine { height: 1; padding: 0 1; color: $text-muted; background: $panel; }
    """

    def __init__(self, facts: StatusFacts) -> None:
        super().__init__(id="status")
        self.facts = facts

    def show(self, facts: StatusFacts) -> None:
        if facts != self.facts:
            self.facts = facts
            self.refresh()

    def render(self) -> Content:
        return draw_status(self.facts, max(self.content_size.width - 2, 10))


def draw_status(facts: StatusFacts, width: int) -> Content:
    """Drop the headline, then the keys, where there is no room. Mode and activity stay."""
    mode = MODE_WORDS[facts.mode]
    style = {"auto": "bold $text-error", "plan": "$primary", "accept_edits": "$warning", "ask": "$foreground"}[
        facts.mode
    ]
    middle = [text for text in (facts.headline, facts.problem or facts.activity) if text]
    hints = facts.hints
    if len(middle) == 2 and _width(mode, middle, "") > width - min(cell_len(hints), 16):
        middle.pop(0)
    room = width - _width(mode, middle, "") - 2
    while hints and cell_len(hints) > room:
        hints = hints.rpartition(" · ")[0]
    between = ", " if facts.plain else " │ "
    left = cut(between.join(("", *middle)), width - cell_len(mode)) if middle else ""
    gap = " " * max(width - cell_len(mode) - cell_len(left) - cell_len(hints), 1 if hints else 0)
    label = f"{mode.upper() if facts.mode == 'auto' else mode}"
    return Content.assemble((label, style), (left, "$warning" if facts.problem else ""), gap, hints)


def _width(mode: str, middle: list[str], hints: str) -> int:
    return cell_len(mode) + sum(cell_len(text) + 3 for text in middle) + cell_len(hints)
