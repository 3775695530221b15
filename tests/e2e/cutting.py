"""A proxy that cuts connections: after so many bytes of the answer, wherever that is."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from holdfast.client.server_address import ServerAddress


class CuttingProxy:
    """``async with CuttingProxy(to, at=path, after=how_many) as proxy``; both are asked for each connection."""

    def __init__(self, target: Callable[[], ServerAddress], *, at: Path, after: Callable[[], int | None]) -> None:
        self.address = ServerAddress(path=str(at))
        self.cuts = 0
        self._target = target
        self._after = after
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._accept, self.address.path)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._relay(reader, writer), name="proxy")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = self._target()
        if target.path is not None:
            theirs, to_them = await asyncio.open_unix_connection(target.path)
        else:
            theirs, to_them = await asyncio.open_connection(target.host, target.port)
        up = asyncio.create_task(_pump(reader, to_them, None), name="proxy:up")
        try:
            self.cuts += await _pump(theirs, writer, self._after())
        finally:
            up.cancel()
            with suppress(asyncio.CancelledError):
                await up
            for one in (writer, to_them):
                one.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int | None) -> bool:
    """Whether it ended because enough bytes had passed."""
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            if left is not None:
                data, left = data[:left], left - len(data)
            writer.write(data)
            await writer.drain()
            if left is not None and left <= 0:
                return True
    return False
