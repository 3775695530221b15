"""The open workspaces of one server: the settings, tools, jobs and titles of each directory, and what they share.

Opening a workspace runs no code of its directory, and closing one never affects another (`W1`, `W3`).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from holdfast.agent.kept_conversations import KeptConversations
from holdfast.approvals.decision import Approver
from holdfast.approvals.pending_approvals import PendingApprovals
from holdfast.approvals.rules import parse_rules
from holdfast.approvals.workspace_paths import WorkspacePaths
from holdfast.config import (
    Catalogue,
    Config,
    Keyring,
    PolicyFile,
    Redactor,
    ResolvedModel,
    Secret,
    Settings,
    TrustStore,
    load_config,
    project_files,
)
from holdfast.config.agent_types import MAIN_AGENT, AgentType, agent_types
from holdfast.config.env_files import (
    find_deep_env_files,
    find_env_files,
    is_env_file,
    may_show_env_files,
    read_env_secrets,
)
from holdfast.config.settings import AgentSettings
from holdfast.errors import BadRequest, Conflict, HoldfastError, NoModel, NotFound, PolicyDenied
from holdfast.events import Hub
from holdfast.extend.agent_files import AgentFile
from holdfast.extend.client_calls import ClientCalls
from holdfast.extend.extension_provider import ExtensionProvider
from holdfast.extend.file_extensions import FileExtensions
from holdfast.extend.lsp.workspace_languages import LanguageParts, WorkspaceLanguages
from holdfast.extend.mcp.mcp_prompts import McpPrompts
from holdfast.extend.mcp.mcp_resources import McpResources
from holdfast.extend.mcp.mcp_servers import McpParts, McpServers
from holdfast.extend.mcp.server_config import McpServerConfig
from holdfast.extend.mcp.session_servers import McpServerGroup, SessionMcpServers
from holdfast.extend.source_folders import user_folders
from holdfast.ids import Clock, Ids, rfc3339
from holdfast.locations import Locations
from holdfast.models.model_factory import ModelFactory
from holdfast.models.protocol import Model
from holdfast.models.stall_timeout import StallLimits
from holdfast.schema.approvals import Subject
from holdfast.schema.client_variables import OWN_VARIABLES, SHELL_VARIABLES
from holdfast.schema.events import ExtensionChanged, JobFinished, JobStarted
from holdfast.schema.extensions import ExtensionStatus
from holdfast.schema.sessions import Job, Workspace
from holdfast.store import Batch, Store
from holdfast.store.writes import PutJob
from holdfast.tools.jobs import JobTable
from holdfast.tools.process.command_process import CommandLauncher, command_environment
from holdfast.tools.registry import ToolRegistry
from holdfast.tools.search.shipped_programs import link_shipped_programs
from holdfast.workspace.context_gatherer import DirectoryContextGatherer
from holdfast.workspace.file_search import FileNames
from holdfast.workspace.hook_parts import HookParts
from holdfast.workspace.prompt_commands import PromptCommands
from holdfast.workspace.session_titles import SessionTitles
from holdfast.workspace.undo.blob_store import BlobStore
from holdfast.workspace.undo.command_snapshots import CommandSnapshots
from holdfast.workspace.undo.tree_scan import TreeLimits
from holdfast.workspace.workspace_agents import refuse_unknown_agent

_ENV_SEARCH_SECONDS = 10.0
"""How long the list of a workspace's ``.env`` files is used. The files themselves are checked with the setup."""
_MAX_NAMED_ENV_FILES = 512
_SETUP_MAX_AGE = 1.0
"""Seconds for which a setup is used without looking at its files."""


