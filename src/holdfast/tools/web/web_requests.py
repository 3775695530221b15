"""HTTP for tools, with suspicion: where a request goes, how much comes back, and how long it may take.

Each hop's name is resolved once, every address it has is checked, and the connection is made to an address that was
checked: a name that answers differently the next time gains nothing. Redirects are followed by us, so each is a new
hop. What comes back is decompressed piece by piece up to a limit. Behind a configured proxy the proxy connects; then
names are checked as far as they can be resolved here.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from holdfast.config import Settings
from holdfast.errors import ToolError
from holdfast.tools.web.public_addresses import Address, Resolver, is_public, parse_address, resolve_host

if TYPE_CHECKING:
    import httpx2

MOST_REDIRECTS = 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_CONNECT_SECONDS = 10.0
_MOST_ADDRESSES = 4
_PIECE = 1 << 16
_AGENT = "Mozilla/5.0 (compatible; Holdfast)"


class WebResponse:
    """A response whose body has not been read yet."""

    def __init__(self, response: httpx2.Response, url: str) -> None:
        self._response = response
        self.url = url
        """Where it came from, after redirects."""
        self.status: int = response.status_code
        self.reason: str = response.reason_phrase
        self.content_type: str = response.headers.get("content-type", "")

    async def pieces(self, limit: int) -> AsyncIterator[bytes]:
        """The body, decompressed, up to `limit` bytes and one more piece; the reader stops when it has enough."""
        unpack = _unpacker(self._response.headers.get("content-encoding", ""))
        total = 0
        try:
            async for raw in self._response.aiter_raw(_PIECE):
                for piece in unpack(raw):
                    yield piece
                    total += len(piece)
                    if total > limit:
                        return
        except zlib.error as error:
            raise ToolError(f"{self.url} sent a body that cannot be decompressed: {error}") from None

    async def read(self, limit: int) -> tuple[bytes, bool]:
        """At most `limit` bytes of the body, and whether there was more."""
        body = bytearray()
        async for piece in self.pieces(limit):
            body += piece
            if len(body) > limit:
                return bytes(body[:limit]), True
        return bytes(body), False


class WebClient:
    """Requests under one configuration. The resolver and the rule about addresses can be given, for tests."""

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
    ) -> AsyncIterator[WebResponse]:
        """Send and follow redirects; the body is read inside the block. `ToolError` says what went wrong."""
        httpx2 = await asyncio.to_thread(_import_httpx2)
        target = url
        try:
            async with asyncio.timeout(seconds):
                for _ in range(MOST_REDIRECTS + 1):
                    parsed = _parse(target)
                    async with self._send(parsed, method=method, headers=headers or {}, body=body) as response:
                        following = _redirect(response, parsed)
                        if following is None:
                            yield WebResponse(response, str(parsed))
                            return
                    if response.status_code == 303:
                        method, body = "GET", None
                    if _origin(_parse(following)) != _origin(parsed):
                        headers = {}
                    target = following
        except TimeoutError:
            raise ToolError(f"{url} took longer than {seconds:g} s") from None
        except httpx2.HTTPError as error:
            raise ToolError(f"{target} cannot be read: {str(error) or type(error).__name__}") from None
        raise ToolError(f"{url} redirects more than {MOST_REDIRECTS} times")

    @asynccontextmanager
    async def _send(
        self, url: httpx2.URL, *, method: str, headers: Mapping[str, str], body: bytes | None
    ) -> AsyncIterator[httpx2.Response]:
        import httpx2

        proxy = _proxy_for(url.host, self._network.proxy, self._network.no_proxy)
        hosts = await self._checked_hosts(url, proxied=proxy is not None)
        sent = {"User-Agent": _AGENT, "Accept-Encoding": "gzip, deflate", **headers, "Host": _host_header(url)}
        timeout = httpx2.Timeout(None, connect=_CONNECT_SECONDS / len(hosts)).as_dict()
        extensions: dict[str, Any] = {"timeout": timeout, "sni_hostname": url.host}
        verified = url.scheme == "https" or proxy is not None
        transport = await asyncio.to_thread(_transport, proxy, self._network.ca_file, verified=verified)
        requests = [
            httpx2.Request(method, url.copy_with(host=host), headers=sent, content=body, extensions=extensions)
            for host in hosts
        ]
        async with transport:
            response = await _first_answer(transport, requests)
            try:
                yield response
            finally:
                await response.aclose()

    async def _checked_hosts(self, url: httpx2.URL, *, proxied: bool) -> tuple[str, ...]:
        """What to connect to, one after the other: checked addresses, or the name if a proxy looks it up."""
        addresses = await self._addresses(url, proxied=proxied)
        for address in addresses:
            if not (self._private or self._is_allowed(address)):
                shown = url.host if url.host == str(address) else f"{url.host} ({address})"
                raise ToolError(
                    f"{shown} is not a public address, so it is not reached;"
                    " the user can allow it with tools.fetch_private"
                )
        return (url.host,) if proxied else tuple(map(str, addresses[:_MOST_ADDRESSES]))

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
            raise ToolError(f"{host!r} cannot be found: {error}") from None
        if not found and not proxied:
            raise ToolError(f"{host!r} has no address")
        return found


def _parse(text: str) -> httpx2.URL:
    import httpx2

    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError, TypeError) as error:
        raise ToolError(f"{text!r} is not an address: {error}") from None
    if url.scheme not in ("http", "https"):
        raise ToolError(f"{text!r} is not an http or https address")
    if not url.host or url.userinfo or url.port == 0:
        raise ToolError(f"{text!r} must have a host and no user name in it")
    return url.copy_with(fragment=None)


def _redirect(response: httpx2.Response, url: httpx2.URL) -> str | None:
    location = response.headers.get("location")
    if response.status_code not in _REDIRECTS or not location:
        return None
    try:
        return str(url.join(location))
    except ValueError as error:
        raise ToolError(f"{url} redirects to something that is no address: {error}") from None


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


def _import_httpx2() -> Any:
    """In a thread, with what it would import on the loop at the first connection."""
    import anyio._backends._asyncio
    import anyio.streams.tls  # noqa: F401 - see above
    import httpx2

    return httpx2


async def _first_answer(transport: httpx2.AsyncHTTPTransport, requests: list[httpx2.Request]) -> httpx2.Response:
    """From the first address that takes a connection."""
    import httpx2

    for request in requests[:-1]:
        try:
            return await _answer(transport, request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            continue
    return await _answer(transport, requests[-1])


async def _answer(transport: httpx2.AsyncHTTPTransport, request: httpx2.Request) -> httpx2.Response:
    response = await transport.handle_async_request(request)
    response.request = request
    return response


def _transport(proxy: str | None, ca_file: str | None, *, verified: bool) -> httpx2.AsyncHTTPTransport:
    """A client for one hop. Reads certificates, so it is made in a thread; one without them never sees TLS."""
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
    """A function from received bytes to pieces of the body, none larger than a limit however well it was packed."""
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
                piece = self._inflate.decompress(data, _PIECE)
            except zlib.error:
                if self._begun:
                    raise
                self._inflate = zlib.decompressobj(-15)  # "deflate" without its wrapper, as some servers send it
                piece = self._inflate.decompress(data, _PIECE)
            self._begun = True
            data = self._inflate.unconsumed_tail
            if piece:
                yield piece
