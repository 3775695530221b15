"""HTTP for the asynchronous client: pooled connections; the library's exceptions become our errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.client.api_call import ApiCall
from holdfast.client.server_address import ServerAddress
from holdfast.client.sync_http import peer_pid
from holdfast.errors import ClientError, NoAnswer, Unreachable

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS = 10.0
_KEEP_ALIVE = 60.0


class HttpPool:
    """The connections to one server."""

    def __init__(self, address: ServerAddress, *, headers: Mapping[str, str]) -> None:
        self._address = address
        self._headers = {"Host": address.authority, **headers}
        self._opening = asyncio.Lock()
        self._pool: httpx2.AsyncHTTPTransport | None = None
        self.peer: int | None = None
        """The process that answered last, where the platform tells it."""

    async def open(
        self, method: str, target: str, *, body: bytes | None, headers: Mapping[str, str], seconds: float
    ) -> httpx2.Response:
        """Send a request and read the head of its answer. Read the body with `piece` or `rest`, then close it."""
        pool = await self._opened()
        import httpx2

        given = {**self._headers, **headers}
        if body is not None:
            given["Content-Type"] = "application/json"
        host = "localhost" if self._address.path is not None else self._address.authority
        timeouts = {"connect": CONNECT_SECONDS, "read": None, "write": seconds, "pool": None}
        request = httpx2.Request(
            method, f"http://{host}{target}", headers=given, content=body, extensions={"timeout": timeouts}
        )
        try:
            async with asyncio.timeout(seconds):
                response = await pool.handle_async_request(request)
        except (httpx2.HTTPError, OSError, TimeoutError) as error:
            raise self._failure(error) from None
        self.peer = self._peer_of(response) or self.peer
        return response

    async def piece(self, pieces: AsyncIterator[bytes], *, seconds: float) -> bytes | None:
        """The next bytes of a body; ``None`` at its proper end."""
        import httpx2

        try:
            async with asyncio.timeout(seconds):
                return await anext(pieces, None)
        except (httpx2.HTTPError, OSError, TimeoutError) as error:
            raise self._failure(error) from None

    async def exchange(self, call: ApiCall[Any], *, seconds: float) -> tuple[int, bytes]:
        response = await self.open(call.method, call.target, body=call.body, headers=call.headers, seconds=seconds)
        try:
            return response.status_code, await self.rest(response, seconds=seconds)
        finally:
            await response.aclose()

    async def rest(self, response: httpx2.Response, *, seconds: float) -> bytes:
        """The whole body; each piece must come within ``seconds``."""
        pieces, found = body_of(response), []
        while (piece := await self.piece(pieces, seconds=seconds)) is not None:
            found.append(piece)
        return b"".join(found)

    async def aclose(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.aclose()

    async def _opened(self) -> httpx2.AsyncHTTPTransport:
        async with self._opening:
            if self._pool is None:
                self._pool = await asyncio.to_thread(_open_pool, self._address.path)
            return self._pool

    def _peer_of(self, response: httpx2.Response) -> int | None:
        stream = response.extensions.get("network_stream")
        if self._address.path is None or stream is None:
            return None
        return peer_pid(stream.get_extra_info("socket"))

    def _failure(self, error: Exception) -> ClientError:
        import httpx2

        address = self._address
        match error:
            case httpx2.ConnectError() | httpx2.ConnectTimeout():
                return Unreachable(f"cannot connect to {address}: {error}")
            case TimeoutError() | httpx2.TimeoutException():
                return NoAnswer(f"the server at {address} has not answered in time")
        return Unreachable(f"the connection to {address} broke ({type(error).__name__})")


def body_of(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The body as it arrives, without the library's own re-chunking."""
    stream: Any = response.stream
    return aiter(stream)


def _open_pool(path: str | None) -> httpx2.AsyncHTTPTransport:
    """Call it in a thread: the imports read from disk."""
    import anyio._backends._asyncio  # noqa: F401 - otherwise imported on the event loop, with the first connection
    import httpx2

    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=_KEEP_ALIVE)
    return httpx2.AsyncHTTPTransport(uds=path, limits=limits, verify=False, trust_env=False)
