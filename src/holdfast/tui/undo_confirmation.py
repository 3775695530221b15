"""Asks whether an undo also restores files that changed while a command ran."""

from __future__ import annotations

from typing import Any

from textual.app import App

from holdfast.schema.runs import Accepted
from holdfast.tui.session_controller import SessionController
from holdfast.tui.terminal_signals import plain_text
from holdfast.tui.text_dialog import ConfirmDialog

_MAX_NAMES = 12


async def undo_after_question(
    app: App[Any], controller: SessionController, *, to_message_id: str | None = None
) -> Accepted:
    """Start an undo. Call it in a worker: it waits for the answer."""
    preview = await controller.preview_undo(to_message_id=to_message_id)
    names = [plain_text(file.path) for file in preview.files if file.action == "confirm"]
    confirmed = bool(names) and await app.push_screen_wait(ConfirmDialog(_question(names)))
    return await controller.undo(to_message_id=to_message_id, confirmed_runs=preview.runs if confirmed else ())


def _question(names: list[str]) -> str:
    more = [f"… and {len(names) - _MAX_NAMES} more"] if len(names) > _MAX_NAMES else []
    listed = "\n".join(f"  {name}" for name in (*names[:_MAX_NAMES], *more))
    return (
        f"These files changed while a command ran, and may have been changed by you:\n{listed}\n"
        "Restore them too? Redo brings them back."
    )
