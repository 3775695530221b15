"""The live parts of an open workspace: tools, jobs, titles, snapshots and extensions of its directory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from msgspec.structs import replace

from holdfast.agent.kept_conversations import KeptConversations
from holdfast.approvals.decision import Approver
from holdfast.approvals.workspace_paths import WorkspacePaths
from holdfast.config import (
    Redactor,
    ResolvedModel,
    Settings,
)
from holdfast.config.agent_types import MAIN_AGENT, AgentType, agent_types
from holdfast.extend.extension_provider import ExtensionProvider
from holdfast.extend.file_extensions import FileExtensions
from holdfast.extend.lsp.workspace_languages import LanguageParts, WorkspaceLanguages
from holdfast.extend.mcp.mcp_prompts import McpPrompts
from holdfast.extend.mcp.mcp_resources import McpResources
from holdfast.extend.mcp.mcp_servers import McpParts, McpServers
from holdfast.extend.mcp.server_config import McpServerConfig
from holdfast.extend.mcp.session_servers import McpServerGroup, SessionMcpServers
from holdfast.extend.source_folders import user_folders
from holdfast.models.protocol import Model
from holdfast.models.stall_timeout import StallLimits
from holdfast.schema.approvals import Subject
from holdfast.schema.events import ExtensionChanged, JobFinished, JobStarted
from holdfast.schema.extensions import ExtensionStatus
from holdfast.schema.sessions import Job
from holdfast.store import Batch
from holdfast.store.writes import PutJob
from holdfast.tools.jobs import JobTable
from holdfast.tools.process.command_process import command_environment
from holdfast.tools.registry import ToolRegistry
from holdfast.workspace.context_gatherer import DirectoryContextGatherer
from holdfast.workspace.file_search import FileNames
from holdfast.workspace.hook_parts import HookParts
from holdfast.workspace.prompt_commands import PromptCommands
from holdfast.workspace.session_titles import SessionTitles
from holdfast.workspace.undo.command_snapshots import CommandSnapshots
from holdfast.workspace.undo.tree_scan import TreeLimits
from holdfast.workspace.workspace_agents import refuse_unknown_agent
from holdfast.workspace.workspace_setup import ConfiguredWorkspace, Setup


class OpenWorkspace:
    """The live parts of one workspace: what its runs use."""

    def __init__(self, configured: ConfiguredWorkspace, tools: ToolRegistry) -> None:
        workspace, shared = configured.workspace, configured.shared
        self.workspace = workspace
        self.path = configured.path
        self.shared = shared
        self.configured = configured
        self.tools = tools
        self.jobs = JobTable(on_change=self._store_job, now=shared.now)
        self.file_names = FileNames(self.path)
        self.approver = Approver(self._paths())
        self.conversations = KeptConversations()
        self.titles = SessionTitles(shared.store, now=shared.now)
        self.command_snapshots = CommandSnapshots(
            self.path,
            shared.store,
            shared.blobs,
            workspace_id=workspace.id,
            new_id=shared.ids.new,
            now=shared.now,
            redact=shared.redact,
            excluded=shared.locations.own_directories,
        )
        self.read_states: dict[str, tuple[tuple[int, int, int], str]] = {}
        """The hashes of files that sessions have read, with their inode, time and size, for `WorkspaceObserver`."""
        self.files = FileExtensions(self.path, shared.locations, env=shared.env, announce=self.announce_extension)
        """The skills, commands and agents of the user and the project."""
        self.hooks = HookParts(
            self.path,
            store=shared.store,
            launcher=shared.launcher,
            locations=shared.locations,
            home=shared.env.get("HOME"),
            redact=configured.redact,
            announce=self.announce_extension,
            new_id=shared.ids.new,
            now=shared.now,
        )
        self._mcp_parts = McpParts(
            directory=self.path,
            env=shared.env,
            launcher=shared.launcher,
            announce=self.announce_extension,
            is_trusted=shared.trust.is_trusted,
            remember=shared.keyring.remember,
            secrets=shared.keyring,
            new_id=lambda: shared.ids.new("mcp"),
            now=shared.now,
        )
        self.mcp = McpServers(self._mcp_parts)
        self._session_mcp: dict[str, McpServers] = {}
        """The servers that clients passed for sessions."""
        self.languages = WorkspaceLanguages(
            LanguageParts(
                directory=self.path,
                launcher=shared.launcher,
                private=shared.locations.workspace_languages(workspace.id),
                hidden=shared.locations.own_directories,
                environment=lambda settings: command_environment(shared.env, settings),
                redact=configured.redact,
                new_mark=lambda: shared.ids.new("lsp"),
                announce=self.announce_extension,
            )
        )
        self.resources = McpResources(self.mcp)
        self.commands = PromptCommands(self.path, self.files, self.resources)
        self.commands.sources.append(McpPrompts(self.mcp))
        self.extensions: list[ExtensionProvider] = [self.files, self.mcp, self.languages]
        self._extension_change = asyncio.Event()

    @property
    def redactor(self) -> Redactor:
        """See `ConfiguredWorkspace.redactor`."""
        return self.configured.redactor

    async def setup(self) -> Setup:
        """See `ConfiguredWorkspace.setup`."""
        return await self.configured.setup()

    def forget_setup(self) -> None:
        """See `ConfiguredWorkspace.forget_setup`."""
        self.configured.forget_setup()

    async def mask_files_of(self, subject: Subject) -> None:
        """See `ConfiguredWorkspace.mask_files_of`."""
        await self.configured.mask_files_of(subject)

    async def recover_commands(self) -> None:
        """Record what commands changed that ran when a server died."""
        await self.command_snapshots.recover(tree_limits((await self.setup()).settings))

    def open_model(self, setup: Setup, resolved: ResolvedModel) -> Model:
        limits = setup.settings.limits
        return self.shared.models.open(resolved, limits=StallLimits(limits.first_token, limits.between_tokens))

    def context_gatherer(self, setup: Setup) -> DirectoryContextGatherer:
        return DirectoryContextGatherer(
            self.path,
            self.shared.locations,
            files=self.files,
            mcp=self.mcp,
            trusted=setup.trusted,
            clock=self.shared.clock,
            threads=self.shared.file_threads,
        )

    async def agents(self, setup: Setup) -> Mapping[str, AgentType]:
        """All agents that can be used, by name."""
        files = await asyncio.to_thread(self.files.read, trusted=setup.trusted)
        return agent_types(setup.with_agents(files.usable_agents).settings)

    async def find_agent(self, name: str, setup: Setup, *, chosen_by: str = "") -> AgentType | None:
        """Return the agent that was chosen, None for ``main``. Raises `BadRequest` that lists the known ones."""
        if name == MAIN_AGENT:
            return None
        known = await self.agents(setup)
        if name not in known:
            await asyncio.to_thread(refuse_unknown_agent, name, known, self.files, chosen_by=chosen_by)
        return known[name]

    def offer_skills(self) -> None:
        """Offer the `skill` tool if there are skills, and only then."""
        if not any(skill.model_may_use for skill in self.files.found.usable_skills):
            self.tools.remove(("skill",))
        elif "skill" not in self.tools.names:
            from holdfast.extend.skill_tool import SkillTool

            self.tools.extend([SkillTool(self.files)])

    async def refresh_extensions(
        self, setup: Setup | None = None, files_read: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Let the extensions follow the configuration, the files and the trust of the directory.

        ``files_read``: `files` are being read, and this waits until they are.
        """
        setup = setup or await self.setup()
        await self.hooks.refresh(setup.config, trusted=setup.trusted, has_claude_files=setup.has_claude_files)
        for provider in self.extensions:
            if provider is self.files and files_read is not None:
                await files_read()
                await self.files.announce_changes()
            else:
                await provider.refresh(setup.config, trusted=setup.trusted)

    async def use_session_servers(self, session_id: str, servers: Mapping[str, McpServerConfig]) -> McpServers:
        """Use these MCP servers for a session and its sub-agents, until others are passed or the workspace closes."""
        if session_id not in self._session_mcp:
            self._session_mcp[session_id] = McpServers(self._mcp_parts)
        own = self._session_mcp[session_id]
        await own.use(servers, (await self.setup()).config)
        return own

    def session_servers(self, session_id: str) -> McpServers | None:
        return self._session_mcp.get(session_id)

    def servers_of(self, session_id: str) -> McpServerGroup:
        """The MCP servers of the runs of a session."""
        own = self._session_mcp.get(session_id)
        return self.mcp if own is None else SessionMcpServers(self.mcp, own)

    def extension_statuses(self) -> list[ExtensionStatus]:
        found = [status for provider in self.extensions for status in provider.statuses()]
        return [*found, *self.hooks.statuses()]

    async def announce_extension(self, status: ExtensionStatus) -> None:
        """Tell the clients the new state of an extension. Providers call this after each change."""
        changed, self._extension_change = self._extension_change, asyncio.Event()
        changed.set()
        status = replace(status, detail=self.redactor.redact(status.detail))
        event = ExtensionChanged(at=self.shared.now(), workspace_id=self.workspace.id, extension=status)
        await self.shared.store.commit(Batch(events=(event,)))

    async def next_extension_change(self) -> None:
        await self._extension_change.wait()

    @property
    def is_busy(self) -> bool:
        """Whether a background job or a title request keeps the workspace loaded (`W2`)."""
        return bool(self.jobs.running) or self.titles.is_busy or self.hooks.is_busy

    async def close(self) -> tuple[str, ...]:
        """End its jobs and background tasks. Returns the names of processes that could not be killed."""
        await self.titles.close()
        await self.hooks.close()
        closing = (*self.extensions, *self._session_mcp.values())
        await asyncio.gather(*(provider.close() for provider in closing))
        left = await self.jobs.close()
        await self.command_snapshots.close()
        await self.tools.close()
        return left

    def _paths(self) -> WorkspacePaths:
        locations = self.shared.locations
        own = tuple(str(path) for path in (locations.config_dir, locations.data_dir, locations.state_dir))
        readable = (str(locations.skills_dir), *(str(path) for path, _ in user_folders("skills", self.shared.env)))
        return WorkspacePaths(
            root=str(self.path),
            home=self.shared.env.get("HOME", "/"),
            own_directories=own,
            readable_directories=readable,
        )

    async def _store_job(self, job: Job) -> None:
        kind = JobStarted if job.state == "running" else JobFinished
        event = kind(at=self.shared.now(), session_id=job.session_id, job=job)
        await self.shared.store.commit(Batch((PutJob(job),), (event,)))


def tree_limits(settings: Settings) -> TreeLimits:
    return TreeLimits(names=settings.undo.max_files)
