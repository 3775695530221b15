"""Event streams: each client's stream is a cursor over the event log, plus live text.

`Hub.subscribe` returns a stream. It yields the events committed after the cursor, then the open parts of messages as
they are now, then text as it arrives. Reconnecting, joining late, lagging and using a second device are the same case.
Live text never follows the durable event that contains it. Nothing is lost or repeated between replay and live, because
both are one position in one order. A slow reader delays no other reader. The package knows of an event only what it
closes, and decides nothing.
"""

from __future__ import annotations

from holdfast.events.hub import Hub
from holdfast.events.retention import prune_audit, prune_now, prune_periodically
from holdfast.events.stream_item import Cursor, StreamItem, parse_cursor
from holdfast.events.subscription import Subscription

__all__ = [
    "Cursor",
    "Hub",
    "StreamItem",
    "Subscription",
    "parse_cursor",
    "prune_audit",
    "prune_now",
    "prune_periodically",
]
