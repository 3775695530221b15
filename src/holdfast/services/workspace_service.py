"""Opening, joining and closing directories, and what is done with a whole one."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from holdfast.errors import BadRequest, NotFound
from holdfast.runs import Engine
from holdfast.schema.approvals import Grant
from holdfast.schema.events import ConfigChanged
from holdfast.schema.sessions import Job, Workspace, WorkspaceView
from holdfast.store import Batch
from holdfast.store.writes import PutWorkspace, RemoveGrants
from holdfast.workspace.open_workspace import OpenWorkspace, OpenWorkspaces


class WorkspaceService:
    """All workspaces of one server. One per resolved directory (`W1`)."""

    def __init__(self, rooms: OpenWorkspaces, engine: Engine) -> None:
        self._rooms = rooms
        self._engine = engine
        self._shared = rooms.shared
        self._opening = asyncio.Lock()
        self._idle_since: dict[str, float] = {}

    async def open(self, path: str) -> tuple[WorkspaceView, bool]:
        """The workspace of a directory, and whether it is new. Joins one that is open; runs nothing of it."""
        directory = await asyncio.to_thread(_directory, path)
        async with self._opening:
            known = await self._shared.store.workspace_at(str(directory))
            workspace = known or await self._register(directory)
            await self._enter(workspace)
        return await self.view(workspace.id), known is None

    async def open_known(self, workspace_id: str) -> OpenWorkspace:
        """The live parts of a workspace, opened if it is not; `NotFound` if its directory is gone."""
        room = self._rooms.get(workspace_id)
        if room is not None:
            return room
        workspace = await self._shared.store.workspace(workspace_id)
        await asyncio.to_thread(_directory, workspace.path)
        async with self._opening:
            return await self._enter(workspace)

    async def open_unfinished(self) -> int:
        """Those with runs that have not ended, at the start of a server (`W6`); how many."""
        count = 0
        for workspace_id in await self._engine.unfinished_workspaces():
            try:
                await self.open_known(workspace_id)
            except (BadRequest, NotFound):
                continue  # its directory is gone; it is opened when it is back
            count += 1
        return count

    async def view(self, workspace_id: str) -> WorkspaceView:
        store = self._shared.store
        cursor = self._shared.hub.cursor
        workspace = await store.workspace(workspace_id)
        approvals = await store.open_approvals(workspace_id=workspace_id)
        questions = await store.open_questions(workspace_id=workspace_id)
        room = self._rooms.get(workspace_id)
        return WorkspaceView(
            id=workspace.id,
            path=workspace.path,
            trusted=await asyncio.to_thread(self._shared.trust.is_trusted, Path(workspace.path)),
            created_at=workspace.created_at,
            open=room is not None,
            busy_sessions=self._engine.count_active(workspace_id),
            active_runs=self._engine.count_active(workspace_id),
            unfinished_runs=self._engine.count_unfinished(workspace_id),
            running_jobs=len(room.jobs.running) if room else 0,
            pending_approvals=len(approvals.items),
            pending_questions=len(questions.items),
            cursor=cursor,
        )

    async def views(self) -> tuple[WorkspaceView, ...]:
        return tuple([await self.view(workspace.id) for workspace in await self._shared.store.workspaces()])

    async def trust(self, workspace_id: str, *, trusted: bool = True) -> WorkspaceView:
        """Let the directory's own configuration, hooks and servers take part, or not any more."""
        workspace = await self._shared.store.workspace(workspace_id)
        store = self._shared.trust
        await asyncio.to_thread(store.trust if trusted else store.revoke, Path(workspace.path))
        if room := self._rooms.get(workspace_id):
            room.forget_setup()
        await self.tell_config_changed(("trust",), workspace_id=workspace_id)
        return await self.view(workspace_id)

    async def tell_config_changed(self, keys: tuple[str, ...], *, workspace_id: str | None = None) -> None:
        for room in self._rooms.all():
            room.forget_setup()
        event = ConfigChanged(at=self._shared.now(), workspace_id=workspace_id, keys=keys)
        await self._shared.store.commit(Batch(events=(event,)))

    async def grants(self, workspace_id: str) -> tuple[Grant, ...]:
        await self._shared.store.workspace(workspace_id)
        return await self._shared.store.grants(workspace_id)

    async def remove_grants(self, workspace_id: str, *, grant_id: str | None = None) -> None:
        await self._shared.store.workspace(workspace_id)
        await self._shared.store.commit(Batch((RemoveGrants(workspace_id=workspace_id, grant_id=grant_id),)))

    async def kill_job(self, job_id: str) -> Job:
        """End a background job; one that has ended stays as it is."""
        job = await self._shared.store.job(job_id)
        room = self._rooms.get(job.workspace_id)
        if job.state != "running" or room is None:
            return job
        return await room.jobs.kill(job_id)

    async def files(self, workspace_id: str, query: str, *, limit: int) -> tuple[str, ...]:
        """Files whose names fit, best first."""
        return await (await self.open_known(workspace_id)).file_names.find(query, limit=limit)

    async def close(self, workspace_id: str) -> None:
        """Interrupt its runs, end its jobs, let go of it. Others do not notice (`W3`)."""
        await self._shared.store.workspace(workspace_id)
        await self._engine.close_workspace(workspace_id)
        await self._rooms.close(workspace_id)
        self._idle_since.pop(workspace_id, None)

    async def close_idle(self, *, watched: frozenset[str], linger: float, now: float) -> None:
        """Unload what nobody watches and nothing happens in, after a while (`W2`)."""
        for room in self._rooms.all():
            workspace_id = room.workspace.id
            if workspace_id in watched or room.is_busy or self._engine.count_unfinished(workspace_id):
                self._idle_since.pop(workspace_id, None)
            elif now - self._idle_since.setdefault(workspace_id, now) >= linger:
                await self.close(workspace_id)

    @property
    def is_busy(self) -> bool:
        """Whether anything is unfinished or runs anywhere."""
        return bool(self._engine.count_unfinished()) or any(room.is_busy for room in self._rooms.all())

    async def _register(self, directory: Path) -> Workspace:
        made = Workspace(id=self._shared.ids.new("wsp"), path=str(directory), created_at=self._shared.now())
        await self._shared.store.commit(Batch((PutWorkspace(made),)))
        return made

    async def _enter(self, workspace: Workspace) -> OpenWorkspace:
        room = await self._rooms.open(workspace)
        await self._engine.open_workspace(workspace.id)
        return room


def _directory(path: str) -> Path:
    """The resolved directory, or a mistake of the caller's."""
    if not os.path.isabs(path):
        raise BadRequest(f"the path of a workspace must be absolute, got {path!r}")
    if "\0" in path:
        raise BadRequest("the path of a workspace must not contain a NUL character")
    resolved = Path(os.path.realpath(path))
    if not resolved.exists():
        raise BadRequest(f"there is no directory {path!r}", code="directory_not_found")
    if not resolved.is_dir():
        raise BadRequest(f"{path!r} is not a directory", code="not_a_directory")
    return resolved
