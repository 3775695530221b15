"""The link to the server: connects, loads what is shown, follows the events, and connects again by itself.

It fills the view fold and reports what changed. It never ends because of the server: a server that cannot be started
or reached is tried again, and one that was stopped on purpose is started again only when the user does something.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Literal, Protocol

from msgspec.structs import replace

from holdfast.client.async_client import AsyncClient
from holdfast.client.client_environment import shell_variables, with_shell, with_shell_models
from holdfast.client.local_server import open_async_client
from holdfast.client.transcript import StreamedText
from holdfast.client.view_fold import SessionSnapshot, ViewFold
from holdfast.client.view_values import StreamConnection
from holdfast.errors import Gone, HoldfastError, NotFound, ServerStopping, StoreDamaged, StoreUnwritable
from holdfast.schema.api.response_bodies import ConfigView, ModelsView, RepositoryView
from holdfast.schema.commands import PromptCommand
from holdfast.schema.events import ConfigChanged, Event, ExtensionChanged, Hello, MessageCreated, RunAccepted
from holdfast.schema.extensions import ExtensionStatus
from holdfast.schema.runs import Run, RunRequest
from holdfast.schema.sessions import WorkspaceView
from holdfast.tui.actions import slash_commands
from holdfast.tui.terminal_signals import plain_text

_logger = logging.getLogger(__name__)

_MESSAGES_PER_PAGE = 300
_RUNS_PER_PAGE = 1000
_RETRY_SECONDS = 3.0

LinkProblem = Literal["", "failed", "stopped"]


class LinkListener(Protocol):
    """Is told what happens. Called on the event loop."""

    def link_changed(self) -> None:
        """The connection, the workspace, the models or the configuration changed."""

    def view_changed(self, aspects: frozenset[str], event: Event | None) -> None:
        """The fold changed; ``event`` is None when everything was loaded anew."""

    def server_restarted(self) -> None: ...

    def session_missing(self, session_id: str) -> None:
        """The session does not exist, or was deleted."""


class ServerLink:
    """One workspace of one server, and the session that is shown."""

    def __init__(self, *, env: Mapping[str, str], directory: str, listener: LinkListener) -> None:
        self._env = env
        self._directory = directory
        self._listener = listener
        self.fold = ViewFold()
        self.client: AsyncClient | None = None
        self.workspace: WorkspaceView | None = None
        self.models: ModelsView | None = None
        self.config: ConfigView | None = None
        self.custom_commands: tuple[tuple[str, str], ...] = ()
        """Names and descriptions of commands that the server knows. They are completed, and sent as they are typed."""
        self.extensions: tuple[ExtensionStatus, ...] = ()
        self.repository: RepositoryView | None = None
        self._loads: list[list[ExtensionStatus]] = []
        """The states that were announced while each list of extensions is loaded."""
        self.read_only = ""
        """Why the server cannot store anything at the moment; empty if it can."""
        self.session_id: str | None = None
        self.problem: LinkProblem = ""
        self.problem_text = ""
        self._server_pid = 0
        self._ready = asyncio.Event()
        self._wake = asyncio.Event()
        self._older_runs: str | None = None
        """Runs before this one are not loaded; ``None`` if all are."""
        self._switch = asyncio.Event()

    @property
    def is_live(self) -> bool:
        return self.fold.connection.state == "live"

    async def ready(self) -> AsyncClient:
        """The client, as soon as the workspace is open. A stopped server is started again."""
        self._wake.set()
        await self._ready.wait()
        assert self.client is not None
        return self.client

    def with_shell(self, request: RunRequest) -> RunRequest:
        """The request with the variables of the shell in which the UI was started."""
        assert self.client is not None
        assert self.workspace is not None
        return with_shell(request, self._env, workspace=self.workspace, address=self.client.address)

    def shell_variables(self) -> dict[str, str] | None:
        assert self.client is not None
        assert self.workspace is not None
        return shell_variables(self._env, workspace=self.workspace, address=self.client.address)

    def show(self, session_id: str | None) -> None:
        """Show another session, or none."""
        if session_id == self.session_id:
            return
        if self.session_id is not None:
            self.fold.close_session(self.session_id)
        self.session_id = session_id
        self._switch.set()

    async def run(self, *, choose_last: bool = False) -> None:
        """Connect, then follow the events until cancelled."""
        try:
            while True:
                try:
                    await self._connect()
                    if choose_last:
                        choose_last = False
                        await self._choose_last()
                    await self._stay()
                except HoldfastError as error:
                    await self._report(error)
        finally:
            if self.client is not None:
                await self.client.aclose()

    def note_error(self, error: HoldfastError) -> None:
        """Keep in mind that nothing can be stored, until something is stored again."""
        if isinstance(error, StoreUnwritable | StoreDamaged):
            self.read_only = error.message
            self._listener.link_changed()

    async def reload_settings(self) -> None:
        """Read the models and the configuration again."""
        client, workspace = self.client, self.workspace
        if client is None or workspace is None:
            return
        self.config = await client.config(workspace.id)
        self.models = with_shell_models(await client.models(workspace_id=workspace.id), self._env)
        self.workspace = await client.workspace(workspace.id)
        self._listener.link_changed()

    async def reload_commands(self) -> None:
        """Read the commands of files, skills and MCP servers again. What is known stays if the server is not there."""
        client, workspace = self.client, self.workspace
        if client is None or workspace is None:
            return
        with suppress(HoldfastError):
            found = (await client.commands(workspace.id)).items
            own = {name for name, _ in slash_commands()}
            self.custom_commands = tuple(
                (command.name, _described(command)) for command in found if command.name not in own
            )

    async def _connect(self) -> None:
        if self.client is None:
            self.client = await open_async_client(self._env, name="tui")
            self.client.leave_stopped = True
        else:
            self.client.leave_stopped = False  # the user asked for it
            await self.client.health()
            self.client.leave_stopped = True
        self.workspace = await self.client.open_workspace(self._directory)
        self._server_pid = (await self.client.server()).pid
        self.problem = self.problem_text = ""
        await self.reload_settings()
        self._ready.set()
        self._listener.link_changed()

    async def _choose_last(self) -> None:
        assert self.client is not None
        assert self.workspace is not None
        found = (await self.client.sessions(self.workspace.id, limit=1)).items
        if found and self.session_id is None:
            self.session_id = found[0].id

    async def _stay(self) -> None:
        """Load and follow; begin again when the session changes or the log was reset."""
        while True:
            self._switch.clear()
            cursor = await self._load()
            follow = asyncio.create_task(self._follow_events(cursor), name="tui:events")
            older = asyncio.create_task(self._load_older(), name="tui:older messages")
            around = asyncio.create_task(self.load_surroundings(), name="tui:extensions and repository")
            switch = asyncio.create_task(self._switch.wait(), name="tui:switch")
            try:
                done, _ = await asyncio.wait((follow, switch), return_when=asyncio.FIRST_COMPLETED)
                if follow in done:
                    follow.result()
            finally:
                for task in (follow, older, around, switch):
                    task.cancel()
                await asyncio.gather(follow, older, around, switch, return_exceptions=True)

    async def _load(self) -> str:
        """Read everything that is shown. Returns the earliest of the cursors."""
        client, workspace = self.client, self.workspace
        assert client is not None
        assert workspace is not None
        sessions = await client.sessions(workspace.id, limit=200)
        fold = self.fold
        fold.load_sessions(sessions.items)
        approvals, questions, jobs, clients = await asyncio.gather(
            client.approvals(workspace.id),
            client.questions(workspace.id),
            client.jobs(workspace.id),
            client.clients(workspace.id),
        )
        fold.load_jobs(jobs.items)
        fold.load_clients(clients.items)
        fold.load_asks(approvals.items, questions.items)
        if self.session_id is not None:
            try:
                await self._load_session(client, self.session_id)
            except (NotFound, Gone):
                missing, self.session_id = self.session_id, None
                self._listener.session_missing(missing)
        self._listener.view_changed(frozenset({"reset"}), None)
        return sessions.cursor

    async def _load_session(self, client: AsyncClient, session_id: str) -> None:
        session = await client.session(session_id)
        messages, runs = await asyncio.gather(
            client.messages(session_id, before="end", limit=_MESSAGES_PER_PAGE),
            client.runs(session_id, limit=_RUNS_PER_PAGE),
        )
        self._older_runs = runs.next
        self.fold.open_session(
            SessionSnapshot(
                session=session,
                messages=tuple(messages.items),
                older=messages.next,
                runs=runs.items,
                queue=session.queue,
                todos=session.todos,
            )
        )

    async def load_surroundings(self) -> None:
        """Load what is shown beside the session. Nothing waits for it, and what cannot be read is not shown."""
        await self.reload_commands()
        client, workspace = self.client, self.workspace
        assert client is not None
        assert workspace is not None
        meanwhile: list[ExtensionStatus] = []
        self._loads.append(meanwhile)
        try:
            repository, extensions = await asyncio.gather(
                client.repository(workspace.id), client.extensions(workspace.id), return_exceptions=True
            )
        finally:
            self._loads = [load for load in self._loads if load is not meanwhile]
        if not isinstance(repository, BaseException):
            self.repository = repository
        if not isinstance(extensions, BaseException):
            self.extensions = extensions.items
            for status in meanwhile:  # an event may be newer than the list
                self._set_extension(status)
        self._listener.link_changed()

    def _note_extension(self, status: ExtensionStatus) -> None:
        for meanwhile in self._loads:
            meanwhile.append(status)
        self._set_extension(status)
        self._listener.link_changed()

    def _set_extension(self, status: ExtensionStatus) -> None:
        kept = [s for s in self.extensions if (s.kind, s.name) != (status.kind, status.name)]
        self.extensions = (*kept, status)

    async def _load_older(self) -> None:
        """Load the rest of a long session behind its end, page by page."""
        client, session_id = self.client, self.session_id
        assert client is not None
        while session_id is not None and (fold := self.fold.transcript(session_id)) and fold.older is not None:
            page = await client.messages(session_id, before=fold.older, limit=_MESSAGES_PER_PAGE)
            runs: tuple[Run, ...] = ()
            if self._older_runs is not None:  # at least as many as the page of messages belongs to
                more = await client.runs(session_id, limit=_RUNS_PER_PAGE, before=self._older_runs)
                runs, self._older_runs = more.items, more.next
            self.fold.load_older(session_id, page.items, runs, older=page.next)
            self._listener.view_changed(frozenset({"blocks"}), None)

    async def _follow_events(self, cursor: str) -> None:
        client, workspace = self.client, self.workspace
        assert client is not None
        assert workspace is not None
        was_lost = False

        def lost(error: Exception, seconds: float) -> None:
            nonlocal was_lost
            was_lost = True
            state = self.fold.connection
            if state.state != "lost":
                since = datetime.now(UTC).isoformat()
                self.fold.set_connection(replace(state, state="lost", since=since, detail=str(error)))
                self._listener.link_changed()

        async with client.events(
            workspace_id=workspace.id,
            viewing=self.session_id,
            after=cursor,
            transcript=StreamedText(),  # the fold keeps the messages that are shown
            on_lost=lost,
        ) as events:
            async for event in events:
                aspects = self.fold.apply(event)
                if self.read_only and isinstance(event, RunAccepted | MessageCreated):
                    self.read_only = ""
                if "reset" in aspects:
                    return
                if isinstance(event, Hello):
                    self._listener.link_changed()
                    if was_lost:
                        was_lost = False
                        await self._check_restart(client)
                elif isinstance(event, ConfigChanged):
                    await self.reload_settings()
                    await self.load_surroundings()
                elif isinstance(event, ExtensionChanged):
                    self._note_extension(event.extension)
                self._listener.view_changed(frozenset(aspects), event)

    async def _check_restart(self, client: AsyncClient) -> None:
        """A server that started again opens a workspace, and continues its queues, when a client asks for it."""
        pid = (await client.server()).pid
        if pid != self._server_pid:
            self._server_pid = pid
            await client.open_workspace(self._directory)
            self._listener.server_restarted()

    async def _report(self, error: HoldfastError) -> None:
        """Say why there is no connection, then wait: for the user after a stop, else for a while."""
        _logger.warning("no connection: %s", error.message)
        self._ready.clear()
        self._wake.clear()
        self.problem = "stopped" if isinstance(error, ServerStopping) else "failed"
        self.problem_text = error.message
        self.fold.set_connection(StreamConnection("lost", detail=error.message))
        self._listener.link_changed()
        try:
            async with asyncio.timeout(None if self.problem == "stopped" else _RETRY_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            pass


def _described(command: PromptCommand) -> str:
    return plain_text(" ".join(filter(None, (command.argument_hint, command.description))), longest=100)
