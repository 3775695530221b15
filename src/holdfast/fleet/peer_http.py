"""HTTP between the servers of a fleet: forwarded requests and relayed streams, with the fleet's token.

A forwarded request carries what its sender may do, as the server that received it found out. A server believes that
only if the request has the fleet's token.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.errors import BadRequest, WorkspaceElsewhere
from holdfast.schema.base import encode
from holdfast.server.http.request_access import RequestAccess

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS = 1.0
_KEEP_ALIVE_SECONDS = 60.0

TOKEN_HEADER: Final = b"x-holdfast-fleet-token"
ACCESS_HEADER: Final = b"x-holdfast-access"

_NOT_FORWARDED = frozenset(
    {
        *{b"host", b"connection", b"keep-alive", b"transfer-encoding", b"te", b"upgrade", b"content-length"},
        *{b"authorization", b"cookie", b"origin", b"referer", b"expect", TOKEN_HEADER, ACCESS_HEADER},
    }
)
_NOT_RETURNED = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"server", b"date"})


class PeerUnreachable(Exception):
    """The server did not answer. Whether it has done what was asked is unknown."""


class FleetToken:
    """The secret that the servers of a fleet share."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def headers(self, access: RequestAccess) -> dict[bytes, bytes]:
        """The headers of a request to another server."""
        return {TOKEN_HEADER: self._token, ACCESS_HEADER: encode(access)}

    def read_access(self, headers: Mapping[bytes, bytes]) -> RequestAccess | None:
        """What the sender of a forwarded request may do; None if no server of this fleet sent it."""
        given = headers.get(TOKEN_HEADER)
        if given is None or not hmac.compare_digest(given, self._token):
            return None
        try:
            return msgspec.json.decode(headers.get(ACCESS_HEADER, b""), type=RequestAccess)
        except msgspec.MsgspecError:
            raise BadRequest("the request of another server does not say what its sender may do") from None


class PeerResponse:
    """The head of a response, and its body as it arrives. Close it."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.headers = [
            (name.lower(), value) for name, value in response.headers.raw if name.lower() not in _NOT_RETURNED
        ]

    @property
    def length(self) -> int | None:
        """The length of the body, if the head says it."""
        declared = dict(self.headers).get(b"content-length", b"")
        return int(declared) if declared.isdigit() else None

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body, not re-chunked by the library. Raises `PeerUnreachable` if it is cut off."""
        stream: Any = self._response.stream
        try:
            async for chunk in stream:
                yield chunk
        except _broken_errors() as error:
            raise PeerUnreachable(f"the answer was cut off ({type(error).__name__})") from None

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])

    async def aclose(self) -> None:
        with suppress(*_broken_errors()):  # it is closed in any case
            await self._response.aclose()


class PeerConnections:
    """Pooled connections to the other servers."""

    def __init__(self, token: FleetToken) -> None:
        self._token = token
        self._transports: dict[str, httpx2.AsyncHTTPTransport] = {}

    async def prepare(self) -> None:
        """Import what the first request needs, so that it is not slower than others."""
        await asyncio.to_thread(_import_http)

    async def send(
        self,
        address: str,
        method: str,
        target: str,
        *,
        headers: Mapping[bytes, bytes],
        access: RequestAccess,
        body: bytes = b"",
        head_seconds: float | None = None,
    ) -> PeerResponse:
        """Send a request and return the response when its head is here. Raises `PeerUnreachable`."""
        import httpx2

        transport = await self._transport(address)
        base = "http://localhost" if address.startswith("unix:") else address
        sent = [(name, value) for name, value in headers.items() if name not in _NOT_FORWARDED]
        timeouts = {"connect": CONNECT_SECONDS, "read": head_seconds, "write": 30.0, "pool": None}
        try:
            request = httpx2.Request(
                method,
                f"{base}{target}",
                headers=[*sent, *self._token.headers(access).items()],
                content=body,
                extensions={"timeout": timeouts},
            )
        except httpx2.InvalidURL as error:
            raise BadRequest(f"the request cannot be sent to the server that owns the workspace: {error}") from None
        try:
            return PeerResponse(await transport.handle_async_request(request))
        except _broken_errors() as error:
            raise PeerUnreachable(f"{address} does not answer ({type(error).__name__})") from None

    async def aclose(self) -> None:
        transports, self._transports = self._transports, {}
        for transport in transports.values():
            await transport.aclose()

    async def _transport(self, address: str) -> httpx2.AsyncHTTPTransport:
        found = self._transports.get(address)
        if found is None:
            opened = await asyncio.to_thread(_open_transport, address)
            found = self._transports.setdefault(address, opened)
        return found


def _import_http() -> None:
    import anyio._backends._asyncio  # noqa: F401 - otherwise imported on the event loop by the first connection
    import httpx2  # noqa: F401


def _open_transport(address: str) -> httpx2.AsyncHTTPTransport:
    """Runs in a thread: the imports read from disk."""
    _import_http()
    import httpx2

    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=_KEEP_ALIVE_SECONDS)
    path = address.removeprefix("unix:") if address.startswith("unix:") else None
    return httpx2.AsyncHTTPTransport(uds=path, limits=limits, trust_env=False)


def _broken_errors() -> tuple[type[Exception], ...]:
    """What the library raises if a connection cannot be made, breaks, or carries something else than HTTP.

    It lets some errors of the layers below through, such as that of a socket that another task has closed.
    """
    import anyio
    import httpx2

    closed = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
    return (httpx2.HTTPError, httpx2.StreamError, *closed, OSError, EOFError)


def elsewhere(workspace_id: str) -> WorkspaceElsewhere:
    return WorkspaceElsewhere(
        f"the server that owns workspace {workspace_id!r} cannot be reached; try again in a few seconds",
        detail={"workspace_id": workspace_id},
    )
