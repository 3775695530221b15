"""uvicorn on our sockets, and stopped our way: soon, whatever is still open."""

from __future__ import annotations

import asyncio
import socket

import uvicorn

from holdfast.server.http.connection import bounded
from holdfast.server.http.endpoint import Responder
from holdfast.server.server_parts import ServerLimits


class HttpServer(uvicorn.Server):
    """Serves one listener from `start` until `stop`. Signals are not its business."""

    def __init__(self, app: Responder, *, limits: ServerLimits) -> None:
        self._protocol = bounded(
            head_bytes=limits.head_bytes, head_seconds=limits.head_seconds, body_seconds=limits.body_seconds
        )
        config = uvicorn.Config(
            app,
            http=self._protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=limits.keep_alive_seconds,
        )
        super().__init__(config)
        self._stop_seconds = limits.stop_seconds

    async def start(self, sock: socket.socket) -> None:
        """Returns when it accepts connections."""
        if not self.config.loaded:
            self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        await self.startup(sockets=[sock])

    async def stop(self) -> None:
        """No new connections; answers that are being sent get a moment, then all connections are closed."""
        self._protocol.is_stopped = True
        for server in self.servers:
            server.close()
        for connection in tuple(self.server_state.connections):
            connection.shutdown()
        await self._finish(self._stop_seconds)
        for task in tuple(self.server_state.tasks):
            task.cancel()
        await self._finish(0.5)
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)

    async def _finish(self, seconds: float) -> None:
        if tasks := tuple(self.server_state.tasks):
            await asyncio.wait(tasks, timeout=seconds)
