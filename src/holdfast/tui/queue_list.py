"""The list of prompts that wait: edit, move, remove, pause, resume."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from holdfast.client.view_values import QueuedPrompt, QueueState
from holdfast.tui.bindings import bindings_for, hints, key_of
from holdfast.tui.terminal_signals import plain_text
from holdfast.tui.transcript.cells import cut

_PAUSE_WORDS = {
    "user": "",
    "server_stop": "held: the server was stopped",
    "predecessor": "held: the prompt before it did not complete",
}


class QueueList(OptionList):
    """Hidden while nothing waits."""

    DEFAULT_CSS = """
    QueueList {
        height: auto; max-height: 6; border: none; padding: 0 1; background: $background; display: none;
        scrollbar-size-vertical: 1;
    }
    QueueList.-shown { display: block; }
    QueueList:focus { border: none; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_for("queue"),
        Binding("q", "screen.focus_composer", show=False),
    ]

    class Changed(Message):
        """The person wants to change the queue."""

        def __init__(self, action: str, prompt: QueuedPrompt | None, position: int) -> None:
            super().__init__()
            self.action = action
            self.prompt = prompt
            self.position = position

    def __init__(self) -> None:
        super().__init__(id="queue")
        self.prompts: tuple[QueuedPrompt, ...] = ()
        self.paused: str | None = None
        self._steers = 0

    def show(self, queue: QueueState, *, sending: tuple[str, ...] = ()) -> None:
        """``sending``: prompts that the server has not accepted yet."""
        self.prompts = (*queue.waiting, *queue.queued)
        self.paused = queue.paused
        self._steers = len(queue.waiting)
        chosen = self.highlighted
        rows = [self._row(prompt, number, queue) for number, prompt in enumerate(self.prompts)]
        rows += [Content.assemble(("sending  ", "$text-muted"), plain_text(text)) for text in sending]
        self.set_options([Option(row) for row in rows])
        self.set_class(bool(rows), "-shown")
        if self.has_focus and self.prompts:
            self.highlighted = min(chosen or 0, len(self.prompts) - 1)

    def _row(self, prompt: QueuedPrompt, number: int, queue: QueueState) -> Content:
        if number < len(queue.waiting):
            head = ("steers   ", "$primary")
        elif queue.paused:
            head = ("held     ", "$warning")
        else:
            head = ("next     ", "$text-muted")
        position = number - len(queue.waiting) + 1
        place = f"{position}  " if position > 0 else "   "
        text = plain_text(prompt.prompt) or f"({prompt.kind})"
        room = max(self.app.size.width - 4 - len(head[0]) - len(place), 8)
        hint = f"   {self._hint(queue)}" if number == len(self.prompts) - 1 else ""
        if cell_len(hint) > room - min(cell_len(text), 16):
            hint = ""
        return Content.assemble(head, (place, "$text-muted"), cut(text, room - cell_len(hint)), (hint, "$text-muted"))

    def _hint(self, queue: QueueState) -> str:
        if self.has_focus:
            return hints(self.app, "queue_edit", "queue_up", "queue_down", "queue_remove", "queue_pause")
        if queue.paused:
            words = (_PAUSE_WORDS[queue.paused], "enter resume", f"{key_of(self.app, 'cancel')} drop")
            return " · ".join(word for word in words if word)
        return f"{key_of(self.app, 'focus_queue')} edit"

    def on_focus(self) -> None:
        self.highlighted = 0 if self.prompts else None

    def on_blur(self) -> None:
        self.highlighted = None

    def _post(self, action: str, position: int = 0) -> None:
        index = self.highlighted
        prompt = self.prompts[index] if index is not None and index < len(self.prompts) else None
        self.post_message(self.Changed(action, prompt, position))

    def action_queue_edit(self) -> None:
        self._post("edit")

    def action_queue_remove(self) -> None:
        self._post("remove")

    def action_queue_pause(self) -> None:
        self._post("resume" if self.paused else "pause")

    def action_queue_cancel_all(self) -> None:
        self._post("cancel_all")

    def action_queue_up(self) -> None:
        self._move(-1)

    def action_queue_down(self) -> None:
        self._move(1)

    def _move(self, by: int) -> None:
        index = self.highlighted
        steers = self._steers
        if index is None or index < steers or not steers <= index + by < len(self.prompts):
            return
        self._post("move", index + by - steers + 1)
        self.highlighted = index + by