class SharedParts(msgspec.Struct, frozen=True, kw_only=True):
    """What all workspaces of one server share."""

    store: Store
    hub: Hub
    approvals: PendingApprovals
    client_calls: ClientCalls
    keyring: Keyring
    models: ModelFactory
    trust: TrustStore
    policy_file: PolicyFile
    blobs: BlobStore
    launcher: CommandLauncher
    """Starts the agent's commands."""
    person_launcher: CommandLauncher
    """Starts a person's own commands, which may use the server."""
    locations: Locations
    env: Mapping[str, str]
    ids: Ids
    clock: Clock

    def now(self) -> str:
        return rfc3339(self.clock())

    def redact(self, text: str) -> str:
        """Remove every secret that is known so far."""
        return self.keyring.redactor.redact(text)


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of a workspace, its models, and whether it is trusted."""

    config: Config
    catalogue: Catalogue
    trusted: bool
    has_claude_files: bool = False
    """Whether there are settings files of Claude Code, which may have hooks."""

    @property
    def settings(self) -> Settings:
        return self.config.settings

    def model(self, name: str | None) -> ResolvedModel:
        """Return the model with this name, or the configured one. Raises `NoModel`."""
        return self.catalogue.resolve(name) if name else self.catalogue.large()

    def with_agents(self, files: Iterable[AgentFile]) -> Setup:
        """The setup with the agents in files besides the configured ones, which come first."""
        found = {file.name: self._usable(file.settings) for file in files}
        if not found:
            return self
        settings = replace(self.settings, agents=found | self.settings.agents)
        return replace(self, config=replace(self.config, settings=settings))

    def _usable(self, agent: AgentSettings) -> AgentSettings:
        """Files of other agents name models that may not be there; the model of the run is used then."""
        return agent if agent.model is None or self.has_model(agent.model) else replace(agent, model=None)

    def has_model(self, name: str) -> bool:
        """Whether a model can be used, so that a file of another agent may name one that is not there."""
        try:
            self.catalogue.resolve(name)
        except (NoModel, PolicyDenied):
            return False
        return True

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that runs take from the shell of their client."""
        return (*OWN_VARIABLES, *SHELL_VARIABLES, *self.settings.tools.variables)

    def of_shell(self, variables: Mapping[str, str] | None) -> Setup:
        """The setup for a run that was sent from a shell with these variables."""
        own = {name: value.strip() for name, value in (variables or {}).items() if name in OWN_VARIABLES}
        large, small = own.get("HOLDFAST_MODEL"), own.get("HOLDFAST_SMALL_MODEL")
        if not large and not small:
            return self
        models = self.settings.models
        models = replace(models, large=large or models.large, small=small or models.small)
        config = replace(self.config, settings=replace(self.settings, models=models))
        return replace(self, config=config, catalogue=self.catalogue.with_settings(config.settings))


class _CachedSetup(NamedTuple):
    setup: Setup
    file_stamps: tuple[object, ...]
    checked_at: float


class _CachedMasks(NamedTuple):
    known: Redactor
    """The redactor of the keyring from which this one was made."""
    secrets: frozenset[Secret]
    redactor: Redactor


