"""A stream of server-sent events over one connection: a cursor over the log, sent as fast as its reader reads.

Frames are encoded once for all streams (`StreamItem.frame`); what is there already goes out in one piece. A reader that
does not read holds up nothing but itself: sending waits, the subscription collapses what it missed (`E4`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.events import Subscription
from holdfast.server.http.request_parsing import Receive
from holdfast.server.http.responses import Header, Scope, Send

HEADERS: tuple[Header, ...] = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
)
RETRY = b"retry: 1000\n\n"
"""What clients wait before they come back, in milliseconds."""


class EventStream:
    """Sends until the subscription is closed or the reader has gone; then it says so."""

    def __init__(
        self, subscription: Subscription, *, redact: Callable[[bytes], bytes], on_end: Callable[[], None]
    ) -> None:
        self._subscription = subscription
        self._redact = redact
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watch: asyncio.Task[None] | None = None
        try:
            await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
            if scope["method"] != "HEAD":
                watch = asyncio.create_task(self._close_when_left(receive), name="stream:watch")
                await self._send_all(send)
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._subscription.close()
            self._on_end()
            if watch is not None:
                watch.cancel()

    async def _send_all(self, send: Send) -> None:
        head = RETRY
        while items := await self._subscription.read_batch():
            body = items[0].frame if len(items) == 1 else b"".join([item.frame for item in items])
            await send({"type": "http.response.body", "body": self._redact(head + body), "more_body": True})
            head = b""

    async def _close_when_left(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._subscription.close()
