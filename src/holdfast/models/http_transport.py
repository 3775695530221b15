"""The one seam to HTTP. What comes in is bytes under deadlines; what goes wrong is one of our error classes.

A connection is closed at once when the task that reads it is cancelled or leaves the ``async with``. No error carries
the request with it, so that no key can be read off a traceback.
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
from holdfast.models import error_mapping
from holdfast.models.provider_address import Network, ProviderAddress, proxy_for
from holdfast.models.stall_timeout import StallTimeout

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT = 20.0
_KEEP_ALIVE = 60.0
_DRAIN_SECONDS = 0.1
_LATE = ("anyio.streams.tls", "anyio._backends._asyncio")
"""What the library would else import on the event loop, with the first connection."""


_log = logging.getLogger(__name__)


class ProviderResponse:
    """A response that is being read."""

    def __init__(self, response: httpx2.Response, failed: Callable[[BaseException], ModelError]) -> None:
        self.status = response.status_code
        self.headers: dict[str, str] = {name.lower(): value for name, value in response.headers.items()}
        encoded = self.headers.get("content-encoding", "identity") != "identity"
        source = response.aiter_bytes() if encoded else response.stream
        self._chunks: AsyncIterator[bytes] = aiter(source)  # type: ignore[arg-type]
        self._response = response
        self._failed = failed

    async def read(self, patience: StallTimeout) -> bytes | None:
        """The next bytes; None at the end. Raises `ModelStall` when patience ends first."""
        limit = asyncio.timeout_at(patience.wait())
        try:
            async with limit:
                return await anext(self._chunks, None)
        except Exception as error:  # noqa: BLE001 - becomes one of our classes, whatever the library raised
            failure = patience.stall() if limit.expired() else self._failed(error)
        finally:
            patience.rest()
        raise failure

    async def aclose(self) -> None:
        try:
            if isinstance(self._chunks, AsyncGenerator):
                await self._chunks.aclose()
            await self._response.aclose()
        except Exception as error:  # noqa: BLE001 - the connection is gone, which is all that closing is for
            _log.debug("closing a connection ended with %s", type(error).__name__)

    async def drain(self) -> None:
        """Read to the end if that is at hand, so that the connection can be used again."""
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                async for _ in self._chunks:
                    pass
        except Exception as error:  # noqa: BLE001 - the answer is complete; only the connection is lost
            _log.debug("a connection cannot be used again: %s", type(error).__name__)

    async def body(self, patience: StallTimeout, *, most: int) -> bytes:
        """The beginning of a body that is no stream."""
        pieces: list[bytes] = []
        size = 0
        while size < most and (piece := await self.read(patience)) is not None:
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces)[:most]


class HttpTransport:
    """The connections to one provider. Opened with the first request; close it with `aclose`."""

    def __init__(self, *, network: Network | None = None, clock: Callable[[], float] = time.time) -> None:
        self._network = network or Network()
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
        patience: StallTimeout,
        redact: error_mapping.Redact = str,
    ) -> AsyncIterator[ProviderResponse]:
        """Ask, and read the answer inside the ``async with``; leaving it closes what was not read."""

        def failed(error: BaseException) -> ModelError:
            return _failure(error, address, redact)

        answer = ProviderResponse(await self._open(method, address, headers, content, patience, failed), failed)
        try:
            yield answer
        finally:
            await answer.aclose()

    async def aclose(self) -> None:
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            await pool.aclose()

    def error(self, answer: ProviderResponse, body: bytes, *, host: str, redact: error_mapping.Redact) -> ModelError:
        """What an answer that is no stream means."""
        return error_mapping.from_response(
            answer.status, answer.headers, body, host=host, now=self._clock(), redact=redact
        )

    async def _open(
        self,
        method: str,
        address: ProviderAddress,
        headers: Mapping[str, str],
        content: bytes,
        patience: StallTimeout,
        failed: Callable[[BaseException], ModelError],
    ) -> httpx2.Response:
        limit = asyncio.timeout_at(patience.wait())
        try:
            async with limit:
                pool, httpx2 = await self._pool(address)
                timeouts = {"connect": CONNECT_TIMEOUT, "read": None, "write": None, "pool": None}
                request = httpx2.Request(
                    method, address.url, headers=dict(headers), content=content, extensions={"timeout": timeouts}
                )
                return await pool.handle_async_request(request)
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001 - becomes one of our classes, whatever the library raised
            failure = patience.stall() if limit.expired() else failed(error)
        finally:
            patience.rest()
        raise failure

    async def _pool(self, address: ProviderAddress) -> tuple[httpx2.AsyncHTTPTransport, ModuleType]:
        proxy = proxy_for(address, self._network)
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
    """In a thread: the import and the certificates are read from disk."""
    import ssl

    import httpx2

    for name in _LATE:
        import_module(name)
    logging.getLogger("httpcore2").setLevel(logging.INFO)  # below it, headers and a proxy's password are logged
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=_KEEP_ALIVE)
    try:
        verify: Any = True
        if not encrypted:
            verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts nobody: reading certificates takes its time
        elif ca_file:
            verify = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        reason = error.strerror or "it holds no certificates"
        raise ModelInvalid(f"cannot use the certificates in {ca_file!r}: {reason}; check network.ca_file") from None
    try:
        return httpx2.AsyncHTTPTransport(verify=verify, proxy=proxy, limits=limits)
    except ImportError:
        raise ModelInvalid("a SOCKS proxy needs the 'socksio' package; install it, or change network.proxy") from None


def _failure(error: BaseException, address: ProviderAddress, redact: error_mapping.Redact) -> ModelError:
    """Our class for what the library raised. Words of the peer are not repeated, words of the system are."""
    import httpx2

    host = address.host
    match error:
        case httpx2.ConnectTimeout():
            return ModelNetwork(f"no connection to {host} within {CONNECT_TIMEOUT:g} s")
        case httpx2.ProxyError():
            return ModelNetwork(f"the proxy gave no connection to {host}: {error_mapping.shown(str(error), redact)}")
        case httpx2.ConnectError():
            return ModelNetwork(
                f"cannot connect to {host}: {error_mapping.shown(str(error), redact) or 'no reason given'}"
            )
        case httpx2.LocalProtocolError() | httpx2.UnsupportedProtocol() | httpx2.InvalidURL() | UnicodeError():
            return ModelInvalid(f"a request to {host} cannot be sent; check base_url, the key and the headers")
        case httpx2.DecodingError():
            return ModelMalformed(f"{host} sent an answer whose compression is broken")
        case httpx2.HTTPError() | OSError():
            return ModelNetwork(f"the connection to {host} broke ({type(error).__name__})")
    return ModelNetwork(f"the request to {host} failed ({type(error).__name__})")
