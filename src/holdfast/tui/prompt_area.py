"""The text field of the composer: a text area in which Enter sends and up and down walk through the history.

Its keys are handled in the order in which they were typed, also when many arrive at once over a slow connection. They
are therefore no bindings of the app, which are checked before the text that was typed earlier has arrived here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.actions import SkipAction
from textual.binding import Binding, BindingType
from textual.events import Key, Paste
from textual.message import Message
from textual.widgets import TextArea

from holdfast.tui.actions import actions_in
from holdfast.tui.bindings import keys_of
from holdfast.tui.pasted_escapes import with_escapes


class PromptArea(TextArea):
    """Posts what happens; the composer decides."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+w,alt+backspace", "delete_word_left", show=False),
    ]

    class Used(Message):
        """A key of the composer was pressed, by the name of its action."""

        def __init__(self, name: str, *, sent: str = "") -> None:
            super().__init__()
            self.name = name
            self.sent = sent
            """The text at the time of the key, which has left the field."""

    class Pasted(Message):
        """Text was pasted. The composer inserts or attaches it."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, text: str) -> None:
        super().__init__(
            text,
            id="prompt",
            soft_wrap=True,
            tab_behavior="focus",
            highlight_cursor_line=False,
            placeholder="what should be done?",
        )
        self.completing = False
        """A list of completions is open: up, down and tab belong to it."""
        self.can_steer = False
        self.is_command: Callable[[str], bool] = lambda text: False
        """Whether a text is the whole name of a command: enter sends it, although completions may still be open."""

    def on_mount(self) -> None:
        self.cursor_blink = self.app.animation_level != "none"
        self.move_cursor(self.document.end)

    @property
    def before_cursor(self) -> str:
        return self.get_text_range((0, 0), self.cursor_location)

    def set_text(self, text: str) -> None:
        """Replace the text; the cursor is at its end, and undo still knows the text before."""
        self.replace(text, (0, 0), self.document.end)
        self.move_cursor(self.document.end)

    def replace_before_cursor(self, text: str) -> None:
        self.replace(text, (0, 0), self.cursor_location)

    def on_paste(self, event: Paste) -> None:
        event.prevent_default()
        event.stop()
        self.post_message(self.Pasted(with_escapes(event.text)))

    async def _on_key(self, event: Key) -> None:
        if await self._handle(event):
            event.stop()
            event.prevent_default()

    async def _handle(self, event: Key) -> bool:
        name = self._action_of(event)
        if name is not None:
            try:
                getattr(self, f"action_{name}")()
            except SkipAction:
                return False
            return True
        # Textual would run these after the key has passed through all parents, and so after a letter typed later.
        for binding in self._bindings.key_to_bindings.get(event.key, ()):
            if await self.app.run_action(binding.action, self):
                return True
        return False

    def _action_of(self, event: Key) -> str | None:
        if event.character == "?" and not self.text:
            return "ask_for_help"
        for action in actions_in("composer"):
            if not set(keys_of(self.app, action.name).split(",")).isdisjoint(event.aliases):
                return action.name
        return None

    def _take_text(self) -> str:
        text = self.text
        self.set_text("")
        return text

    def action_send(self) -> None:
        if self.completing and not self.is_command(self.text):
            self.post_message(self.Used("complete"))
        else:
            self.post_message(self.Used("send", sent=self._take_text()))

    def action_steer(self) -> None:
        if self.completing:
            self.post_message(self.Used("complete"))
        elif self.can_steer:
            self.post_message(self.Used("steer", sent=self._take_text()))
        else:
            raise SkipAction

    def action_newline(self) -> None:
        self.insert("\n", maintain_selection_offset=False)

    def action_edit_externally(self) -> None:
        self.post_message(self.Used("edit_externally"))

    def action_drop_attachment(self) -> None:
        self.post_message(self.Used("drop_attachment"))

    def action_history_older(self) -> None:
        self.post_message(self.Used("history_older"))

    def action_history_newer(self) -> None:
        self.post_message(self.Used("history_newer"))

    def action_ask_for_help(self) -> None:
        """A question mark is the help key only where it cannot be meant as text."""
        self.post_message(self.Used("help"))

    def action_cursor_up(self, select: bool = False) -> None:  # noqa: FBT001, FBT002 - Textual's signature
        if self.completing:
            self.post_message(self.Used("completion_up"))
        elif self.cursor_at_first_line and self.navigator.is_first_wrapped_line(self.cursor_location) and not select:
            self.post_message(self.Used("history_older"))
        else:
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:  # noqa: FBT001, FBT002 - Textual's signature
        if self.completing:
            self.post_message(self.Used("completion_down"))
        elif self.cursor_at_last_line and self.navigator.is_last_wrapped_line(self.cursor_location) and not select:
            self.post_message(self.Used("history_newer"))
        else:
            super().action_cursor_down(select)
