"""Background work whose coroutine is made when it starts, so that none is left over when the UI ends before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from textual.dom import DOMNode


def run_newest(owner: DOMNode, work: Callable[[], Coroutine[Any, Any, None]], *, group: str) -> None:
    """Run ``work`` and cancel what runs in its group."""
    newest: Any = work
    owner.run_worker(newest, group=group, exclusive=True)


def run_in_thread(owner: DOMNode, work: Callable[..., object], *arguments: object) -> None:
    """Run a blocking function, such as one that writes a file."""

    async def call() -> None:
        await asyncio.to_thread(work, *arguments)

    started: Any = call
    owner.run_worker(started, group="files")
