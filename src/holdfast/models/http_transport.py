"""HTTP access to providers: bytes with time-outs. All failures become our error classes.

The connection is closed at once when the reading task is cancelled or leaves the ``async with``. Errors do not
reference the request, so that no traceback contains a key.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from holdfast.errors import ModelError, ModelInvalid, ModelMalformed, ModelNetwork
from holdfast.models.error_mapping import Redact, error_from_response, sanitize_message
from holdfast.models.provider_address import ProviderAddress, choose_proxy
from holdfast.models.stall_timeout import StallTimeout
from holdfast.tasks import WaitLimit

if TYPE_CHECKING:
    import httpx2

    from holdfast.config.settings import NetworkSettings

_CONNECT_SECONDS = 20.0
_KEEP_ALIVE_SECONDS = 60.0
_DRAIN_SECONDS = 0.1
_LAZY_IMPORTS = ("anyio.streams.tls", "anyio._backends._asyncio")
"""Modules that the library would import on the event loop at the first connection."""

_log = logging.getLogger(__name__)


class ProviderResponse:
    """A response whose body is being read."""

    def __init__(self, response: httpx2.Response, map_error: Callable[[BaseException], ModelError]) -> None:
        self.status = response.status_code
        self.headers: dict[str, str] = {name.lower(): value for name, value in response.headers.items()}
        encoded = self.headers.get("content-encoding", "identity") != "identity"
        source = response.aiter_bytes() if encoded else response.stream
        self._chunks: AsyncIterator[bytes] = aiter(source)  # type: ignore[arg-type]
        self._response = response
        self._map_error = map_error
        self._limit = WaitLimit()

    @property
    def is_success(self) -> bool:
        return self.status in range(200, 300)

    async def read(self, stall: StallTimeout) -> bytes | None:
        """Return the next bytes, or None at the end. Raises `ModelStall` after a time-out."""
        try:
            return await self._limit.wait(anext(self._chunks, None), until=stall.begin_wait())
        except Exception as error:  # noqa: BLE001 - every error of the library becomes one of our classes
            failure = stall.error() if self._limit.expired else self._map_error(error)
        finally:
            stall.end_wait()
        raise failure

    async def aclose(self) -> None:
        self._limit.close()
        try:
            if isinstance(self._chunks, AsyncGenerator):
                await self._chunks.aclose()
            await self._response.aclose()
        except Exception as error:  # noqa: BLE001 - the connection is closed in any case
            _log.debug("closing a connection failed with %s", type(error).__name__)

    async def drain(self) -> None:
        """Read to the end if it arrives at once, so that the connection can be used again."""
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                async for _ in self._chunks:
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
        self._pools: dict[tuple[str | None, bool], httpx2.AsyncHTTPTransport] = {}
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
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            await pool.aclose()

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
    ) -> httpx2.Response:
        limit = asyncio.timeout_at(stall.begin_wait())
        try:
            async with limit:
                pool, httpx2 = await self._pool(address)
                timeouts = {"connect": _CONNECT_SECONDS, "read": None, "write": None, "pool": None}
                request = httpx2.Request(
                    method, address.url, headers=dict(headers), content=content, extensions={"timeout": timeouts}
                )
                return await pool.handle_async_request(request)
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001 - every error of the library becomes one of our classes
            failure = stall.error() if limit.expired() else map_error(error)
        finally:
            stall.end_wait()
        raise failure

    async def _pool(self, address: ProviderAddress) -> tuple[httpx2.AsyncHTTPTransport, ModuleType]:
        proxy = choose_proxy(address, self._network)
        encrypted = address.url.startswith("https:") or (proxy or "").startswith("https:")
        async with self._opening:
            if (proxy, encrypted) not in self._pools:
                opened = await asyncio.to_thread(_open_pool, proxy, self._network.ca_file, encrypted=encrypted)
                self._pools[proxy, encrypted] = opened
        return self._pools[proxy, encrypted], _library()


def _library() -> ModuleType:
    import httpx2

    return httpx2


def _open_pool(proxy: str | None, ca_file: str | None, *, encrypted: bool) -> httpx2.AsyncHTTPTransport:
    """Runs in a thread, because the import and the certificates are read from disk."""
    import ssl

    import httpx2

    for name in _LAZY_IMPORTS:
        import_module(name)
    logging.getLogger("httpcore2").setLevel(logging.INFO)  # DEBUG logs headers and the proxy's password
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=_KEEP_ALIVE_SECONDS)
    try:
        verify: Any = True
        if not encrypted:
            verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # unused; loading certificates would take time
        elif ca_file:
            verify = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        reason = error.strerror or "it contains no certificates"
        raise ModelInvalid(f"cannot use the certificates in {ca_file!r}: {reason}; check network.ca_file") from None
    try:
        return httpx2.AsyncHTTPTransport(verify=verify, proxy=proxy, limits=limits)
    except ImportError:
        raise ModelInvalid("a SOCKS proxy needs the 'socksio' package; install it, or change network.proxy") from None


def _map_error(error: BaseException, address: ProviderAddress, redact: Redact) -> ModelError:
    """Map an error of the library. Messages of the operating system are quoted, data from the server is not."""
    import httpx2

    host = address.host
    match error:
        case httpx2.ConnectTimeout():
            return ModelNetwork(f"no connection to {host} within {_CONNECT_SECONDS:g} s")
        case httpx2.ProxyError():
            return ModelNetwork(f"the proxy did not connect to {host}: {sanitize_message(str(error), redact)}")
        case httpx2.ConnectError():
            return ModelNetwork(f"cannot connect to {host}: {sanitize_message(str(error), redact) or 'unknown reason'}")
        case httpx2.LocalProtocolError() | httpx2.UnsupportedProtocol() | httpx2.InvalidURL() | UnicodeError():
            return ModelInvalid(f"the request to {host} cannot be sent; check base_url, the key and the headers")
        case httpx2.DecodingError():
            return ModelMalformed(f"{host} sent an answer with broken compression")
        case httpx2.HTTPError() | OSError():
            return ModelNetwork(f"the connection to {host} broke ({type(error).__name__})")
    return ModelNetwork(f"the request to {host} failed ({type(error).__name__})")
