"""Results of tools that are too long for a model: it gets the beginning, and a file has the whole text."""

from __future__ import annotations

import asyncio
from pathlib import Path

from holdfast.tools.protocol import ToolContext

ANSWER_LIMIT = 30_000
"""Characters of a text that the model gets."""


async def shorten_output(text: str, context: ToolContext) -> tuple[str, str]:
    """Return the redacted text, or its beginning with a note about the file, and the path of that file."""
    text = await asyncio.to_thread(context.redact, text)
    if len(text) <= ANSWER_LIMIT:
        return text, ""
    path = context.outputs / f"{context.call_id}.txt"
    await asyncio.to_thread(store_output, path, text)
    note = f"[the first {ANSWER_LIMIT:,} of {len(text):,} characters; the whole text is in {path}]"
    return f"{note}\n{text[:ANSWER_LIMIT]}", str(path)


def store_output(path: Path, text: str) -> None:
    """Write the whole text to a file that only the user can read. Blocking."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text(text, encoding="utf-8", errors="replace")
    path.chmod(0o600)
