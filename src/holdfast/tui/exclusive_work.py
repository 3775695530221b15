"""Background work of which only the newest counts."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from textual.dom import DOMNode


def run_newest(owner: DOMNode, work: Callable[[], Coroutine[Any, Any, None]], *, group: str) -> None:
    """Run ``work`` and cancel what runs in its group. The coroutine is made when it starts, so none is left over."""
    newest: Any = work
    owner.run_worker(newest, group=group, exclusive=True)
