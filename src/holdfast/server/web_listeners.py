"""The sockets of the web page, which are opened and closed while the server runs."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.digests import sha256_hex
from holdfast.errors import ConfigError
from holdfast.server.application import make_app
from holdfast.server.auth import TcpAccess
from holdfast.server.http.http_server import HttpServer
from holdfast.server.listeners import TcpAddress, TcpListener, listen_tcp
from holdfast.server.server_parts import ServerParts
from holdfast.services.web_service import OpenWebListener, WebListen

if TYPE_CHECKING:
    import ssl

_logger = logging.getLogger(__name__)


class WebListeners:
    """Implements `WebSockets`. Only paired devices are let in; the server's token does not count here."""

    def __init__(self, parts: ServerParts) -> None:
        self._parts = parts
        self._servers: dict[OpenWebListener, tuple[HttpServer, TcpListener]] = {}

    async def open(self, listen: WebListen) -> OpenWebListener:
        """Raises `ConfigError` if the port is in use or the certificate cannot be used."""
        tls, fingerprint = None, ""
        if listen.certificate is not None and listen.key is not None:
            tls, fingerprint = await asyncio.to_thread(_load_certificate, listen.certificate, listen.key)
        names = frozenset(name.lower().rstrip(".") for name in listen.names)
        access = TcpAccess(scheme="https" if tls else "http", names=names)
        listener = listen_tcp(TcpAddress(listen.host, listen.port), access=access, tls=tls)
        server = HttpServer(
            make_app(self._parts, tcp=access), limits=self._parts.limits, find_tool_peers=self._parts.find_tool_peers
        )
        await server.start(listener.socket, tls=tls)
        opened = OpenWebListener(replace(listen, port=listener.port), fingerprint)
        self._servers[opened] = server, listener
        _logger.info("serving the web page at %s", listener)
        return opened

    async def close(self, opened: OpenWebListener) -> None:
        server, listener = self._servers.pop(opened)
        await server.stop(at_once=True)
        listener.socket.close()
        _logger.info("the web page is not served any more at port %d", opened.listen.port)

    async def close_all(self) -> None:
        """Let responses finish, as at the end of the server."""
        servers = list(self._servers.values())
        self._servers.clear()
        await asyncio.gather(*(server.stop() for server, _ in servers))
        for _, listener in servers:
            listener.socket.close()


def _load_certificate(certificate: str, key: str) -> tuple[ssl.SSLContext, str]:
    import ssl

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key, password=_refuse_password)
        first = Path(certificate).read_text("ascii").partition("-----END CERTIFICATE-----")
        der = ssl.PEM_cert_to_DER_cert(first[0][first[0].index("-----BEGIN") :] + first[1])
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the certificate {certificate!r} with the key {key!r} cannot be used: {error}; "
            "both must be PEM files, and the key must not have a password"
        ) from None
    digest = sha256_hex(der).upper()
    return context, ":".join(digest[start : start + 2] for start in range(0, len(digest), 2))


def _refuse_password() -> str:
    raise ValueError("the key has a password")
