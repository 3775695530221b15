"""The server itself: health, what it does, usage statistics, backup, stop."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from holdfast import __version__
from holdfast.errors import BadRequest, Conflict
from holdfast.events import prune_audit, prune_now
from holdfast.runs import Engine
from holdfast.schema.api.response_bodies import (
    BackupView,
    CleanupView,
    PageView,
    SandboxView,
    ServerView,
    StatsView,
)
from holdfast.schema.api.server_views import Health
from holdfast.schema.sessions import IdKind, IdMatch
from holdfast.services.presence import Presence
from holdfast.services.server_state import ServerState
from holdfast.services.workspace_reach import WorkspaceReach
from holdfast.services.workspace_service import WorkspaceService
from holdfast.workspace.maintenance import remove_old_files_now, size_of_files
from holdfast.workspace.shared_parts import SharedParts

_STATS_DAYS = 30
_MAX_FOREIGN_IDS = 1000
"""How many ids are read to find those that the sender may see."""


class ServerService:
    def __init__(
        self,
        shared: SharedParts,
        engine: Engine,
        *,
        workspaces: WorkspaceService,
        presence: Presence,
        state: ServerState,
        keep_events: float,
        keep_audit: float,
        build: str,
    ) -> None:
        self._shared = shared
        self._store = shared.store
        self._hub = shared.hub
        self._clock = shared.clock
        self._keep_events = keep_events
        self._keep_audit = keep_audit
        self._engine = engine
        self._workspaces = workspaces
        self._presence = presence
        self._state = state
        self._build = build

    def health(self) -> Health:
        return Health(__version__, self._build, "stopping" if self._state.stopping else "ok")

    def view(self) -> ServerView:
        """It reads nothing from the store: a server whose database is damaged can be found and stopped."""
        active = self._engine.count_active()
        return ServerView(
            version=__version__,
            build=self._build,
            pid=os.getpid(),
            uptime=round(self._state.uptime, 3),
            stopping=self._state.stopping,
            workspaces=self._workspaces.count_open(),
            clients=len({client.id for client in self._presence.clients()}),
            streams=self._presence.streams,
            active_runs=active,
            queued_runs=self._engine.count_unfinished() - active,
        )

    async def sandbox(self) -> SandboxView:
        """Try the sandboxes, once, in the way in which commands are confined."""
        await asyncio.to_thread(self._shared.prepare)
        found = await self._shared.launcher.sandbox.availability()
        return SandboxView(
            backend=found.backend,
            namespace=found.namespace,
            bubblewrap=found.bubblewrap,
            landlock=found.landlock,
            not_covered=found.not_covered,
        )

    def stop(self, *, if_idle: bool, own_requests: int = 0) -> None:
        """Begin to stop. With ``if_idle``, raise `Conflict` if anything is active, or the server is to be kept.

        ``own_requests`` is the number of active requests that belong to the caller.
        """
        if if_idle and self._state.is_kept:
            raise Conflict(
                "the server was not started by a client, but by a person or a service manager; stop it there, or with "
                "'holdfast stop'",
                code="server_kept",
            )
        if if_idle and (self._workspaces.is_busy or self._state.active_requests > own_requests):
            raise Conflict(
                "the server is busy; wait until its runs and jobs have ended, or stop it without 'if_idle'",
                code="server_busy",
                detail={"unfinished_runs": self._engine.count_unfinished()},
            )
        self._state.request_stop()

    async def stop_runs(self) -> bool:
        """Interrupt active runs and hold the queues, in bounded time (`W5`). Returns whether that is written."""
        return await self._engine.stop()

    async def backup(self, path: str) -> BackupView:
        """Copy the database to a new file while the server works."""
        target = Path(path)
        if not target.name or not await asyncio.to_thread(target.parent.is_dir):
            raise BadRequest(
                f"{path!r} cannot be written: its directory does not exist; create it first", detail={"field": "path"}
            )
        await self._store.backup(target)
        return BackupView(str(target), await asyncio.to_thread(os.path.getsize, target))

    async def clean_up(self) -> CleanupView:
        """Remove now what the server removes by itself once an hour, and give free space back to the disk."""
        shared = self._shared
        database, files = await self._store.size(), await asyncio.to_thread(size_of_files, shared)
        events = await prune_now(self._store, keep_seconds=self._keep_events, clock=self._clock)
        audit = await prune_audit(self._store, keep_seconds=self._keep_audit, clock=self._clock)
        contents, outputs = await remove_old_files_now(shared)
        await self._store.give_back_space()
        return CleanupView(
            events=events,
            contents=contents,
            outputs=outputs,
            audit=audit,
            database_before=database,
            database_after=await self._store.size(),
            files_before=files,
            files_after=await asyncio.to_thread(size_of_files, shared),
        )

    async def find_ids(
        self, prefix: str, *, kinds: tuple[IdKind, ...], limit: int, reach: WorkspaceReach | None = None
    ) -> PageView[IdMatch]:
        """What has an id that begins with ``prefix``; only it, if the prefix is an id."""
        cursor = self._hub.cursor
        if reach is not None:
            found = await self._store.find_ids(prefix, kinds=kinds, limit=_MAX_FOREIGN_IDS)
            return PageView((await reach.only_own(found))[:limit], cursor)
        return PageView(await self._store.find_ids(prefix, kinds=kinds, limit=limit), cursor)

    async def stats(self, *, since: date | None = None, until: date | None = None) -> StatsView:
        """Usage by day and model, and calls by day and tool; the last 30 days by default."""
        today = datetime.fromtimestamp(self._clock(), UTC).date()
        last = (until or today).isoformat()
        first = (since or today - timedelta(days=_STATS_DAYS - 1)).isoformat()
        return StatsView(
            first,
            last,
            await self._store.usage_stats(since=first, until=last),
            await self._store.tool_stats(since=first, until=last),
        )
