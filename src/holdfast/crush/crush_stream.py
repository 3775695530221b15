"""The event stream of Crush's protocol.

Crush's stream has no ids. A client that comes back with its client id continues where its last stream ended, so it gets
what it missed as updates, also the ends of runs. Text is sent at most thirty times a second, as whole messages.

The body has no chunks: Crush's client treats the end of the connection as the end of the stream and reconnects, but
waits for ever if the server dies within a chunked body.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.crush.crush_clients import CrushClient
from holdfast.crush.event_translation import EventTranslator, envelope
from holdfast.errors import HoldfastError
from holdfast.events import StreamItem
from holdfast.events.stream_item import parse_cursor
from holdfast.schema.base import encode
from holdfast.schema.events import (
    ApprovalRequested,
    Delta,
    QuestionAsked,
    RunFinished,
    SessionCreated,
    SessionUpdated,
    Snapshot,
    TodoChanged,
    read_event,
)
from holdfast.schema.messages import Message
from holdfast.server.http.request_parsing import Receive, wait_for_disconnect
from holdfast.server.http.responses import UNFRAMED, Scope, Send
from holdfast.services.event_service import AttachedStream

_HEADERS = ((b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache"))
_UPDATE_SECONDS = 1 / 30


class CrushStream:
    """Sends envelopes until the subscription is closed or the client disconnects."""

    def __init__(
        self,
        stream: AttachedStream,
        client: CrushClient,
        translator: EventTranslator,
        *,
        first: list[ApprovalRequested | QuestionAsked],
        replayed_until: int,
        find_message: Callable[[str, str], Awaitable[Message | None]],
        describe_session: Callable[[str], Awaitable[dict[str, Any]]],
        redact: Callable[[bytes], bytes],
    ) -> None:
        self._stream = stream
        self._client = client
        self._translator = translator
        self._first = first
        self._replayed_until = replayed_until
        """Events up to this number happened before the client came back."""
        self._find_message = find_message
        self._describe_session = describe_session
        self._redact = redact
        client.streams.append(stream)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        subscription = self._stream.subscription
        watch: asyncio.Task[None] | None = None
        try:
            scope.get(UNFRAMED, lambda: None)()
            await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
            watch = asyncio.create_task(self._close_on_disconnect(receive), name="crush-stream:disconnect")
            await self._send_envelopes(send)
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._client.cursor = subscription.cursor
            self._client.streams.remove(self._stream)
            self._stream.close()
            if watch is not None:
                watch.cancel()

    async def _send_envelopes(self, send: Send) -> None:
        found = [one for event in self._first for one in self._translator.apply(event)]
        subscription = self._stream.subscription
        while True:
            if found:
                body = b"".join([b"data: %b\n\n" % encode(one) for one in found])
                await send({"type": "http.response.body", "body": self._redact(body), "more_body": True})
            if not (items := await subscription.read_batch()):
                return
            found = []
            is_live = True
            for item in items:
                is_live = is_live and item.id is None
                found.extend(await self._translate(item))
            found.extend(self._translator.take_updates())
            if found and is_live:
                await asyncio.sleep(_UPDATE_SECONDS)

    async def _translate(self, item: StreamItem) -> list[dict[str, Any]]:
        event = read_event(item.body)
        cursor = parse_cursor(item.id) if item.id else None
        again = cursor is not None and cursor.number <= self._replayed_until
        match event:
            case Delta() | Snapshot() if not self._translator.knows(event.message_id):
                message = await self._find_message(event.session_id, event.message_id)
                if message is not None:
                    self._translator.learn(message)
                return self._translator.apply(event)
            case SessionCreated() | SessionUpdated() | TodoChanged():
                change = "created" if isinstance(event, SessionCreated) and not again else "updated"
                return [*self._translator.take_updates(), *await self._session(event.session_id, change)]
            case RunFinished(session_id=session_id):  # with what the run used, and before its end
                updates = self._translator.take_updates()
                session = await self._session(session_id, "updated")
                return [*updates, *session, *self._translator.apply(event, again=again)]
            case _:
                return self._translator.apply(event, again=again)

    async def _session(self, session_id: str, change: str) -> list[dict[str, Any]]:
        try:
            return [envelope("session", change, await self._describe_session(session_id))]
        except HoldfastError:  # it was deleted meanwhile
            return []

    async def _close_on_disconnect(self, receive: Receive) -> None:
        await wait_for_disconnect(receive)
        self._stream.subscription.close()
