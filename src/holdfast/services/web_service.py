"""Where the server serves its web page: on loopback, and on the network with a certificate.

The choice is kept in a file of the state directory, so that a server that starts again listens at the same address and
open pages find it. `server/` opens the sockets.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Protocol

import msgspec

from holdfast.errors import BadRequest, HoldfastError, ServerStopping
from holdfast.files import write_atomic
from holdfast.schema.api.request_bodies import WebListenBody
from holdfast.schema.api.response_bodies import WebListenerView, WebView
from holdfast.schema.base import Value, encode

_logger = logging.getLogger(__name__)


class WebListen(Value, frozen=True):
    """An address to listen at. With a certificate it is shared, otherwise it is on loopback."""

    host: str
    port: int
    certificate: str | None = None
    key: str | None = None
    names: tuple[str, ...] = ()

    @property
    def is_shared(self) -> bool:
        return self.certificate is not None


class OpenWebListener(Value, frozen=True):
    listen: WebListen
    """With the port that was chosen."""
    fingerprint: str = ""

    @property
    def view(self) -> WebListenerView:
        listen = self.listen
        host = f"[{listen.host}]" if ":" in listen.host else listen.host
        scheme = "https" if listen.is_shared else "http"
        return WebListenerView(f"{scheme}://{host}:{listen.port}", listen.is_shared, self.fingerprint, listen.names)


class WebSockets(Protocol):
    """Opens and closes the sockets of a running server."""

    async def open(self, listen: WebListen) -> OpenWebListener: ...

    async def close(self, opened: OpenWebListener) -> None: ...


class WebService:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._sockets: WebSockets | None = None
        self._open: dict[bool, OpenWebListener] = {}
        """By whether it is shared."""
        self._changing = asyncio.Lock()

    @property
    def is_shared(self) -> bool:
        """Whether other machines can reach the server. Then it does not exit when it is idle."""
        return True in self._open

    async def start(self, sockets: WebSockets) -> None:
        """Listen again where the last server listened."""
        self._sockets = sockets
        for listen in await asyncio.to_thread(self._read):
            async with self._changing:
                try:
                    self._open[listen.is_shared] = await sockets.open(listen)
                except HoldfastError as error:
                    _logger.warning("the web page is not served at %s:%d: %s", listen.host, listen.port, error)

    def view(self) -> WebView:
        return WebView(tuple(self._open[shared].view for shared in sorted(self._open)))

    async def listen(self, body: WebListenBody) -> WebListenerView:
        """Listen on loopback, or with a certificate on the network. An address that is open already stays open."""
        wanted = WebListen(_checked_host(body), body.port, body.certificate, body.key, body.names)
        if self._sockets is None:
            raise ServerStopping("the server is starting or stopping; try again")
        async with self._changing:
            current = self._open.get(wanted.is_shared)
            if current is not None and not wanted.is_shared and _is_same(current.listen, wanted):
                return current.view
            if current is not None:
                del self._open[wanted.is_shared]
                await self._sockets.close(current)
            opened = await self._open_near(wanted, current)
            self._open[wanted.is_shared] = opened
            await asyncio.to_thread(self._write)
            return opened.view

    async def stop(self) -> WebView:
        """Serve no page any more, now and after the next start."""
        async with self._changing:
            while self._open:
                _, opened = self._open.popitem()
                if self._sockets is not None:
                    await self._sockets.close(opened)
            await asyncio.to_thread(self._write)
        return self.view()

    async def _open_near(self, wanted: WebListen, current: OpenWebListener | None) -> OpenWebListener:
        """Listen at the wanted port; if any will do, at the last one, so that addresses that are known stay true."""
        assert self._sockets is not None
        last = [current.listen] if current is not None else await asyncio.to_thread(self._read)
        ports = [one.port for one in last if (one.is_shared, one.host) == (wanted.is_shared, wanted.host)]
        if wanted.port == 0 and ports:
            try:
                return await self._sockets.open(msgspec.structs.replace(wanted, port=ports[0]))
            except BadRequest:
                raise
            except HoldfastError as error:
                _logger.info("port %d is in use: %s", ports[0], error)
        return await self._sockets.open(wanted)

    def _read(self) -> tuple[WebListen, ...]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=tuple[WebListen, ...])
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.DecodeError) as error:
            _logger.warning("%s cannot be read: %s", self._file, error)
            return ()

    def _write(self) -> None:
        try:
            if self._open:
                write_atomic(self._file, encode([one.listen for one in self._open.values()]), mode=0o600)
            else:
                self._file.unlink(missing_ok=True)
        except OSError as error:
            _logger.warning("%s cannot be written, so the next start does not know it: %s", self._file, error)


def _checked_host(body: WebListenBody) -> str:
    import ipaddress

    try:
        address = ipaddress.ip_address(body.host)
    except ValueError:
        raise BadRequest(
            f"'host' must be an IP address of this machine, not {body.host!r}", detail={"field": "host"}
        ) from None
    if body.certificate is None and not address.is_loopback:
        raise BadRequest(
            f"{body.host} can be reached from other machines; give a certificate and its key",
            detail={"field": "certificate"},
        )
    if (body.certificate is None) != (body.key is None):
        raise BadRequest("give both 'certificate' and 'key'", detail={"field": "key"})
    return str(address)


def _is_same(current: WebListen, wanted: WebListen) -> bool:
    return current.host == wanted.host and wanted.port in (0, current.port)
