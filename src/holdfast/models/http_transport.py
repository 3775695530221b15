"""HTTP access to providers: bytes with time-outs. All failures become our error classes.

The connection is closed at once when the reading task is cancelled or leaves the ``async with``. Errors do not
reference the request, so that no traceback contains a key.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from holdfast.errors import ModelError, ModelInvalid, ModelMalformed, ModelNetwork
from holdfast.models.error_mapping import Redact, error_from_response, sanitize_message
from holdfast.models.provider_address import ProviderAddress, choose_proxy
from holdfast.models.provider_connection import (
    BrokenHttpResponse,
    CannotConnect,
    ConnectTimeout,
    DirectConnections,
    InvalidHttpRequest,
    ProxyRefused,
    UnreadableContent,
)
from holdfast.models.stall_timeout import StallTimeout
from holdfast.tasks import WaitLimit

if TYPE_CHECKING:
    import ssl

    from holdfast.config.settings import NetworkSettings

_CONNECT_SECONDS = 20.0
_KEEP_ALIVE_SECONDS = 60.0
_DRAIN_SECONDS = 0.1

_log = logging.getLogger(__name__)


class OpenResponse(Protocol):
    """A response whose head has arrived."""

    status: int
    headers: dict[str, str]
    """The names are in lower case."""

    @property
    def is_read(self) -> bool:
        """Whether it is known that nothing of the body is left to read."""
        ...

    async def read(self) -> bytes | None:
        """Return the next bytes of the body, or None at its end."""
        ...

    async def aclose(self) -> None:
        """Leave the connection to the next request if the body was read to its end; otherwise close it at once."""
        ...


class Connections(Protocol):
    async def send(
        self, method: str, url: str, *, headers: Mapping[str, str], content: bytes, connect_seconds: float
    ) -> OpenResponse: ...

    async def aclose(self) -> None: ...


class ProviderResponse:
    """A response whose body is being read."""

    def __init__(self, response: OpenResponse, map_error: Callable[[BaseException], ModelError]) -> None:
        self.status = response.status
        self.headers = response.headers
        self._response = response
        self._map_error = map_error
        self._limit = WaitLimit()

    @property
    def is_success(self) -> bool:
        return self.status in range(200, 300)

    async def read(self, stall: StallTimeout) -> bytes | None:
        """Return the next bytes, or None at the end. Raises `ModelStall` after a time-out."""
        try:
            return await self._limit.wait(self._response.read(), until=stall.begin_wait())
        except Exception as error:  # noqa: BLE001 - every error of the library becomes one of our classes
            failure = stall.error() if self._limit.expired else self._map_error(error)
        finally:
            stall.end_wait()
        raise failure

    async def aclose(self) -> None:
        self._limit.close()
        try:
            await self._response.aclose()
        except Exception as error:  # noqa: BLE001 - the connection is closed in any case
            _log.debug("closing a connection failed with %s", type(error).__name__)

    async def drain(self) -> None:
        """Read to the end if it arrives at once, so that the connection can be used again."""
        if self._response.is_read:
            return
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                while await self._response.read() is not None:
                    pass
        except Exception as error:  # noqa: BLE001 - the answer is complete; only the connection is lost
            _log.debug("a connection cannot be used again: %s", type(error).__name__)

    async def body(self, stall: StallTimeout, *, most: int) -> bytes:
        """Read a body that is not a stream, up to ``most`` bytes."""
        chunks: list[bytes] = []
        size = 0
        while size < most and (chunk := await self.read(stall)) is not None:
            chunks.append(chunk)
            size += len(chunk)
        return b"".join(chunks)[:most]


class HttpTransport:
    """The connections to one provider. They are opened at the first request; close them with `aclose`."""

    def __init__(self, *, network: NetworkSettings, clock: Callable[[], float] = time.time) -> None:
        self._network = network
        self._clock = clock
        self._connections: dict[tuple[str | None, bool], Connections] = {}
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def send(
        self,
        method: str,
        address: ProviderAddress,
        *,
        headers: Mapping[str, str],
        content: bytes = b"",
        stall: StallTimeout,
        redact: Redact = str,
    ) -> AsyncIterator[ProviderResponse]:
        """Send a request. The response is read inside the ``async with``; leaving it closes the response."""

        def map_error(error: BaseException) -> ModelError:
            return _map_error(error, address, redact)

        response = ProviderResponse(await self._open(method, address, headers, content, stall, map_error), map_error)
        try:
            yield response
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        opened, self._connections = self._connections, {}
        for connections in opened.values():
            await connections.aclose()

    def error(self, response: ProviderResponse, body: bytes, *, host: str, redact: Redact = str) -> ModelError:
        """Map a response that is not a stream."""
        return error_from_response(response.status, response.headers, body, host=host, now=self._clock(), redact=redact)

    async def _open(
        self,
        method: str,
        address: ProviderAddress,
        headers: Mapping[str, str],
        content: bytes,
        stall: StallTimeout,
        map_error: Callable[[BaseException], ModelError],
    ) -> OpenResponse:
        limit = asyncio.timeout_at(stall.begin_wait())
        try:
            async with limit:
                connections = await self._connections_to(address)
                return await connections.send(
                    method, address.url, headers=headers, content=content, connect_seconds=_CONNECT_SECONDS
                )
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001 - every error of the library becomes one of our classes
            failure = stall.error() if limit.expired() else map_error(error)
        finally:
            stall.end_wait()
        raise failure

    async def _connections_to(self, address: ProviderAddress) -> Connections:
        proxy = choose_proxy(address, self._network)
        encrypted = address.url.startswith("https:") or (proxy or "").startswith("https:")
        key = (proxy, encrypted)
        if key not in self._connections:
            async with self._opening:
                if key not in self._connections:
                    self._connections[key] = await self._new_connections(proxy, encrypted=encrypted)
        return self._connections[key]

    async def _new_connections(self, proxy: str | None, *, encrypted: bool) -> Connections:
        tls = await asyncio.to_thread(_tls_context, self._network.ca_file) if encrypted else None
        if proxy is None:
            return DirectConnections(tls=tls, keep_alive_seconds=_KEEP_ALIVE_SECONDS)
        from holdfast.models.proxied_connection import ProxiedConnections

        return await asyncio.to_thread(ProxiedConnections, proxy, tls=tls, keep_alive_seconds=_KEEP_ALIVE_SECONDS)


def _tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Runs in a thread, because the certificates are read from disk."""
    import ssl

    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        reason = error.strerror or "it contains no certificates"
        raise ModelInvalid(f"cannot use the certificates in {ca_file!r}: {reason}; check network.ca_file") from None
    if ca_file is None and (sys.platform != "linux" or not context.cert_store_stats()["x509_ca"]):
        import httpx2  # it knows where other systems keep their certificates

        return httpx2.create_ssl_context()
    return context


def _map_error(error: BaseException, address: ProviderAddress, redact: Redact) -> ModelError:
    """Messages of the operating system are quoted, data from the server is not."""
    host = address.host
    match error:
        case ConnectTimeout():
            return ModelNetwork(f"no connection to {host} within {_CONNECT_SECONDS:g} s")
        case ProxyRefused():
            return ModelNetwork(f"the proxy did not connect to {host}: {sanitize_message(str(error), redact)}")
        case CannotConnect():
            return ModelNetwork(f"cannot connect to {host}: {sanitize_message(str(error), redact) or 'unknown reason'}")
        case InvalidHttpRequest():
            return ModelInvalid(f"the request to {host} cannot be sent; check base_url, the key and the headers")
        case UnreadableContent():
            return ModelMalformed(f"{host} sent an answer with broken compression")
        case BrokenHttpResponse():
            return ModelNetwork(f"the connection to {host} broke ({error})")
    return ModelNetwork(f"the request to {host} failed ({type(error).__name__})")
