"""An HTTP client for MCP servers that limits the size of answers and remembers the last refusal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import httpx2

from holdfast.config.settings import NetworkSettings
from holdfast.tools.web.web_requests import make_transport

_SECONDS = 30.0


class HttpRefusals:
    """The last error status of a server."""

    def __init__(self) -> None:
        self.status: int | None = None


def make_client(
    url: str,
    network: NetworkSettings,
    *,
    headers: Mapping[str, str],
    max_message: int,
    refusals: HttpRefusals,
    read_seconds: float,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    """Return a client for one server. Blocking, because it reads certificates."""
    transport = _LimitedTransport(make_transport(url, network), max_message=max_message, refusals=refusals)
    timeout = httpx2.Timeout(_SECONDS, read=read_seconds)
    sent = {**headers, "Accept-Encoding": "identity"}
    return httpx2.AsyncClient(transport=transport, headers=sent, timeout=timeout, auth=auth, trust_env=False)


class _LimitedTransport(httpx2.AsyncBaseTransport):
    def __init__(self, inner: httpx2.AsyncBaseTransport, *, max_message: int, refusals: HttpRefusals) -> None:
        self._inner = inner
        self._max_message = max_message
        self._refusals = refusals

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        if response.status_code >= 400:
            self._refusals.status = response.status_code
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_LimitedStream(stream, response.headers, self._max_message),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


class _LimitedStream(httpx2.AsyncByteStream):
    """A body that ends with an error when one event, or a body of any other kind, is too large."""

    def __init__(self, inner: httpx2.AsyncByteStream, headers: Mapping[str, str], limit: int) -> None:
        self._inner = inner
        self._is_compressed = headers.get("content-encoding", "identity") != "identity"
        self._has_events = headers.get("content-type", "").startswith("text/event-stream")
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._is_compressed:
            raise httpx2.ReadError("the server compressed its answer, although it was told not to")
        size = 0
        async for piece in self._inner:
            end = max(piece.rfind(b"\n\n"), piece.rfind(b"\n\r\n")) if self._has_events else -1
            size = size + len(piece) if end < 0 else len(piece) - end
            if size > self._limit:
                raise httpx2.ReadError(f"the answer is larger than {self._limit >> 20} MiB")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()
