"""The served house in a thread, for tests that are not asynchronous: properties, schemathesis."""

import asyncio
import http.client
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from holdfast.testing import TestProvider
from tests.support.served import TOKEN, Served, served

T = TypeVar("T")


class Background:
    """A server that answers while the test does something else."""

    def __init__(self, house: Served, loop: asyncio.AbstractEventLoop, port: int) -> None:
        self.house = house
        self.port = port
        self._loop = loop

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """On the server's loop."""
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
def background(directory: Path, provider: Callable[[], TestProvider] | None = None) -> Iterator[Background]:
    found: list[Background] = []
    ready, stop = threading.Event(), threading.Event()

    async def live() -> None:
        async with served(directory, provider() if provider else None) as house:
            found.append(Background(house, asyncio.get_running_loop(), house.tcp.port))
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
