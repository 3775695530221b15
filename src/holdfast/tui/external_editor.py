"""The external editor: for drafts, and to open a file at a line."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported


def edit_text(app: App[Any], text: str) -> str | None:
    """Let the user edit a text; ``None`` if that was not possible. The UI is suspended meanwhile."""
    descriptor, name = tempfile.mkstemp(suffix=".md", prefix="holdfast-")
    path = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        if not run_editor(app, [name]):
            return None
        return path.read_text("utf-8", "replace").rstrip("\n")
    finally:
        path.unlink(missing_ok=True)


def run_editor(app: App[Any], arguments: list[str]) -> bool:
    """Run ``VISUAL`` or ``EDITOR`` in the terminal; returns whether it ended well."""
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    try:
        with app.suspend():
            return subprocess.run([*command, *arguments], check=False).returncode == 0
    except (OSError, SuspendNotSupported) as error:
        app.notify(f"cannot run the editor {command[0]!r}: {error}", severity="error", markup=False)
        return False


def editor_arguments(path: str, line: int | None) -> list[str]:
    """Most terminal editors take ``+LINE FILE``."""
    return [path] if line is None else [f"+{line}", path]
