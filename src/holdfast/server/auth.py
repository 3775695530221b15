"""Access control (`W8`): the socket's owner, or a token over TCP.

Pages of other sites and the agent's own commands are refused.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
import stat
from collections.abc import Collection
from pathlib import Path

from holdfast.errors import BadRequest, ConfigError, Forbidden, Unauthorized
from holdfast.files import write_atomic
from holdfast.server.http.connection_peer import PEER
from holdfast.server.http.request_parsing import HEADERS, Receive
from holdfast.server.http.responses import AsgiApp, Scope, Send

MIN_TOKEN_LENGTH = 16


class AccessControl:
    """Checks the requests of one listener. Without a token the listener is a socket that only its owner can open."""

    def __init__(self, app: AsgiApp, *, token: str | None, public_paths: Collection[str]) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._public_paths = frozenset(public_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (peer := scope.get(PEER)) is not None:
            await peer.refuse_tools()
        headers = scope[HEADERS] = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if self._token is not None:
            _check_host(host)
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").lower() != f"http://{host}":
            raise Forbidden("requests from pages of other sites are refused", code="foreign_origin")
        if self._token is not None and scope["path"] not in self._public_paths:
            self._check_token(headers.get(b"authorization", b""))
        await self._app(scope, receive, send)

    def _check_token(self, given: bytes) -> None:
        assert self._token is not None
        kind, _, value = given.partition(b" ")
        if kind.lower() != b"bearer" or not hmac.compare_digest(value.strip(), self._token):
            raise Unauthorized("this address needs the server's token: send 'Authorization: Bearer TOKEN'")


def _check_host(host: str) -> None:
    """Accept addresses and ``localhost``. Any other name could be pointed at this server (DNS rebinding)."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if not name:
        raise BadRequest("the request needs a Host header", detail={"field": "Host"})
    if name != "localhost" and not _is_address(name):
        raise Forbidden(f"host {name[:100]!r} is not accepted; use 'localhost' or an IP address", code="foreign_host")


def _is_address(name: str) -> bool:
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
    token = secrets.token_urlsafe(32)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomic(path, f"{token}\n".encode(), mode=0o600)
    except OSError as error:
        raise ConfigError(f"cannot write the token file {str(path)!r}: {error.strerror}") from None
    return token
