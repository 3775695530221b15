"""Rewind to an earlier prompt: the conversation, the files, or both."""

from __future__ import annotations

from holdfast.client.view_values import PromptBlock
from holdfast.tui.picker import Picker, PickerRow
from holdfast.tui.terminal_signals import plain_text
from holdfast.tui.tui_host import ChatHost
from holdfast.tui.undo_confirmation import undo_after_question


def pick_rewind(chat: ChatHost) -> None:
    fold = chat.tui.controller.transcript
    blocks = [block for entry in fold.entries for block in entry.blocks] if fold else []
    prompts = [block for block in blocks if isinstance(block, PromptBlock) and not block.unsent]
    if fold is None or not prompts:
        chat.tell("there is no earlier prompt in this session")
        return
    by_id = {block.message_id: block for block in prompts}

    def chosen(message_id: str | None) -> None:
        if message_id is not None:
            _pick_what(chat, by_id[message_id])

    rows = [PickerRow(block.message_id, plain_text(block.text)) for block in reversed(prompts)]
    chat.tui.push_screen(
        Picker(rows, heading="rewind to before this prompt", hint="enter chooses · esc closes"), chosen
    )


def _pick_what(chat: ChatHost, prompt: PromptBlock) -> None:
    rows = [
        PickerRow("both", "conversation and files"),
        PickerRow("conversation", "conversation only", notes=("continues in a copy of the session",)),
        PickerRow("files", "files only", notes=("undoes what the agent wrote since",)),
    ]

    def chosen(what: str | None) -> None:
        if what is not None:
            chat.do(rewind(chat, prompt, what=what))

    chat.tui.push_screen(Picker(rows, heading="what goes back?"), chosen)


async def rewind(chat: ChatHost, prompt: PromptBlock, *, what: str) -> None:
    """Files are undone in this session; the conversation goes on in a copy that ends before the prompt."""
    controller = chat.tui.controller
    client = await controller.link.ready()
    if what in ("both", "files"):
        accepted = await undo_after_question(chat.tui, controller, to_message_id=prompt.message_id)
        run = await client.wait_run(accepted.run.id, seconds=60)
        chat.tell(run.text or f"undo: {run.state}")
    if what in ("both", "conversation"):
        messages, _ = await client.all_messages(controller.link.session_id or "")
        ids = [message.id for message in messages]
        at = ids.index(prompt.message_id)
        chat.tui.show_session(await controller.fork(message_id=ids[at - 1]) if at > 0 else None)
        chat.composer.set_draft(prompt.text)
