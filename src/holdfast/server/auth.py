"""Who may speak to the server: whoever can open the socket, or has the token. Pages of other sites may not (`W8`)."""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
import stat
from collections.abc import Collection
from pathlib import Path

from holdfast.errors import BadRequest, ConfigError, Forbidden, Unauthorized
from holdfast.server.http.dispatch import HEADERS
from holdfast.server.http.endpoint import Responder
from holdfast.server.http.request_parsing import Receive
from holdfast.server.http.responses import Scope, Send

SHORTEST_TOKEN = 16


class RequestGate:
    """In front of the routes of one listener. Without a token it guards a socket that only its owner can open."""

    def __init__(
        self, app: Responder, *, token: str | None, public: Collection[str], host_names: Collection[str] = ()
    ) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._public = frozenset(public)
        self._host_names = frozenset(name.lower() for name in host_names) | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = scope[HEADERS] = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if self._token is not None:
            self._check_host(host)
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").lower() != f"http://{host}":
            raise Forbidden("pages of other sites may not speak to this server", code="foreign_origin")
        if self._token is not None and scope["path"] not in self._public:
            self._check_token(headers.get(b"authorization", b""))
        await self._app(scope, receive, send)

    def _check_host(self, host: str) -> None:
        """A name that somebody else's name server can point at us is not ours (DNS rebinding); an address is."""
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if not name:
            raise BadRequest("the request needs a Host header", detail={"field": "Host"})
        if name not in self._host_names and not _is_address(name):
            raise Forbidden(f"this server is not called {name[:100]!r}", code="foreign_host")

    def _check_token(self, given: bytes) -> None:
        assert self._token is not None
        kind, _, value = given.partition(b" ")
        if kind.lower() != b"bearer" or not hmac.compare_digest(value.strip(), self._token):
            raise Unauthorized("this address needs the server's token: send 'Authorization: Bearer TOKEN'")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name[1:-1] if name.startswith("[") and name.endswith("]") else name)
    except ValueError:
        return False
    return True


def checked_token(token: str) -> str:
    """A token that somebody chose."""
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"a token needs at least {SHORTEST_TOKEN} printable characters without spaces")
    return token


def token_from_file(path: Path) -> str:
    """The file's token, so that clients find their server again after a restart; else a new one, written there.

    Blocks: call it in a thread or before the loop.
    """
    try:
        status = path.lstat()
        private = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
        token = path.read_text("ascii").strip() if private else ""
    except (FileNotFoundError, UnicodeDecodeError):
        token = ""
    except OSError as error:
        raise ConfigError(f"cannot read the token file {str(path)!r}: {error.strerror}") from None
    if len(token) >= SHORTEST_TOKEN:
        return checked_token(token)
    token = secrets.token_urlsafe(32)
    _write_private(path, token + "\n")
    return token


def _write_private(path: Path, text: str) -> None:
    """Never readable by others, not even for a moment."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(text)
        draft.replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write the token file {str(path)!r}: {error.strerror}") from None
