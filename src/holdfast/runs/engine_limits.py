"""How long and how many."""

from __future__ import annotations

from holdfast.schema.base import Value


class EngineLimits(Value, frozen=True, kw_only=True):
    stop_seconds: float = 1.5
    """What a turn gets to clean up after a cancel; then it is left behind and named (`C7`)."""
    child_stop_share: float = 0.8
    """A sub-agent gets this share of what its parent gets, so that it has ended before its parent must."""
    receipt_seconds: float = 2.0
    """How long a cancel waits for the ends of what it covered (`C3`)."""
    shutdown_seconds: float = 5.0
    """How long a graceful stop waits for everything (`W5`)."""
    unfinished_runs: int = 256
    """Per session."""
    live_children: int = 8
    """Sub-agents of one run at a time."""
    child_depth: int = 2
    retry_first_seconds: float = 0.1
    """Until an end that could not be written is tried again; doubles each time."""
    retry_most_seconds: float = 5.0
