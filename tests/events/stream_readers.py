"""Readers of event streams."""

import asyncio
from typing import Any

import msgspec

from holdfast.client.transcript import Transcript
from holdfast.events import Hub, StreamItem, Subscription
from holdfast.schema.events import read_event


async def pending(subscription: Subscription) -> list[StreamItem]:
    """Return all items until the stream would wait."""
    items: list[StreamItem] = []
    while True:
        one = asyncio.ensure_future(subscription.__anext__())
        try:
            while not one.done():
                await asyncio.sleep(0)
                if subscription._waiter is not None and not subscription._waiter.done():
                    return items
            items.append(one.result())
        finally:
            one.cancel()
            await asyncio.gather(one, return_exceptions=True)


def seen(items: list[StreamItem]) -> list[str]:
    """Return a short form: kinds with numbers, or offsets and texts."""
    return [_short(item) for item in items]


def _short(item: StreamItem) -> str:
    body: dict[str, Any] = msgspec.json.decode(item.body)
    if item.kind == "delta":
        return f"delta {body['part']}@{body['offset']} {body['text']}"
    if item.kind == "snapshot":
        parts = ", ".join(f"{part['part']}: {part['text']}" for part in body["parts"])
        return f"snapshot {parts}".strip()
    number = "" if item.id is None else f" {item.id.split('.')[1]}"
    return f"{item.kind}{number}"


class Reader:
    """A client that builds a transcript, and reconnects with its last id after each disconnect."""

    def __init__(self, hub: Hub, **scope: str) -> None:
        self.hub = hub
        self.scope = scope
        self.transcript = Transcript()
        self.last_id: str | None = hub.cursor
        self.numbers: list[int] = []
        self.order: list[str] = []
        self.subscription = hub.subscribe(after=self.last_id, **scope)

    def cut(self) -> None:
        self.subscription.close()
        self.subscription = self.hub.subscribe(after=self.last_id, **self.scope)

    async def read(self, most: int | None = None) -> None:
        """Read all available items, or at most `most`."""
        if most is None:
            for item in await pending(self.subscription):
                self.take(item)
            return
        for _ in range(most):
            item = self.subscription._next_item()
            if item is None:
                return
            self.take(item)

    def take(self, item: StreamItem) -> None:
        if item.id is not None:
            self.last_id = item.id
            if item.kind not in ("heartbeat", "reset"):
                self.numbers.append(int(item.id.split(".")[1]))
        self.order.append(item.kind)
        assert self.transcript.apply(read_event(item.body)), f"there is a gap before {item!r}"
