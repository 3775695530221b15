"""Events: every client's stream is a cursor over the log, plus live text.

`Hub.subscribe` gives a stream: what was committed after the cursor, then the open parts as they stand, then text as it
comes. Reconnecting, joining late, lagging and a second device are the same case. Races it closes: live text never
follows the durable event that tells it whole; between replay and live nothing is lost or repeated, since both are one
position in one order; a reader that stops reading holds up nobody. It does not know what events mean, beyond what
closes an open part, and it does not decide anything.
"""

from __future__ import annotations

from holdfast.events.cursor import Cursor, read_cursor
from holdfast.events.hub import Hub
from holdfast.events.retention import prune_periodically
from holdfast.events.stream_item import StreamItem
from holdfast.events.subscription import Subscription

__all__ = ["Cursor", "Hub", "StreamItem", "Subscription", "prune_periodically", "read_cursor"]
