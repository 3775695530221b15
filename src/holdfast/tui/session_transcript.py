"""The transcript with its keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.message import Message

from holdfast.client.transcript_fold import TranscriptFold
from holdfast.client.view_values import Block
from holdfast.tui.bindings import bindings_for
from holdfast.tui.state import block_text
from holdfast.tui.transcript.code_rows import TARGETS
from holdfast.tui.transcript.transcript_widget import TranscriptView


class SessionTranscriptView(TranscriptView):
    """Routes the transcript's keys to the widget."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings_for("transcript")]

    class WantsSearch(Message):
        """Open the search field."""

    class ParentWanted(Message):
        """Show the session that started this sub-agent."""

    def __init__(self, fold: TranscriptFold, *, subagent: Callable[[str], Sequence[Block]]) -> None:
        super().__init__(fold, subagent=subagent, widget_id="transcript")
        self._shown = fold

    def show_fold(self, fold: TranscriptFold) -> None:
        """Show a session. The one that is shown already keeps its scroll position."""
        if fold is not self._shown:
            self._shown = fold
            self.show(fold)

    def action_block_next(self) -> None:
        self.move_cursor(1)

    def action_block_previous(self) -> None:
        self.move_cursor(-1)

    def action_block_toggle(self) -> None:
        self.toggle_block()

    def action_prompt_next(self) -> None:
        self.move_to_prompt(1)

    def action_prompt_previous(self) -> None:
        self.move_to_prompt(-1)

    def action_search(self) -> None:
        self.post_message(self.WantsSearch())

    def action_match_next(self) -> None:
        self.next_match(1)

    def action_match_previous(self) -> None:
        self.next_match(-1)

    def action_copy_block(self) -> None:
        self.copy()

    def action_select_down(self) -> None:
        self.extend_selection(rows=1)

    def action_select_up(self) -> None:
        self.extend_selection(rows=-1)

    def action_enter_subagent(self) -> None:
        self.enter_subagent()

    def action_leave_subagent(self) -> None:
        self.post_message(self.ParentWanted())

    def action_open_target(self) -> None:
        block = self.cursor_block
        found = TARGETS.search(block_text(block)) if block is not None else None
        if found is not None:
            self.post_message(self.TargetChosen(found[0]))

    def action_follow_end(self) -> None:
        self.scroll_to_end()
