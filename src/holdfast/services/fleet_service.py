"""The servers that share the database, and what each owns."""

from __future__ import annotations

import os
import socket
from typing import Protocol

from holdfast import __version__
from holdfast.runs import Engine
from holdfast.schema.api.server_views import FleetServerView, FleetView
from holdfast.services.presence import Presence


class FleetReader(Protocol):
    async def view(self) -> FleetView: ...


class FleetService:
    def __init__(self, engine: Engine, presence: Presence, reader: FleetReader | None) -> None:
        """``reader`` is ``None`` for a server with a database of its own."""
        self._engine = engine
        self._presence = presence
        self._reader = reader

    async def view(self) -> FleetView:
        """All servers, and the workspaces that they own. A server with a database of its own is alone."""
        if self._reader is not None:
            return await self._reader.view()
        alone = FleetServerView(
            id="local",
            host="",
            name=socket.gethostname(),
            version=__version__,
            pid=os.getpid(),
            active_runs=self._engine.count_active(),
            streams=self._presence.streams,
        )
        return FleetView(server_id=alone.id, servers=(alone,))
