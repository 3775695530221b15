"""A stream of server-sent events over one connection.

Frames are encoded once for all streams (`StreamItem.frame`), and all frames that are ready are sent together. A client
that does not read delays only itself: sending waits, and the subscription collapses what was missed (`E4`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.server.http.request_parsing import Receive, wait_for_disconnect
from holdfast.server.http.responses import Header, Scope, Send
from holdfast.services.event_service import EventSource

_HEADERS: tuple[Header, ...] = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
)
_RETRY = b"retry: 1000\n\n"
"""How long clients wait before they reconnect, in milliseconds."""


class EventStream:
    """Sends events until the subscription is closed or the client disconnects, then closes the stream."""

    def __init__(self, stream: EventSource, *, redact: Callable[[bytes], bytes]) -> None:
        self._stream = stream
        self._subscription = stream.subscription
        self._redact = redact

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watch: asyncio.Task[None] | None = None
        try:
            await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
            if scope["method"] != "HEAD":
                watch = asyncio.create_task(self._close_on_disconnect(receive), name="stream:disconnect")
                await self._send_events(send)
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._stream.close()
            if watch is not None:
                watch.cancel()

    async def _send_events(self, send: Send) -> None:
        prefix = _RETRY
        while items := await self._subscription.read_batch():
            body = items[0].frame if len(items) == 1 else b"".join([item.frame for item in items])
            await send({"type": "http.response.body", "body": self._redact(prefix + body), "more_body": True})
            prefix = b""

    async def _close_on_disconnect(self, receive: Receive) -> None:
        await wait_for_disconnect(receive)
        self._subscription.close()
