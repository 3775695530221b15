"""Both clients with one interface, so that each test runs with both of them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from holdfast.client.async_client import AsyncClient
from holdfast.client.server_address import ServerAddress
from holdfast.client.sync_client import SyncClient
from holdfast.client.sync_event_stream import SyncEventStream
from holdfast.schema.events import Event


class ThreadedStream:
    def __init__(self, stream: SyncEventStream) -> None:
        self._stream = stream

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        return await asyncio.to_thread(self._stream.__next__)

    async def aclose(self) -> None:
        self._stream.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Threaded:
    """The synchronous client, each call in a thread."""

    def __init__(self, address: ServerAddress, **options: Any) -> None:
        self._client = SyncClient(address, **options)
        self.leave_stopped = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            self._client.leave_stopped = self.leave_stopped
            return await asyncio.to_thread(method, *args, **kwargs)

        return call

    def events(self, **options: Any) -> ThreadedStream:
        self._client.leave_stopped = self.leave_stopped
        return ThreadedStream(self._client.events(**options))

    async def aclose(self) -> None:
        self._client.close()


Open = Callable[..., Any]
both = pytest.mark.parametrize("open_client", [Threaded, AsyncClient], ids=["sync", "aio"])


async def first(stream: Any, count: int) -> list[Event]:
    return [await anext(stream) for _ in range(count)]
