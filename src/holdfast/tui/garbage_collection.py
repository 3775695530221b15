"""When Python looks for garbage. A full collection delays keys by 15 ms and more, so it waits for a pause."""

from __future__ import annotations

import gc

_PAUSE_SECONDS = 1.0
_DUE_AFTER = 10
"""Collections of young objects after which Python by itself would consider a full one."""
_OVERDUE_AFTER = 200
"""The same for someone who types without a pause; memory must not grow for ever."""


def collect_in_pauses() -> None:
    """Begin to collect: young objects as usual, all only in `collect_if_due`. What exists now lives until the end."""
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, 1 << 30)
    gc.enable()


def is_due(*, collections: int, idle_seconds: float) -> bool:
    """``collections`` is the number of collections of young objects since the last full one."""
    return collections >= (_DUE_AFTER if idle_seconds >= _PAUSE_SECONDS else _OVERDUE_AFTER)


def collect_if_due(*, idle_seconds: float) -> bool:
    """``idle_seconds`` is the time since the last key."""
    due = is_due(collections=gc.get_count()[2], idle_seconds=idle_seconds)
    if due:
        gc.collect()
    return due
