"""The external editor: for drafts, and to open a file at a line.

The event loop goes on while the editor has the terminal: events of the server are taken in, and nothing is drawn.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
from pathlib import Path

from textual.app import SuspendNotSupported

from holdfast.tui.tui_host import TuiHost


async def edit_text(app: TuiHost, text: str) -> str | None:
    """Let the user edit a text; ``None`` if that was not possible or the editor failed."""
    path = await asyncio.to_thread(_write_draft, text)
    try:
        if not await run_editor(app, [str(path)]):
            return None
        edited = await asyncio.to_thread(path.read_text, "utf-8", "replace")
        return edited.rstrip("\n")
    finally:
        await asyncio.to_thread(path.unlink, missing_ok=True)


def _write_draft(text: str) -> Path:
    descriptor, name = tempfile.mkstemp(suffix=".md", prefix="holdfast-")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return Path(name)


async def run_editor(app: TuiHost, arguments: list[str]) -> bool:
    """Run ``VISUAL`` or ``EDITOR`` in the terminal; returns whether it ended well."""
    configured = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        command = shlex.split(configured)
        with app.batch_update(), app.suspend():  # in a batch, nothing is drawn
            app.lends_terminal = True
            try:
                problem = await _wait_for([*command, *arguments])
            finally:
                app.lends_terminal = False
    except (ValueError, SuspendNotSupported) as error:
        problem = str(error)
    if problem:
        app.main.tell(f"cannot run the editor {configured!r}: {problem}", warning=True)
    return not problem


async def _wait_for(command: list[str]) -> str:
    """Returns what went wrong; empty if nothing. Raises nothing: the terminal must be taken back in any case."""
    try:
        process = await asyncio.create_subprocess_exec(*command)
    except OSError as error:
        return error.strerror or str(error)
    try:
        status = await process.wait()
    except asyncio.CancelledError:
        process.terminate()
        raise
    return f"it ended with status {status}" if status else ""


def editor_arguments(path: str, line: int | None) -> list[str]:
    """Most terminal editors take ``+LINE FILE``."""
    return [path] if line is None else [f"+{line}", path]
