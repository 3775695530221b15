"""HTTP requests of tools, limited in destination, size and time.

Each host name is resolved once, all its addresses are checked, and the connection is made to a checked address, so a
name that later resolves to another address has no effect (DNS rebinding). Each redirect is checked in the same way.
Responses are decompressed in pieces up to a limit. With a configured proxy, the proxy connects; names are then checked
if they can be resolved locally.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from holdfast.config import Settings
from holdfast.config.settings import NetworkSettings
from holdfast.errors import ToolError
from holdfast.tools.web.public_addresses import Address, Resolver, is_public, parse_address, resolve_host

if TYPE_CHECKING:
    import httpx2

MAX_REDIRECTS = 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_CONNECT_SECONDS = 10.0
_MAX_ADDRESSES = 4
_PIECE_BYTES = 1 << 16
_USER_AGENT = "Mozilla/5.0 (compatible; Holdfast)"


class WebResponse:
    """A response whose body has not been read yet."""

    def __init__(self, response: httpx2.Response, url: str) -> None:
        self._response = response
        self.url = url
        """The final address, after redirects."""
        self.status: int = response.status_code
        self.reason: str = response.reason_phrase
        self.content_type: str = response.headers.get("content-type", "")

    async def pieces(self, limit: int) -> AsyncIterator[bytes]:
        """Yield the decompressed body until more than `limit` bytes were yielded."""
        unpack = _unpacker(self._response.headers.get("content-encoding", ""))
        total = 0
        try:
            async for raw in self._response.aiter_raw(_PIECE_BYTES):
                for piece in unpack(raw):
                    yield piece
                    total += len(piece)
                    if total > limit:
                        return
        except zlib.error as error:
            raise ToolError(f"{self.url} sent a compressed body that is invalid: {error}") from None

    async def read(self, limit: int) -> tuple[bytes, bool]:
        """Return at most `limit` bytes of the body, and whether there is more."""
        body = bytearray()
        async for piece in self.pieces(limit):
            body += piece
            if len(body) > limit:
                return bytes(body[:limit]), True
        return bytes(body), False


class WebClient:
    """Sends requests with given settings. Tests pass their own resolver and address check."""

    def __init__(
        self,
        settings: Settings,
        *,
        private: bool | None = None,
        resolver: Resolver = resolve_host,
        is_allowed: Callable[[Address], bool] = is_public,
    ) -> None:
        self._private = settings.tools.fetch_private if private is None else private
        self._network = settings.network
        self._resolve = resolver
        self._is_allowed = is_allowed

    @asynccontextmanager
    async def request(
        self,
        url: str,
        *,
        seconds: float,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        permits: Callable[[str], Awaitable[bool]] | None = None,
    ) -> AsyncIterator[WebResponse]:
        """Send a request and follow redirects. Read the body inside the block. Raises `ToolError` on failure.

        ``permits`` is asked about the address of each redirect. The change from http to https of the same address is
        always followed.
        """
        httpx2 = await asyncio.to_thread(_import_httpx2)
        target = url
        try:
            async with asyncio.timeout(seconds):
                for _ in range(MAX_REDIRECTS + 1):
                    parsed = _parse(target)
                    async with self._send(parsed, method=method, headers=headers or {}, body=body) as response:
                        next_url = _redirect(response, parsed)
                        if next_url is None:
                            yield WebResponse(response, str(parsed))
                            return
                    upgraded = _parse(next_url) == parsed.copy_with(scheme="https") and parsed.port is None
                    if permits is not None and not upgraded and not await permits(next_url):
                        raise ToolError(
                            f"{parsed} redirects to {next_url}, which needs approval; request that URL itself",
                            code="redirect_not_permitted",
                        )
                    if response.status_code == 303:
                        method, body = "GET", None
                    if _origin(_parse(next_url)) != _origin(parsed):
                        headers = {}
                    target = next_url
        except TimeoutError:
            raise ToolError(f"{url} took longer than {seconds:g} s") from None
        except httpx2.HTTPError as error:
            raise ToolError(f"{target} cannot be fetched: {str(error) or type(error).__name__}") from None
        raise ToolError(f"{url} redirects more than {MAX_REDIRECTS} times")

    @asynccontextmanager
    async def _send(
        self, url: httpx2.URL, *, method: str, headers: Mapping[str, str], body: bytes | None
    ) -> AsyncIterator[httpx2.Response]:
        import httpx2

        proxy = _proxy_for(url.host, self._network.proxy, self._network.no_proxy)
        hosts = await self._checked_hosts(url, proxied=proxy is not None)
        sent = {"User-Agent": _USER_AGENT, "Accept-Encoding": "gzip, deflate", **headers, "Host": _host_header(url)}
        timeout = httpx2.Timeout(None, connect=_CONNECT_SECONDS / len(hosts)).as_dict()
        extensions: dict[str, Any] = {"timeout": timeout, "sni_hostname": url.host}
        verified = url.scheme == "https" or proxy is not None
        transport = await asyncio.to_thread(_transport, proxy, self._network.ca_file, verified=verified)
        requests = [
            httpx2.Request(method, url.copy_with(host=host), headers=sent, content=body, extensions=extensions)
            for host in hosts
        ]
        async with transport:
            response = await _first_response(transport, requests)
            try:
                yield response
            finally:
                await response.aclose()

    async def _checked_hosts(self, url: httpx2.URL, *, proxied: bool) -> tuple[str, ...]:
        """Return the hosts to try in order: checked addresses, or the name if a proxy resolves it."""
        addresses = await self._addresses(url, proxied=proxied)
        for address in addresses:
            if not (self._private or self._is_allowed(address)):
                shown = url.host if url.host == str(address) else f"{url.host} ({address})"
                raise ToolError(
                    f"{shown} is not a public address, so the request was not sent;"
                    " the user can allow it with tools.fetch_private"
                )
        return (url.host,) if proxied else tuple(map(str, addresses[:_MAX_ADDRESSES]))

    async def _addresses(self, url: httpx2.URL, *, proxied: bool) -> tuple[Address, ...]:
        host = url.raw_host.decode("ascii")
        try:
            if address := parse_address(host):
                return (address,)
            found = await self._resolve(host, _port(url))
        except ValueError as error:
            raise ToolError(str(error)) from None
        except OSError as error:
            if proxied:
                return ()
            raise ToolError(f"host {host!r} cannot be resolved: {error}") from None
        if not found and not proxied:
            raise ToolError(f"host {host!r} has no address")
        return found


def _parse(text: str) -> httpx2.URL:
    import httpx2

    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError, TypeError) as error:
        raise ToolError(f"{text!r} is not a valid URL: {error}") from None
    if url.scheme not in ("http", "https"):
        raise ToolError(f"{text!r} is not an http or https URL")
    if not url.host or url.userinfo or url.port == 0:
        raise ToolError(f"the URL {text!r} must have a host and no user name")
    return url.copy_with(fragment=None)


def _redirect(response: httpx2.Response, url: httpx2.URL) -> str | None:
    location = response.headers.get("location")
    if response.status_code not in _REDIRECTS or not location:
        return None
    try:
        return str(url.join(location))
    except ValueError as error:
        raise ToolError(f"{url} redirects to an invalid URL: {error}") from None


def _origin(url: httpx2.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, _port(url)


def _port(url: httpx2.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def _host_header(url: httpx2.URL) -> str:
    return url.netloc.decode("ascii")


def _proxy_for(host: str, proxy: str | None, direct: tuple[str, ...]) -> str | None:
    if not proxy:
        return None
    name = host.lower().rstrip(".")
    for entry in direct:
        bare = entry.lower().strip().lstrip("*.").partition(":")[0]
        if entry.strip() == "*" or name == bare or name.endswith(f".{bare}"):
            return None
    return proxy


def make_transport(url: str, network: NetworkSettings) -> httpx2.AsyncHTTPTransport:
    """Return a transport for requests to one address, with the configured proxy and certificates. Blocking."""
    parsed = _parse(url)
    proxy = _proxy_for(parsed.host, network.proxy, network.no_proxy)
    return _transport(proxy, network.ca_file, verified=parsed.scheme == "https" or proxy is not None)


def _import_httpx2() -> Any:
    """Import httpx2 and what it would import at the first connection. Called in a thread, because it is slow."""
    import anyio._backends._asyncio
    import anyio.streams.tls  # noqa: F401 - see above
    import httpx2

    return httpx2


async def _first_response(transport: httpx2.AsyncHTTPTransport, requests: list[httpx2.Request]) -> httpx2.Response:
    """Return the response of the first address that accepts a connection."""
    import httpx2

    for request in requests[:-1]:
        try:
            return await _send_request(transport, request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            continue
    return await _send_request(transport, requests[-1])


async def _send_request(transport: httpx2.AsyncHTTPTransport, request: httpx2.Request) -> httpx2.Response:
    response = await transport.handle_async_request(request)
    response.request = request
    return response


def _transport(proxy: str | None, ca_file: str | None, *, verified: bool) -> httpx2.AsyncHTTPTransport:
    """Return a transport for one request. Blocking, because it reads certificates; plain HTTP needs none."""
    import ssl

    import httpx2

    if not verified:
        return httpx2.AsyncHTTPTransport(verify=False, trust_env=False)
    try:
        verify = ssl.create_default_context(cafile=ca_file) if ca_file else httpx2.create_ssl_context()
        return httpx2.AsyncHTTPTransport(verify=verify, proxy=proxy, trust_env=False)
    except OSError as error:
        raise ToolError(f"the certificates in {ca_file!r} cannot be used: {error}; check network.ca_file") from None
    except ImportError:
        raise ToolError("a SOCKS proxy needs the 'socksio' package; install it, or change network.proxy") from None


def _unpacker(encoding: str) -> Any:
    """Return a function that decompresses received bytes into pieces of limited size."""
    match encoding.strip().lower():
        case "" | "identity":
            return lambda raw: (raw,)
        case "gzip" | "x-gzip" | "deflate":
            return _Inflater().feed
    raise ToolError(f"the body is encoded as {encoding!r}, which was not asked for")


class _Inflater:
    """Decompresses gzip and both kinds of deflate in bounded pieces."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(47)
        self._begun = False

    def feed(self, raw: bytes) -> Any:
        data = raw
        while data and not self._inflate.eof:
            try:
                piece = self._inflate.decompress(data, _PIECE_BYTES)
            except zlib.error:
                if self._begun:
                    raise
                self._inflate = zlib.decompressobj(-15)  # "deflate" without its wrapper, as some servers send it
                piece = self._inflate.decompress(data, _PIECE_BYTES)
            self._begun = True
            data = self._inflate.unconsumed_tail
            if piece:
                yield piece
