"""The composer: the prompt that is being written, its completions and its attachments."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static, TextArea

from holdfast.tui.composer_text import Completion, PromptHistory, complete, completion_at, is_long_paste, typeable
from holdfast.tui.fuzzy_match import best_matches
from holdfast.tui.prompt_area import PromptArea
from holdfast.tui.terminal_signals import plain_text

if TYPE_CHECKING:
    from textual.widgets import OptionList

    from holdfast.schema.commands import OfferedMention
    from holdfast.schema.messages import File

FindMentions = Callable[[str], "Awaitable[tuple[OfferedMention, ...]]"]

_SHOWN_COMPLETIONS = 8
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


class Composer(Vertical):
    """Holds the draft. Sends nothing itself: it posts `Sent`."""

    DEFAULT_CSS = """
    Composer { height: auto; max-height: 50%; }
    Composer #completions {
        height: auto; max-height: 8; border: none; padding: 0 1; background: $panel; scrollbar-size-vertical: 1;
        display: none;
    }
    Composer.-completing #completions { display: block; }
    Composer #attached { height: auto; color: $text-muted; padding: 0 1; }
    Composer #field { height: auto; }
    Composer #mark { width: 3; height: 1; color: $primary; padding: 0 0 0 1; }
    Composer #prompt {
        height: auto; min-height: 1; max-height: 12; border: none; padding: 0; background: $background;
        scrollbar-size-vertical: 1;
    }
    Composer #prompt:focus { border: none; }
    """

    class Sent(Message):
        """The person sent the draft. It has left the composer."""

        def __init__(self, text: str, attachments: tuple[File, ...], delivery: Literal["queue", "steer"]) -> None:
            super().__init__()
            self.text = text
            self.attachments = attachments
            self.delivery = delivery

    class Edited(Message):
        """The draft has changed."""

    class WantsEditor(Message):
        """Open the draft in the external editor."""

    class WantsHelp(Message):
        """Show the help."""

    class WantsFile(Message):
        """Attach the file at this path."""

        def __init__(self, path: str) -> None:
            super().__init__()
            self.path = path

    def __init__(
        self,
        *,
        draft: str,
        find_mentions: FindMentions,
        commands: Callable[[], tuple[tuple[str, str], ...]],
        load_commands: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(id="composer")
        self._first_draft = draft
        self.history = PromptHistory()
        self.attachments: tuple[File, ...] = ()
        self._find_mentions = find_mentions
        self._commands = commands
        self._load_commands = load_commands
        self._completion: Completion | None = None
        self._choices: tuple[str, ...] = ()
        self._list: OptionList | None = None
        """The completions. Made when something is completed for the first time."""
        self._attached: Static | None = None
        """The line of attachments. Made with the first one."""
        self._walking = False
        self._words = False
        self._mark = "›"

    def compose(self) -> ComposeResult:
        with Horizontal(id="field"):
            yield Static(self._mark, id="mark", markup=False)
            yield PromptArea(self._first_draft)

    def on_mount(self) -> None:
        self.area.is_command = self._is_command

    @property
    def area(self) -> PromptArea:
        return self.query_one(PromptArea)

    @property
    def draft(self) -> str:
        return self.area.text

    def _is_command(self, text: str) -> bool:
        return text.startswith("/") and any(text[1:] == name for name, _ in self._commands())

    def set_placeholder(self, text: str) -> None:
        self.area.placeholder = text

    def set_draft(self, text: str) -> None:
        self.area.set_text(text)

    def put_back(self, prompts: list[str]) -> None:
        """Put cancelled prompts before what is being written."""
        self.set_draft("\n\n".join(text for text in (*prompts, self.draft) if text.strip()))

    def attach(self, file: File) -> None:
        self.attachments = (*self.attachments, file)
        self._show_attachments()

    def clear(self) -> None:
        self.attachments = ()
        self._show_attachments()
        self.area.set_text("")
        self._close_completions()

    def accepted(self, text: str) -> None:
        """The sent draft was taken over: it is history now."""
        self.history.add(text)

    @on(PromptArea.Used)
    def _key_used(self, event: PromptArea.Used) -> None:
        event.stop()
        match event.name:
            case "send" | "steer":
                self._send(event.sent, "steer" if event.name == "steer" else "queue")
            case "complete":
                self._complete()
            case "completion_up":
                self._move_completion(-1)
            case "completion_down":
                self._move_completion(1)
            case "history_older":
                self._walk(self.history.older(self.draft))
            case "history_newer":
                self._walk(self.history.newer())
            case "drop_attachment":
                self.attachments = self.attachments[:-1]
                self._show_attachments()
            case "edit_externally":
                self.post_message(self.WantsEditor())
            case "help":
                self.post_message(self.WantsHelp())

    def _send(self, text: str, delivery: Literal["queue", "steer"]) -> None:
        attachments, self.attachments = self.attachments, ()
        self._show_attachments()
        self._close_completions()
        self.post_message(self.Sent(text, attachments, delivery))

    def _walk(self, prompt: str | None) -> None:
        if prompt is not None:
            self._walking = True
            self.set_draft(prompt)

    @on(TextArea.Changed)
    def _changed(self, event: TextArea.Changed) -> None:
        event.stop()
        if self._walking:
            self._walking = False
        else:
            self.history.edited()
            self._complete_later(completion_at(self.area.before_cursor))
        self._show_mark()
        self.post_message(self.Edited())

    @on(PromptArea.Pasted)
    def _pasted(self, event: PromptArea.Pasted) -> None:
        event.stop()
        path = event.text.strip().strip("'\"").replace("\\ ", " ")
        if "\n" not in path and path.startswith(("/", "~/", "./")) and path.lower().endswith(_IMAGES):
            self.post_message(self.WantsFile(path))
        elif is_long_paste(event.text):
            number = 1 + sum(file.name.startswith("pasted-") for file in self.attachments)
            from holdfast.schema.messages import File

            self.attach(File(f"pasted-{number}.txt", "text/plain", text=event.text))
        else:
            self.area.insert(typeable(event.text), maintain_selection_offset=False)

    def use_words(self, words: bool) -> None:  # noqa: FBT001 - a setting
        """Say what the field is with words instead of a sign."""
        self._words = words
        self.query_one("#mark").styles.width = 9 if words else 3
        self._show_mark()

    def _show_mark(self) -> None:
        sign, word = ("!", "Command:") if self.draft.startswith("!") else ("›", "Prompt:")
        shown = word if self._words else sign
        if shown != self._mark:  # every update lays out the whole screen
            self._mark = shown
            self.query_one("#mark", Static).update(shown)

    def _show_attachments(self) -> None:
        if self._attached is None:
            if not self.attachments:
                return
            self._attached = Static("", id="attached", markup=False)
            self.mount(self._attached, before="#field")
        shown = (f"[{plain_text(file.name, longest=40)}{_size(file)}]" for file in self.attachments)
        self._attached.update("attached  " + " ".join(shown))
        self._attached.display = bool(self.attachments)

    def _complete_later(self, completion: Completion | None) -> None:
        if completion is None:
            self.workers.cancel_group(self, "completions")
            self._close_completions()
        else:
            self._find_completions(completion)

    @work(exclusive=True, group="completions")
    async def _find_completions(self, completion: Completion) -> None:
        if completion.kind == "command":
            if not completion.query:
                await self._load_commands()
            commands = self._commands()
            hits = best_matches(completion.query, (name for name, _ in commands))
            rows = [commands[index] for index, _ in hits]
        else:
            await asyncio.sleep(0.03)  # one request per pause in typing, not one per key
            found = await self._find_mentions(completion.query)
            rows = [
                (one.text, plain_text(one.description, longest=60))
                for one in found
                if one.text.isprintable()  # others cannot be shown or typed
            ]
        await self._open_completions(completion, rows[:_SHOWN_COMPLETIONS])

    async def _open_completions(self, completion: Completion, rows: list[tuple[str, str]]) -> None:
        self._completion, self._choices = completion, tuple(name for name, _ in rows)
        if not rows or (len(rows) == 1 and rows[0][0] == completion.query and completion.kind == "command"):
            self._close_completions()
            return
        sign = "/" if completion.kind == "command" else "@"
        width = max(len(name) for name, _ in rows) + 3
        shown = [Content.assemble(f"{sign}{name}".ljust(width), (does, "$text-muted")) for name, does in rows]
        options = await self._completions()
        options.set_options(shown)
        options.highlighted = 0
        self.area.completing = True
        self.add_class("-completing")

    async def _completions(self) -> OptionList:
        if self._list is None:
            from textual.widgets import OptionList

            self._list = OptionList(id="completions")
            self._list.can_focus = False
            await self.mount(self._list, before=0)
        return self._list

    def _close_completions(self) -> None:
        self._choices = ()
        self.area.completing = False
        self.remove_class("-completing")

    def close_completions(self) -> bool:
        """Close the list of completions; returns whether it was open."""
        was_open = self.area.completing
        self._close_completions()
        return was_open

    def _move_completion(self, by: int) -> None:
        if self._list is not None and self._choices:
            self._list.highlighted = ((self._list.highlighted or 0) + by) % len(self._choices)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """A completion was clicked."""
        event.stop()
        self._complete()
        self.area.focus()

    def _complete(self) -> None:
        index = self._list.highlighted if self._list is not None else None
        if self._completion is None or index is None or index >= len(self._choices):
            self._close_completions()
            return
        completed = complete(self.area.before_cursor, self._completion, self._choices[index])
        self._close_completions()
        self.area.replace_before_cursor(completed)


def _size(file: File) -> str:
    if file.text is not None:
        return f", {file.text.count(chr(10)) + 1} lines"
    return f", {len(file.data or '') * 3 // 4 // 1024 + 1} KB"
