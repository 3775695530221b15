"""A running server in a thread, for tests that are not asynchronous (properties, schemathesis)."""

import asyncio
import http.client
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from holdfast.testing import TestProvider
from tests.support.running_server import TOKEN, RunningServer, run_server

T = TypeVar("T")


class BackgroundServer:
    """A server that runs in another thread."""

    def __init__(self, server: RunningServer, loop: asyncio.AbstractEventLoop, port: int) -> None:
        self.server = server
        self.port = port
        self._loop = loop

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the server's event loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def send(
        self, method: str, target: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            given = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", **(headers or {})}
            connection.request(method, target, body=body, headers=given)
            answer = connection.getresponse()
            if answer.headers["Content-Type"] == "text/event-stream":
                return answer.status, b""
            return answer.status, answer.read()
        finally:
            connection.close()


@contextmanager
def serve_in_background(
    directory: Path, provider: Callable[[], TestProvider] | None = None
) -> Iterator[BackgroundServer]:
    found: list[BackgroundServer] = []
    ready, stop = threading.Event(), threading.Event()

    async def live() -> None:
        async with run_server(directory, provider() if provider else None) as server:
            found.append(BackgroundServer(server, asyncio.get_running_loop(), server.tcp.port))
            ready.set()
            await asyncio.to_thread(stop.wait)

    def work() -> None:
        try:
            asyncio.run(live())
        finally:
            ready.set()

    thread = threading.Thread(target=work, name="served")
    thread.start()
    try:
        ready.wait()
        yield found[0]
    finally:
        stop.set()
        thread.join()
