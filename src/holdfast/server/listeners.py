"""The sockets that a server listens on: a private Unix socket, and TCP with a token."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import ConfigError, StoreLocked
from holdfast.files import file_identity
from holdfast.schema.base import Value
from holdfast.server.auth import TcpAccess
from holdfast.server.http.responses import AsgiApp

if TYPE_CHECKING:
    import ssl

_BACKLOG = 512
_UNACKNOWLEDGED_MILLISECONDS = 60_000


class UnixListener:
    """A Unix socket that only its owner can open."""

    def __init__(self, sock: socket.socket, path: Path, *, app: AsgiApp | None = None) -> None:
        self.socket = sock
        self.path = path
        self.app = app
        """What answers there; ``None``: the API."""
        self._identity = file_identity(path, follow_links=False)

    def __str__(self) -> str:
        return f"unix:{self.path}"

    def is_lost(self) -> bool:
        """Whether the path was removed, so that nobody can connect any more. Blocks."""
        return file_identity(self.path, follow_links=False) is None

    def remove(self) -> None:
        """Remove the path, unless another server has replaced it. Blocks."""
        if self._identity is not None and file_identity(self.path, follow_links=False) == self._identity:
            self.path.unlink(missing_ok=True)


class TcpListener:
    """A host and port, and what requests need."""

    def __init__(self, sock: socket.socket, *, host: str, access: TcpAccess, tls: ssl.SSLContext | None = None) -> None:
        self.socket = sock
        self.host = host
        self.port: int = sock.getsockname()[1]
        self.access = access
        self.tls = tls

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.access.scheme}://{host}:{self.port}"

    def remove(self) -> None:
        """TCP leaves nothing to remove."""


Listener = UnixListener | TcpListener


class TcpAddress(Value, frozen=True):
    host: str
    port: int


_LISTEN = {"option": "--listen"}
_LOOPBACK = ("127.0.0.1", "::1")


def parse_listen(text: str, *, allow_remote: bool = False) -> TcpAddress:
    """Parse the ``host:port`` of ``--listen``. An address that other machines can reach needs ``allow_remote``."""
    host, colon, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"--listen needs host:port, such as 127.0.0.1:0; got {text!r}", detail=_LISTEN)
    if host == "localhost":
        host = "127.0.0.1"
    if host in _LOOPBACK:
        return TcpAddress(host, int(port))
    import ipaddress  # not above: nearly all servers listen on these two

    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise ConfigError(
            f"--listen needs an IP address of this machine or 'localhost', not {host!r}", detail=_LISTEN
        ) from None
    if not address.is_loopback and not allow_remote:
        raise ConfigError(
            f"{host} can be reached from other machines, and anyone with the token can run commands as you; "
            "add --allow-remote to listen there",
            detail=_LISTEN,
        )
    return TcpAddress(str(address), int(port))


def listen_tcp(address: TcpAddress, *, access: TcpAccess, tls: ssl.SSLContext | None = None) -> TcpListener:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # ends a stream whose reader vanished without closing it
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MILLISECONDS)
        sock.bind((address.host, address.port))
        sock.listen(_BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise ConfigError(f"cannot listen on {address.host}:{address.port}: {error.strerror}") from None
    return TcpListener(sock, host=address.host, access=access, tls=tls)


def listen_unix(path: Path, *, app: AsgiApp | None = None) -> UnixListener:
    """Listen at a path. A stale socket is replaced; `StoreLocked` if a server answers there.

    The socket gets its final name only when it is private and listens.
    """
    if _is_answered(path):
        raise StoreLocked(f"another server answers at {str(path)!r}; use it, or stop it first")
    draft = path.with_name(f".{os.getpid()}")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        draft.unlink(missing_ok=True)
        sock.bind(str(draft))
        draft.chmod(0o600)
        sock.listen(_BACKLOG)
        sock.setblocking(False)
        draft.replace(path)
    except OSError as error:
        sock.close()
        draft.unlink(missing_ok=True)
        raise ConfigError(f"cannot listen at {str(path)!r}: {error.strerror or error}") from None
    return UnixListener(sock, path, app=app)


def _is_answered(path: Path) -> bool:
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ConfigError(f"{str(path)!r} is in the way: it is not a socket; remove it")
    except FileNotFoundError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(2.0)
        try:
            probe.connect(str(path))
        except TimeoutError:
            return True
        except OSError as error:
            return error.errno not in (errno.ECONNREFUSED, errno.ENOENT)
    return True
