"""Clients that follow all events across lost connections, and note the number of each durable one."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import get_args

from holdfast.client import AsyncClient
from holdfast.client.transcript import StreamedText
from holdfast.schema.events import Event, KnownDurable, Reset

_DURABLE = get_args(KnownDurable)
_SHORTEST, _LONGEST = 0.2, 4.0
"""Seconds that a roaming reader stays at a server."""


class LogReader:
    """Follows the stream of one server."""

    def __init__(self, client: AsyncClient) -> None:
        self.first = 0
        self.connections = 1
        self.last_loss = ""
        self.seen: list[int] = []
        self._client = client
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        cursor = (await self._client.workspaces()).cursor
        self.first = _number(cursor)
        self._task = asyncio.create_task(self._follow(cursor), name="log reader")

    async def read_until(self, number: int) -> list[int]:
        """Wait until it has seen this number; all numbers that it has seen."""
        assert self._task is not None
        waiting = asyncio.create_task(self._wait_for(number))
        await asyncio.wait({waiting, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            waiting.cancel()
            await self._task
        await waiting
        return self.seen

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _wait_for(self, number: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self.seen) and self.seen[-1] >= number)

    async def _follow(self, cursor: str) -> None:
        async with self._client.events(after=cursor, transcript=StreamedText(), on_lost=self._lost) as stream:
            async for event in stream:
                await self._note(event, stream.cursor or "")

    def _lost(self, error: object, seconds: float) -> None:
        self.connections += 1
        self.last_loss = repr(error)

    async def _note(self, event: Event, cursor: str) -> None:
        assert not isinstance(event, Reset), event
        if isinstance(event, _DURABLE):
            async with self._changed:
                self.seen.append(_number(cursor))
                self._changed.notify_all()


class RoamingReader(LogReader):
    """Leaves its server after a while and continues at another one, with the cursor that it has."""

    def __init__(self, clients: Sequence[AsyncClient], *, seed: str) -> None:
        super().__init__(clients[0])
        self._clients = clients
        self._random = Random(seed)

    async def _follow(self, cursor: str) -> None:
        while True:
            client = self._random.choice(self._clients)
            self.connections += 1
            async with client.events(after=cursor, transcript=StreamedText(), on_lost=self._lost) as stream:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._random.uniform(_SHORTEST, _LONGEST)):
                        async for event in stream:
                            await self._note(event, stream.cursor or "")
                cursor = stream.cursor or cursor


def _number(cursor: str) -> int:
    return int(cursor.partition(".")[2])