class _EnvFiles:
    """The secrets in the ``.env`` files of a workspace. Files are read again if they changed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: tuple[Path, ...] = ()
        self._searched_at = -_ENV_SEARCH_SECONDS
        self._stamps: tuple[object, ...] | None = None
        self._secrets: frozenset[Secret] = frozenset()
        self._named: dict[Path, None] = {}
        self._searched_deep_at = -_ENV_SEARCH_SECONDS

    def add(self, files: tuple[Path, ...], *, deep: bool) -> frozenset[Secret]:
        """Count these files as well, and with ``deep`` those at any depth; return all secrets. Blocking."""
        now = time.monotonic()
        if deep and now - self._searched_deep_at >= _ENV_SEARCH_SECONDS:
            self._searched_deep_at = now
            files = (*files, *find_deep_env_files(self._directory))
        self._named |= dict.fromkeys(files)
        for file in list(self._named)[:-_MAX_NAMED_ENV_FILES]:
            del self._named[file]
        return self.read()

    def read(self) -> frozenset[Secret]:
        """Return the same object as long as nothing changed. Blocking."""
        now = time.monotonic()
        if now - self._searched_at >= _ENV_SEARCH_SECONDS:
            self._files, self._searched_at = find_env_files(self._directory), now
        files = tuple(dict.fromkeys((*self._files, *self._named)))
        stamps = tuple((file, _file_stamp(file)) for file in files)
        if stamps != self._stamps:
            self._secrets, self._stamps = read_env_secrets(files), stamps
        return self._secrets


class OpenWorkspace:
    """The live parts of one workspace."""

    def __init__(self, workspace: Workspace, shared: SharedParts, tools: ToolRegistry) -> None:
        self.workspace = workspace
        self.path = Path(workspace.path)
        self.shared = shared
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
            redact=self._redact,
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
                redact=self._redact,
                new_mark=lambda: shared.ids.new("lsp"),
                announce=self.announce_extension,
            )
        )
        self.resources = McpResources(self.mcp)
        self.commands = PromptCommands(self.path, self.files, self.resources)
        self.commands.sources.append(McpPrompts(self.mcp))
        self.extensions: list[ExtensionProvider] = [self.files, self.mcp, self.languages]
        self._extension_change = asyncio.Event()
        self._cached: _CachedSetup | None = None
        self._masks: _CachedMasks | None = None
        self._env_files = _EnvFiles(self.path)

    @property
    def redactor(self) -> Redactor:
        """Removes what tools must not show: every known secret, and by default keys and secrets of other owners."""
        known = self.shared.keyring.redactor
        masks = self._masks
        if masks is None:
            return known
        if masks.known is not known:
            masks = self._masks = _CachedMasks(known, masks.secrets, self.shared.keyring.with_masks(masks.secrets))
        return masks.redactor

    def _redact(self, text: str) -> str:
        return self.redactor.redact(text)

    async def setup(self) -> Setup:
        """Return the setup as it was on disk at most a second ago. It is read again only if a file changed."""
        cached, now = self._cached, time.monotonic()
        if cached is not None and now - cached.checked_at < _SETUP_MAX_AGE:
            return cached.setup
        stamps = await asyncio.to_thread(self._file_stamps)
        setup = cached.setup if cached is not None and cached.file_stamps == stamps else await self._read_setup()
        if self._cached is cached:  # `forget_setup` was not called meanwhile
            self._cached = _CachedSetup(setup, stamps, now)
        await self._read_masks(setup.settings)
        return setup

    async def client_variables(self) -> tuple[str, ...]:
        """The variables that clients send with prompts; the usual ones while the configuration is invalid."""
        try:
            variables = (await self.setup()).variables
        except HoldfastError:
            return (*OWN_VARIABLES, *SHELL_VARIABLES)
        if self._cached is not None:  # a prompt that follows looks at the files itself
            self._cached = self._cached._replace(checked_at=-_SETUP_MAX_AGE)
        return variables

    def refuse_other_config(self, variables: Mapping[str, str] | None) -> None:
        """Raise `Conflict` if the shell of a client names another configuration than the server was started with."""
        named, ours = (variables or {}).get("HOLDFAST_CONFIG"), self.shared.env.get("HOLDFAST_CONFIG")
        if named and (not ours or Path(named) != Path(ours)):
            started = f"with HOLDFAST_CONFIG={ours}" if ours else "without it"
            raise Conflict(
                f"HOLDFAST_CONFIG is {named!r} in this shell, but the server was started {started}; "
                "stop the server, then send the prompt again",
                code="other_config",
                detail={"server": ours, "client": named},
            )

    async def _read_masks(self, settings: Settings) -> None:
        if not settings.tools.mask_secrets:
            self._masks = None
            return
        self._use_masks(await asyncio.to_thread(self._env_files.read))

    async def mask_files_of(self, subject: Subject) -> None:
        """Mask the secrets in ``.env`` files that a call may show, also if they are deep in the workspace."""
        if self._masks is None:
            return
        named = tuple(Path(path) for path in subject.paths if is_env_file(os.path.basename(path)))
        searches = subject.tool == "grep" or (subject.command is not None and may_show_env_files(subject.command))
        if named or searches:
            self._use_masks(await asyncio.to_thread(self._env_files.add, named, deep=searches))

    def _use_masks(self, secrets: frozenset[Secret]) -> None:
        if self._masks is None or self._masks.secrets is not secrets:
            keyring = self.shared.keyring
            self._masks = _CachedMasks(keyring.redactor, secrets, keyring.with_masks(secrets))

    def forget_setup(self) -> None:
        """Read the setup again when it is next needed: the configuration, a key or the trust changed."""
        self._cached = _CachedSetup(self._cached.setup, (), -_SETUP_MAX_AGE) if self._cached else None

    def _file_stamps(self) -> tuple[object, ...]:
        """Identify the state of every file that the setup is read from."""
        locations, env = self.shared.locations, self.shared.env
        named = [Path(env["HOLDFAST_CONFIG"])] if env.get("HOLDFAST_CONFIG") else []
        own = (locations.config_file, locations.secrets_file, locations.trust_file, self.shared.policy_file.path)
        files = (*own, *named, *project_files(self.path), *self.hooks.claude_files)
        return (self.path.is_dir(), *(_file_stamp(file) for file in files))

    async def _read_setup(self) -> Setup:
        config, trusted, has_claude_files = await asyncio.to_thread(self._load_config)
        stored = await self.shared.keyring.learn(config.settings)
        # Report an invalid rule now, not at the first call.
        parse_rules(deny=config.settings.approvals.deny, allow=config.settings.approvals.allow)
        catalogue = Catalogue(config.settings, env=self.shared.env, stored=stored, policy=config.policy)
        return Setup(config=config, catalogue=catalogue, trusted=trusted, has_claude_files=has_claude_files)

    def _load_config(self) -> tuple[Config, bool, bool]:
        if not self.path.is_dir():
            raise BadRequest(f"the directory {str(self.path)!r} does not exist", code="directory_not_found")
        trust = self.shared.trust.is_trusted
        policy = self.shared.policy_file.read()
        config = load_config(
            self.shared.locations, env=self.shared.env, workspace=self.path, trusted=trust, policy=policy
        )
        return config, trust(self.path), any(os.path.lexists(file) for file in self.hooks.claude_files)

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

    async def refresh_extensions(self, setup: Setup | None = None) -> None:
        """Let the extensions follow the configuration, the files and the trust of the directory."""
        setup = setup or await self.setup()
        await self.hooks.refresh(setup.config, trusted=setup.trusted, has_claude_files=setup.has_claude_files)
        for provider in self.extensions:
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


class OpenWorkspaces:
    """The open workspaces by id. Opening one again returns the same one (`W1`)."""

    def __init__(self, shared: SharedParts) -> None:
        self.shared = shared
        self._by_id: dict[str, OpenWorkspace] = {}

    async def open(self, workspace: Workspace) -> OpenWorkspace:
        found = self._by_id.get(workspace.id)
        if found is None:
            tools = await asyncio.to_thread(self._load_tools)
            found = self._by_id.setdefault(workspace.id, OpenWorkspace(workspace, self.shared, tools))
        return found

    def _load_tools(self) -> ToolRegistry:
        """Make the tools of a workspace. Blocking: the first one imports every tool."""
        if not self._by_id:
            link_shipped_programs(self.shared.locations.programs_dir)
        return ToolRegistry(self.shared.launcher)

    def require(self, workspace_id: str) -> OpenWorkspace:
        """Return an open workspace. Raises `NotFound` if it is not open."""
        found = self._by_id.get(workspace_id)
        if found is None:
            raise NotFound(f"workspace {workspace_id!r} is not open; open its directory first", code="workspace_closed")
        return found

    def get(self, workspace_id: str) -> OpenWorkspace | None:
        return self._by_id.get(workspace_id)

    def all(self) -> tuple[OpenWorkspace, ...]:
        return tuple(self._by_id.values())

    async def close(self, workspace_id: str) -> tuple[str, ...]:
        """Close one. Returns the names of processes that could not be killed."""
        found = self._by_id.pop(workspace_id, None)
        return () if found is None else await found.close()

    async def close_all(self) -> None:
        workspaces, self._by_id = self._by_id, {}
        await asyncio.gather(*(workspace.close() for workspace in workspaces.values()))


def tree_limits(settings: Settings) -> TreeLimits:
    return TreeLimits(names=settings.undo.max_files)


def _file_stamp(file: Path) -> tuple[str, int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return str(file), found.st_ino, found.st_mtime_ns, found.st_size
