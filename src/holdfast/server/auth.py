"""Access control (`W8`): the socket's owner, and over TCP the server's token, or the token of a device or person.

Pages of other sites and the agent's own commands are refused. Files of the web page and the pairing need no token.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from holdfast.digests import are_equal_secrets
from holdfast.errors import BadRequest, ConfigError, Conflict, Forbidden, Unauthorized
from holdfast.files import write_atomic
from holdfast.ids import new_token
from holdfast.schema.base import Value
from holdfast.schema.devices import Device
from holdfast.server.device_cookie import browser_token
from holdfast.server.http.connection_peer import PEER
from holdfast.server.http.request_access import ACCESS, FORWARDED, RequestAccess
from holdfast.server.http.request_parsing import HEADERS, Receive
from holdfast.server.http.responses import AsgiApp, Scope, Send
from holdfast.services import Services

MIN_TOKEN_LENGTH = 16
PAIRING_PATH = "/v1/pairing"


class TcpAccess(Value, frozen=True):
    """What requests to a TCP listener need. A private socket needs nothing."""

    token: str | None = None
    """The token of the server itself. Without one, only devices are let in."""
    scheme: str = "http"
    names: frozenset[str] = frozenset()
    """Host names besides ``localhost`` and addresses: those of a certificate."""


class AccessControl:
    """Checks the requests of one listener."""

    def __init__(
        self,
        app: AsgiApp,
        services: Services,
        *,
        tcp: TcpAccess | None,
        public_paths: Collection[str] = (),
        is_page: Callable[[str], Awaitable[bool]] | None = None,
        peer_access: Callable[[Mapping[bytes, bytes]], RequestAccess | None] | None = None,
    ) -> None:
        """``is_page`` says whether a path is a file of the web page, which needs no token.

        ``peer_access`` recognises requests that another server of the fleet forwarded.
        """
        self._app = app
        self._tcp = tcp
        self._token = None if tcp is None or tcp.token is None else tcp.token.encode()
        self._scheme = "http" if tcp is None else tcp.scheme
        self._devices = services.devices
        self._people = services.people
        self._public_paths = frozenset(public_paths)
        self._is_page = is_page
        self._peer_access = peer_access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (peer := scope.get(PEER)) is not None:
            await peer.refuse_tools()
        headers = scope[HEADERS] = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if self._tcp is not None:
            _check_host(host, names=self._tcp.names)
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").lower() != f"{self._scheme}://{host}":
            raise Forbidden("requests from pages of other sites are refused", code="foreign_origin")
        if self._peer_access is not None and (access := self._peer_access(headers)) is not None:
            scope[ACCESS] = access
            scope[FORWARDED] = True
            await self._app(scope, receive, send)
            return
        if self._tcp is None or self._is_owner(headers):
            await self._app(scope, receive, send)
            return
        device = await self._device(scope["method"], headers)
        if device is not None:
            await self._serve_device(device, scope, receive, send)
            return
        if not await self._is_public(scope["path"]):
            raise Unauthorized("this address needs the server's token: send 'Authorization: Bearer TOKEN'")
        if peer is not None and scope["path"] == PAIRING_PATH:
            await peer.refuse_other_users()
        scope[ACCESS] = _NOBODY
        await self._app(scope, receive, send)

    async def _is_public(self, path: str) -> bool:
        return path in self._public_paths or (self._is_page is not None and await self._is_page(path))

    def _is_owner(self, headers: Mapping[bytes, bytes]) -> bool:
        return self._token is not None and are_equal_secrets(_bearer(headers), self._token)

    async def _device(self, method: str, headers: Mapping[bytes, bytes]) -> Device | None:
        """The device whose token the request has: as a bearer token, or as the cookie and the key of our own page."""
        if bearer := _bearer(headers):
            return await self._devices.recognise(bearer.decode("latin-1"))
        is_secure = self._scheme == "https"
        token = browser_token(headers, server_id=self._devices.server_id, secure=is_secure)
        if token is None:
            return None
        if headers.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none"):
            raise Forbidden("requests from pages of other sites are refused", code="foreign_origin")
        if method not in ("GET", "HEAD") and b"origin" not in headers:
            raise Forbidden("a request with a cookie needs an Origin", code="foreign_origin")
        return await self._devices.recognise(token)

    async def _serve_device(self, device: Device, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a device's request. If it is revoked or its rights change meanwhile, a read ends as if the device had
        disconnected, and a mutation is refused unless its body was read before."""
        with self._devices.request(device) as ended:
            person = None if device.person is None else await self._people.owner_of(device)
            if device.person is not None and person is None:
                raise Unauthorized("this token belongs to a person who was removed")
            scope[ACCESS] = RequestAccess.of(device, person)

            async def receive_all() -> MutableMapping[str, Any]:
                message = await receive()
                self._raise_if_ended(device, ended)
                return message

            async def receive_until_ended() -> MutableMapping[str, Any]:
                return await _first(receive(), ended)

            async def send_unless_ended(message: MutableMapping[str, Any]) -> None:
                if message["type"] == "http.response.start":
                    self._raise_if_ended(device, ended)
                if ended.is_set() and message.get("more_body"):
                    message = {**message, "body": b""}
                await send(message)

            if scope["method"] in ("GET", "HEAD"):
                await self._app(scope, receive_until_ended, send_unless_ended)
            else:
                await self._app(scope, receive_all, send)

    def _raise_if_ended(self, device: Device, ended: asyncio.Event) -> None:
        if not ended.is_set():
            return
        if self._devices.is_known(device):
            raise Conflict("what you may do was changed just now; send the request again", code="access_changed")
        raise Unauthorized("this device was revoked")


