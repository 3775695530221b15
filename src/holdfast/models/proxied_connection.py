"""Connections to providers through a proxy, by an HTTP library that knows tunnels and SOCKS.

The library is imported for the first such request: it takes more time and memory than a short run. Its errors become
those of `provider_connection.py`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from holdfast.errors import ModelInvalid
from holdfast.models.provider_connection import (
    MAX_IDLE,
    BrokenHttpResponse,
    CannotConnect,
    ConnectTimeout,
    InvalidHttpRequest,
    ProxyRefused,
    UnreadableContent,
)

if TYPE_CHECKING:
    import ssl

    import httpx2

_LAZY_IMPORTS = ("anyio.streams.tls", "anyio._backends._asyncio")
"""Modules that the library would import on the event loop at the first connection."""


class ProxiedResponse:
    is_read = False

    def __init__(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.headers: dict[str, str] = {name.lower(): value for name, value in response.headers.items()}
        encoded = self.headers.get("content-encoding", "identity") != "identity"
        source = response.aiter_bytes() if encoded else response.stream
        self._chunks: AsyncIterator[bytes] = aiter(source)  # type: ignore[arg-type]
        self._response = response

    async def read(self) -> bytes | None:
        try:
            return await anext(self._chunks, None)
        except Exception as error:  # noqa: BLE001 - every error of the library becomes one of ours
            failure = _as_own_error(error)
        raise failure

    async def aclose(self) -> None:
        if isinstance(self._chunks, AsyncGenerator):
            await self._chunks.aclose()
        await self._response.aclose()


class ProxiedConnections:
    """The connections through one proxy. Making them blocks: the library and the certificates are read from disk."""

    def __init__(self, proxy: str, *, tls: ssl.SSLContext | None, keep_alive_seconds: float) -> None:
        import ssl

        import httpx2

        for name in _LAZY_IMPORTS:
            import_module(name)
        logging.getLogger("httpcore2").setLevel(logging.INFO)  # DEBUG logs headers and the proxy's password
        limits = httpx2.Limits(
            max_connections=None, max_keepalive_connections=MAX_IDLE, keepalive_expiry=keep_alive_seconds
        )
        unused = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            self._pool = httpx2.AsyncHTTPTransport(verify=tls or unused, proxy=proxy, limits=limits)
        except ImportError:
            raise ModelInvalid(
                "a SOCKS proxy needs the 'socksio' package; install it, or change network.proxy"
            ) from None

    async def send(
        self, method: str, url: str, *, headers: Mapping[str, str], content: bytes, connect_seconds: float
    ) -> ProxiedResponse:
        import httpx2

        timeouts = {"connect": connect_seconds, "read": None, "write": None, "pool": None}
        try:
            request = httpx2.Request(
                method, url, headers=dict(headers), content=content, extensions={"timeout": timeouts}
            )
            return ProxiedResponse(await self._pool.handle_async_request(request))
        except Exception as error:  # noqa: BLE001 - every error of the library becomes one of ours
            failure = _as_own_error(error)
        raise failure

    async def aclose(self) -> None:
        await self._pool.aclose()


def _as_own_error(error: BaseException) -> Exception:
    """Messages of the operating system are kept, data from the server is not."""
    import httpx2

    match error:
        case httpx2.ConnectTimeout():
            return ConnectTimeout()
        case httpx2.ProxyError():
            return ProxyRefused(str(error))
        case httpx2.ConnectError():
            return CannotConnect(str(error))
        case httpx2.LocalProtocolError() | httpx2.UnsupportedProtocol() | httpx2.InvalidURL() | UnicodeError():
            return InvalidHttpRequest()
        case httpx2.DecodingError():
            return UnreadableContent()
    return BrokenHttpResponse(type(error).__name__)
