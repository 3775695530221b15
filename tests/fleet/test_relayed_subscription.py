"""Live events of other servers keep their place between the durable events."""

from collections.abc import AsyncIterator, Iterator
from itertools import product

import pytest

from holdfast.events import StreamItem
from holdfast.fleet import relayed_subscription
from holdfast.fleet.relayed_subscription import RelayedSubscription, read_items


class _Local:
    """The durable events of this server."""

    def __init__(self, *numbers: int) -> None:
        self.cursor = "log.0"
        self._items = [_durable(number) for number in numbers]

    async def read_batch(self, *, max_items: int, max_bytes: int) -> list[StreamItem]:
        found, self._items = self._items, []
        return found

    def close(self) -> None:
        self._items = []


def _durable(number: int) -> StreamItem:
    return StreamItem("run.started", b"{}", id=f"log.{number}")


def _live(name: str) -> StreamItem:
    return StreamItem("delta", name.encode())


def _names(items: list[StreamItem]) -> list[str]:
    return [item.body.decode() if item.id is None else item.id for item in items]


async def _read(subscription: RelayedSubscription) -> list[str]:
    return _names(await subscription.read_batch())


@pytest.mark.promise("W16", "E5")
async def test_live_events_come_before_the_durable_event_that_follows_them_there() -> None:
    subscription = RelayedSubscription(_Local(1, 2))  # type: ignore[arg-type]
    links = [subscription.connect("a"), subscription.connect("b")]
    for link, items in zip(
        links,
        ([_live("a0"), _durable(1), _live("a1"), _durable(2)], [_durable(1), _live("b1"), _durable(2), _live("b2")]),
        strict=True,
    ):
        for item in items:
            subscription.receive(link, item)
    found: list[str] = []
    while len(found) < 6:
        found += await _read(subscription)
    assert found == ["a0", "log.1", "a1", "b1", "log.2", "b2"]


async def test_a_durable_event_waits_for_a_link_and_goes_on_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relayed_subscription, "BEHIND_SECONDS", 0.01)
    subscription = RelayedSubscription(_Local(1, 2))  # type: ignore[arg-type]
    link = subscription.connect("slow")
    subscription.receive(link, _live("early"))
    found: list[str] = []
    while len(found) < 3:
        found += await _read(subscription)
    assert found == ["early", "log.1", "log.2"]
    assert not link.is_connected
    assert subscription.cursor == "log.2"


async def test_frames_are_read_wherever_they_are_cut() -> None:
    items = [_durable(7), _live('{"text":"a: b"}'), StreamItem("heartbeat", b"{}", id="log.8")]
    wire = b"retry: 1000\n\n" + b"".join(item.frame for item in items)

    async def cut(size: int) -> AsyncIterator[bytes]:
        for start in range(0, len(wire), size):
            yield wire[start : start + size]

    def comparable(found: list[StreamItem]) -> Iterator[tuple[str, bytes, str | None]]:
        return ((item.kind, item.body, item.id) for item in found)

    for size, _ in product(range(1, len(wire) + 1), (0,)):
        assert list(comparable([item async for item in read_items(cut(size))])) == list(comparable(items))