_NOBODY = RequestAccess("watch", anonymous=True)


async def _first(received: Awaitable[MutableMapping[str, Any]], revoked: asyncio.Event) -> MutableMapping[str, Any]:
    waiting = asyncio.ensure_future(received)
    ended = asyncio.create_task(revoked.wait(), name="device revoked")
    try:
        await asyncio.wait((waiting, ended), return_when=asyncio.FIRST_COMPLETED)
        return waiting.result() if waiting.done() else {"type": "http.disconnect"}
    finally:
        waiting.cancel()
        ended.cancel()


def _bearer(headers: Mapping[bytes, bytes]) -> bytes:
    kind, _, value = headers.get(b"authorization", b"").partition(b" ")
    return value.strip() if kind.lower() == b"bearer" else b""


_LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")


def _check_host(host: str, *, names: Collection[str]) -> None:
    """Accept addresses, ``localhost`` and known names. Any other name could be pointed here (DNS rebinding)."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if not name:
        raise BadRequest("the request needs a Host header", detail={"field": "Host"})
    if name not in _LOCAL_HOSTS and name not in names and not _is_address(name):
        raise Forbidden(f"host {name[:100]!r} is not accepted; use 'localhost' or an IP address", code="foreign_host")


def _is_address(name: str) -> bool:
    import ipaddress

    try:
        ipaddress.ip_address(name[1:-1] if name.startswith("[") and name.endswith("]") else name)
    except ValueError:
        return False
    return True


def check_token(token: str) -> str:
    """Return a token that the user chose, if it is strong enough and fits into a header."""
    if len(token) < MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"a token needs at least {MIN_TOKEN_LENGTH} printable characters without spaces")
    return token


def read_token_file(path: Path) -> str:
    """The token in a file; a new one is written there if there is none. A restart keeps the token.

    A file that others can read or write gets a new token. Blocks: call it in a thread or before the loop starts.
    """
    try:
        status = path.lstat()
        private = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
        token = path.read_text("ascii").strip() if private else ""
    except (FileNotFoundError, UnicodeDecodeError):
        token = ""
    except OSError as error:
        raise ConfigError(f"cannot read the token file {str(path)!r}: {error.strerror}") from None
    if len(token) >= MIN_TOKEN_LENGTH:
        return check_token(token)
    token = new_token(32)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomic(path, f"{token}\n".encode(), mode=0o600)
    except OSError as error:
        raise ConfigError(f"cannot write the token file {str(path)!r}: {error.strerror}") from None
    return token
