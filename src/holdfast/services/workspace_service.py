"""Workspaces: open, join, trust and close directories; their clients, grants, jobs and files (`W1`–`W3`)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import BadRequest, Forbidden, HoldfastError, NotFound, StoreConflict
from holdfast.extend.instructions import InstructionFiles, find_instructions
from holdfast.runs import Engine
from holdfast.schema.api.request_bodies import DiffQuery
from holdfast.schema.api.response_bodies import ContextView, DiffView, PageView, RepositoryView
from holdfast.schema.approvals import Grant
from holdfast.schema.commands import OfferedMention, PromptCommand
from holdfast.schema.events import ConfigChanged
from holdfast.schema.extensions import AgentView
from holdfast.schema.sessions import Client, Job, Workspace, WorkspaceView
from holdfast.services.api_values import page_view
from holdfast.services.presence import Presence
from holdfast.services.server_state import ServerState
from holdfast.services.workspace_reach import WorkspaceDirectories, WorkspaceReach
from holdfast.store import Batch, Store
from holdfast.store.writes import PutWorkspace, RemoveGrants
from holdfast.workspace.open_workspaces import OpenWorkspaces
from holdfast.workspace.workspace_setup import ConfiguredWorkspace

if TYPE_CHECKING:
    from holdfast.services.workspace_ownership import WorkspaceOwnership
    from holdfast.workspace.open_workspace import OpenWorkspace


class WorkspaceService:
    """All workspaces of one server, one per resolved directory (`W1`)."""

    def __init__(
        self,
        open_workspaces: OpenWorkspaces,
        engine: Engine,
        *,
        presence: Presence,
        state: ServerState,
        paths: WorkspaceDirectories,
        ownership: WorkspaceOwnership | None = None,
    ) -> None:
        self._paths = paths
        self._open_workspaces = open_workspaces
        self._engine = engine
        self._presence = presence
        self._state = state
        self._ownership = ownership
        self._shared = open_workspaces.shared
        self._opening = asyncio.Lock()
        self._idle_since: dict[str, float] = {}

    @property
    def store(self) -> Store:
        return self._shared.store

    async def open(self, path: str, *, reach: WorkspaceReach | None = None) -> tuple[WorkspaceView, bool]:
        """Open a directory, or join its open workspace. Returns the workspace, and whether it is new.

        Runs no code of the directory. ``reach`` limits which directories may be opened.
        """
        self._state.raise_if_stopping()
        directory = await asyncio.to_thread(_resolve_directory, path)
        if reach is not None and not reach.includes_path(str(directory)):  # a link was changed meanwhile
            raise Forbidden(f"you may not work in {path!r}; an admin can change that", code="workspace_forbidden")
        async with self._opening:
            known = await self._shared.store.workspace_at(str(directory))
            workspace = known or await self._register(directory)
            await self._enter(workspace)
        return await self._view(workspace), known is None

    async def open_known(self, workspace_id: str) -> OpenWorkspace:
        """The live parts of a workspace; opens it if needed. `BadRequest` if its directory does not exist."""
        await self.configured(workspace_id)
        return await self._open_workspaces.live(workspace_id)

    async def configured(self, workspace_id: str) -> ConfiguredWorkspace:
        """A workspace whose setup can be read; opens it if needed. `BadRequest` if its directory does not exist."""
        opened = self._open_workspaces.get(workspace_id)
        if opened is not None:
            return opened
        workspace = await self._shared.store.workspace(workspace_id)
        await asyncio.to_thread(_resolve_directory, workspace.path)
        async with self._opening:
            return await self._enter(workspace)

    async def open_unfinished(self) -> int:
        """Open the workspaces that have unfinished runs, at the start of a server (`W6`). Returns how many."""
        count = 0
        if self._ownership is not None:
            return count  # the servers of a fleet divide them among themselves
        for workspace_id in await self._engine.unfinished_workspaces():
            try:
                await self.configured(workspace_id)
            except (BadRequest, NotFound):
                continue  # the directory does not exist; the workspace is opened when it is used again
            count += 1
        return count

    async def view(self, workspace_id: str) -> WorkspaceView:
        return await self._view(await self._shared.store.workspace(workspace_id))

    async def _view(self, workspace: Workspace) -> WorkspaceView:
        store, workspace_id = self._shared.store, workspace.id
        cursor = self._shared.hub.cursor
        approvals = await store.open_approvals(workspace_id=workspace_id)
        questions = await store.open_questions(workspace_id=workspace_id)
        opened, live = self._open_workspaces.get(workspace_id), self._open_workspaces.live_now(workspace_id)
        found, trusted = await asyncio.to_thread(self._read_directory, Path(workspace.path))
        return WorkspaceView(
            id=workspace.id,
            path=workspace.path,
            trusted=trusted,
            created_at=workspace.created_at,
            open=opened is not None,
            busy_sessions=self._engine.count_active(workspace_id),
            active_runs=self._engine.count_active(workspace_id),
            unfinished_runs=self._engine.count_unfinished(workspace_id),
            running_jobs=len(live.jobs.running) if live else 0,
            pending_approvals=len(approvals.items),
            pending_questions=len(questions.items),
            instructions=found.read,
            ignored_instructions=found.ignored,
            variables=await opened.client_variables() if opened else (),
            cursor=cursor,
        )

    def _read_directory(self, directory: Path) -> tuple[InstructionFiles, bool]:
        """What instructions it has, and whether it is trusted. Blocks."""
        return find_instructions(directory), self._shared.trust.is_trusted(directory)

    async def views(self) -> tuple[WorkspaceView, ...]:
        return tuple([await self.view(workspace.id) for workspace in await self._shared.store.workspaces()])

    def count_open(self) -> int:
        return len(self._open_workspaces.all())

    async def list_workspaces(self, *, reach: WorkspaceReach | None = None) -> PageView[WorkspaceView]:
        """Every directory that was ever opened; with ``reach``, those in it."""
        cursor = self._shared.hub.cursor
        known = await self._shared.store.workspaces()
        shown = known if reach is None else [one for one in known if reach.includes(one.id)]
        return PageView(tuple([await self.view(workspace.id) for workspace in shown]), cursor)

    async def trust(self, workspace_id: str, *, trusted: bool = True) -> WorkspaceView:
        """Let the configuration, hooks and servers of the directory take effect, or stop that."""
        workspace = await self._shared.store.workspace(workspace_id)
        store = self._shared.trust
        await asyncio.to_thread(store.trust if trusted else store.revoke, Path(workspace.path))
        await self.announce_config_change(("trust",), workspace_id=workspace_id)
        if not trusted and (live := self._open_workspaces.live_now(workspace_id)) is not None:
            await live.languages.stop()
        return await self.view(workspace_id)

    async def announce_config_change(self, keys: tuple[str, ...], *, workspace_id: str | None = None) -> None:
        """Make every open workspace read its configuration again, and tell the clients."""
        for opened in self._open_workspaces.all():
            opened.forget_setup()
        event = ConfigChanged(at=self._shared.now(), workspace_id=workspace_id, keys=keys)
        await self._shared.store.commit(Batch(events=(event,)))

    async def clients(self, workspace_id: str, *, only_here: bool = False) -> PageView[Client]:
        """The clients that are attached to the workspace; with ``only_here``, without those attached to all."""
        workspace = await self._shared.store.workspace(workspace_id)
        return PageView(self._presence.clients(workspace.id, only_here=only_here), self._shared.hub.cursor)

    async def grants(self, workspace_id: str, *, session_id: str | None = None) -> PageView[Grant]:
        """What was allowed for longer than once, in the workspace and in a session of it."""
        cursor, store = self._shared.hub.cursor, self._shared.store
        workspace = await store.workspace(workspace_id)
        if session_id is not None:
            await store.session(session_id)
        return PageView(await store.grants(workspace.id, session_id=session_id), cursor)

    async def remove_grants(
        self, workspace_id: str, *, grant_id: str | None = None, session_id: str | None = None
    ) -> PageView[Grant]:
        """Remove one grant, or all. Returns those that are left, like `grants`."""
        await self._shared.store.workspace(workspace_id)
        await self._shared.store.commit(Batch((RemoveGrants(workspace_id=workspace_id, grant_id=grant_id),)))
        return await self.grants(workspace_id, session_id=session_id)

    async def jobs(self, workspace_id: str, *, running: bool = False) -> PageView[Job]:
        """Background jobs, newest first."""
        workspace = await self._shared.store.workspace(workspace_id)
        page = await self._shared.store.jobs(workspace_id=workspace.id, running=running)
        return page_view(page, self._shared.hub)

    async def job(self, job_id: str) -> Job:
        return await self._shared.store.job(job_id)

    async def kill_job(self, job_id: str) -> Job:
        """End a background job. One that has ended stays as it is."""
        job = await self._shared.store.job(job_id)
        live = self._open_workspaces.live_now(job.workspace_id)
        if job.state != "running" or live is None:
            return job
        return await live.jobs.kill(job_id)

    async def find_files(self, workspace_id: str, query: str, *, limit: int) -> tuple[str, ...]:
        """Paths that match a few typed characters, best first."""
        return await (await self.open_known(workspace_id)).file_names.find(query, limit=limit)

    async def find_mentions(self, workspace_id: str, query: str, *, limit: int) -> tuple[OfferedMention, ...]:
        """Files and resources of MCP servers that match what is typed after an ``@``, best first."""
        opened = await self.open_known(workspace_id)
        try:
            await opened.refresh_extensions()
        except HoldfastError:
            pass  # files can be mentioned while the configuration is invalid
        resources = opened.resources.offered(query, limit=limit)
        server, colon, _ = query.partition(":")
        if colon and opened.resources.has_server(server):
            return resources
        found = await opened.file_names.find(query, limit=limit)
        files = tuple(OfferedMention(name) for name in found[: limit - min(len(resources), limit // 3)])
        return (*files, *resources[: limit - len(files)])

    async def repository(self, workspace_id: str) -> RepositoryView:
        """The branch, and how many files are changed. Git may start programs of a directory, so it must be trusted."""
        from holdfast.workspace.context_gatherer import changed_files, git_branch

        directory = Path((await self._shared.store.workspace(workspace_id)).path)
        branch = await asyncio.to_thread(git_branch, directory)
        if branch is None or not await asyncio.to_thread(self._shared.trust.is_trusted, directory):
            return RepositoryView(branch)
        changed = await changed_files(directory)
        return RepositoryView(branch, None if changed is None else len(changed))

    async def context(self, workspace_id: str) -> ContextView:
        """What the context of a new session consists of."""
        opened = await self.open_known(workspace_id)
        from holdfast.agent.system_prompt import MAX_INSTRUCTION_CHARACTERS
        from holdfast.workspace.context_parts import context_parts

        await opened.refresh_extensions()
        ignored = (await asyncio.to_thread(find_instructions, opened.path)).ignored
        return ContextView(await context_parts(opened), MAX_INSTRUCTION_CHARACTERS, ignored)

    async def commands(self, workspace_id: str) -> PageView[PromptCommand]:
        """The commands that a prompt may call as ``/name``."""
        opened = await self.open_known(workspace_id)
        await opened.refresh_extensions(await opened.setup())
        return PageView(opened.commands.list(), self._shared.hub.cursor)

    async def agents(self, workspace_id: str) -> PageView[AgentView]:
        """The agents of the workspace, also those that cannot be used."""
        opened = await self.open_known(workspace_id)
        from holdfast.workspace.workspace_agents import agent_views, untrusted_views

        setup = await opened.setup()
        known = await opened.agents(setup)
        views = agent_views(known, setup.config, opened.files.found)
        untrusted = await asyncio.to_thread(untrusted_views, opened.files)
        return PageView((*views, *untrusted), self._shared.hub.cursor)

    async def diff(self, workspace_id: str, query: DiffQuery) -> DiffView:
        """The changes of the work tree, of a commit or of a branch."""
        from holdfast.workspace.git_diff import branch_diff, commit_diff, work_tree_diff

        workspace = await self._shared.store.workspace(workspace_id)
        directory = Path(workspace.path)
        if query.commit is not None:
            found = await commit_diff(directory, query.commit)
        elif query.branch or query.base is not None:
            found = await branch_diff(directory, query.base)
        else:
            if not await asyncio.to_thread(self._shared.trust.is_trusted, directory):
                message = "git may start programs of a directory that is not trusted to compare its files"
                raise BadRequest(f"{message}; trust it, or send the output of 'git diff' yourself", code="not_trusted")
            found = await work_tree_diff(directory)
        redact = self._shared.redact
        return DiffView(redact(found.title), redact(found.text))

    async def close(self, workspace_id: str) -> WorkspaceView:
        """Interrupt the runs of a workspace, end its jobs and unload it. Other workspaces are not affected (`W3`)."""
        await self._shared.store.workspace(workspace_id)
        await self._engine.close_workspace(workspace_id)
        await self._open_workspaces.close(workspace_id)
        self._idle_since.pop(workspace_id, None)
        if self._ownership is not None:
            await self._ownership.disown(workspace_id)
        return await self.view(workspace_id)

    async def close_idle(self, *, watched: frozenset[str], linger: float, now: float) -> None:
        """Close workspaces that have been neither watched nor busy for ``linger`` seconds (`W2`)."""
        for opened in self._open_workspaces.all():
            workspace_id = opened.workspace.id
            live = self._open_workspaces.live_now(workspace_id)
            if (
                workspace_id in watched
                or (live is not None and live.is_busy)
                or self._engine.count_unfinished(workspace_id)
                or self._engine.is_loading(workspace_id)
            ):
                self._idle_since.pop(workspace_id, None)
            elif now - self._idle_since.setdefault(workspace_id, now) >= linger:
                await self.close(workspace_id)

    @property
    def is_busy(self) -> bool:
        """Whether any run is unfinished, also one whose recovery waits for space, or any job is running."""
        return bool(self._engine.count_unfinished()) or self._engine.is_loading() or self._open_workspaces.is_busy

    async def _register(self, directory: Path) -> Workspace:
        workspace = Workspace(id=self._shared.ids.new("wsp"), path=str(directory), created_at=self._shared.now())
        self._paths.add(workspace)
        if self._ownership is not None:
            await self._ownership.own(workspace.id)
        try:
            await self._shared.store.commit(Batch((PutWorkspace(workspace),)))
        except StoreConflict:  # another server was faster
            known = await self._shared.store.workspace_at(str(directory))
            if known is None or self._ownership is None:
                raise
            await self._ownership.disown(workspace.id)
            return known
        return workspace

    async def _enter(self, workspace: Workspace) -> ConfiguredWorkspace:
        if self._ownership is not None:
            await self._ownership.own(workspace.id)
        is_new = self._open_workspaces.get(workspace.id) is None
        opened = self._open_workspaces.open(workspace)
        try:
            await self._engine.open_workspace(workspace.id)
        except Exception:
            if is_new:  # otherwise it looks open, and its queue waits for ever
                await self._open_workspaces.close(workspace.id)
            raise
        return opened


def _resolve_directory(path: str) -> Path:
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
