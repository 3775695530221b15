"""The turn of a run, made from the models, tools and rules of its workspace and from the settings of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UnsetType

from holdfast.agent.compaction import CompactTurn
from holdfast.agent.model_families import PREFERRED_TOOLS, family_of
from holdfast.agent.prompt_turn import PromptTurn
from holdfast.agent.protocol import Ending, StartRecord, Turn, TurnHandle
from holdfast.agent.shell_turn import ShellTurn
from holdfast.agent.turn_dependencies import TurnDependencies
from holdfast.agent.turn_limits import TurnLimits
from holdfast.config.agent_types import AgentType, agent_of_run, agent_types
from holdfast.config.settings import Settings
from holdfast.extend.client_run_tools import ClientRunTools
from holdfast.extend.mcp.mcp_tools import McpRunTools
from holdfast.models.protocol import Model
from holdfast.schema.client_variables import merge_variables
from holdfast.schema.runs import Mode, Run, RunSettings
from holdfast.schema.sessions import Session
from holdfast.tools.bash import BashTool
from holdfast.tools.protocol import Tool
from holdfast.tools.registry import OfferedTools, may_reach
from holdfast.workspace.call_approval import WorkspaceCallApprover
from holdfast.workspace.early_reads import EarlyReads
from holdfast.workspace.model_sampling import RunSampling
from holdfast.workspace.open_workspace import OpenWorkspace
from holdfast.workspace.prompt_commands import CommandTools, WorkspacePromptExpander
from holdfast.workspace.run_settings import settings_in_effect, turn_limits
from holdfast.workspace.session_observer import WorkspaceObserver
from holdfast.workspace.tool_context import WorkspaceToolContexts
from holdfast.workspace.undo.undo_turn import UndoTurn
from holdfast.workspace.workspace_setup import Setup

if TYPE_CHECKING:
    from holdfast.workspace.run_hooks import RunHooks


class _TurnInputs(msgspec.Struct, frozen=True, kw_only=True):
    """What the parts of one turn are made of."""

    setup: Setup
    with_files: Settings
    """The settings with the sub-agents in files."""
    environment: Mapping[str, str]
    agent: AgentType | None
    """The kind of a sub-agent."""
    role: AgentType | None
    """The agent that the user chose."""
    in_effect: RunSettings
    mode: Mode
    limits: TurnLimits
    model: Model
    small_model: Model
    root_session_id: str
    depth: int


class WorkspaceTurn:
    """Reads the setup and makes the turn when it starts, so that an error there is the end of this run."""

    def __init__(self, workspace: OpenWorkspace, run: Run, session: Session) -> None:
        self._workspace = workspace
        self._run = run
        self._session = session
        self._early: EarlyReads | None = None

    async def run(self, handle: TurnHandle) -> Ending | None:
        setup = await self._workspace.setup()
        if self._run.kind == "prompt":
            self._early = self._read_early(setup, handle.started_with)
        try:
            variables = await self._refresh(setup, handle.started_with)
            setup = setup.of_shell(variables)
            return await (await self._turn(setup, variables, handle)).run(handle)
        finally:
            if self._early is not None:
                await self._early.close()

    def _read_early(self, setup: Setup, started_with: StartRecord) -> EarlyReads:
        workspace, run = self._workspace, self._run
        gatherer = workspace.context_gatherer(setup)
        is_kept = run.session_id in workspace.conversations
        return EarlyReads(
            gatherer,
            workspace.shared.store,
            run,
            with_messages=not is_kept,
            known_messages=started_with.messages,
        )

    async def _refresh(self, setup: Setup, started_with: StartRecord) -> dict[str, str] | None:
        """Let the extensions follow the files. Returns the variables of the shell in which the run works."""
        variables = started_with.variables
        if not isinstance(variables, UnsetType):
            await self._refresh_extensions(setup)
            return variables
        return (await asyncio.gather(self._client_variables(), self._refresh_extensions(setup)))[0]

    async def _refresh_extensions(self, setup: Setup) -> None:
        if self._early is not None:
            await self._workspace.refresh_extensions(setup, self._early.files_read)
        elif self._run.kind == "compact":
            await self._workspace.refresh_extensions(setup)

    async def _client_variables(self) -> dict[str, str] | None:
        """The variables sent with the run, or before it in its session. A sub-agent has those of its parent."""
        store, run = self._workspace.shared.store, self._run
        while run.parent_run_id is not None:
            run = await store.run(run.parent_run_id)
        return await store.environment_of_run(run.id)

    async def _turn(self, setup: Setup, variables: Mapping[str, str] | None, handle: TurnHandle) -> Turn:
        run = self._run
        match run.kind:
            case "prompt":
                return PromptTurn(await self._dependencies(setup, variables, handle))
            case "compact":
                return CompactTurn(await self._dependencies(setup, variables, handle))
            case "shell":
                contexts = WorkspaceToolContexts(
                    self._workspace,
                    setup.settings,
                    environment=self._environment(setup, variables),
                    root_session_id=(await self._ancestry())[0],
                    can_see_images=False,
                    permits_url=_permit_none,
                )
                bash = BashTool(self._workspace.shared.person_launcher, is_persons=True)
                return ShellTurn(contexts, bash, str(run.arguments["command"]))
            case "undo" | "redo":
                return UndoTurn(self._workspace, run)
            case "delete":
                raise AssertionError("a session is deleted by its lane, not by a turn")

    async def _dependencies(
        self, setup: Setup, variables: Mapping[str, str] | None, handle: TurnHandle
    ) -> TurnDependencies:
        workspace = self._workspace
        inputs = await self._inputs(setup, variables)
        handle.use_settings(inputs.in_effect)
        if not self._run.interactive:
            await workspace.mcp.wait_started()
        hooks = await self._hooks(inputs)
        approver = WorkspaceCallApprover(
            workspace, setup, mode=inputs.mode, root_session_id=inputs.root_session_id, hooks=hooks
        )
        offered = await self._offered_tools(inputs)
        early = self._early
        called = workspace.commands.find(self._run.prompt) if inputs.agent is None else None
        return TurnDependencies(
            store=workspace.shared.store,
            model=inputs.model,
            toolbox=CommandTools(offered, called.file) if called and called.file else offered,
            expander=None if inputs.agent is not None else WorkspacePromptExpander(workspace.commands, offered),
            approver=approver,
            tool_contexts=self._tool_contexts(inputs, approver, hooks),
            context_gatherer=early or workspace.context_gatherer(setup),
            observer=WorkspaceObserver(workspace, self._run.session_id, trusted=setup.trusted),
            titler=workspace.titles.using(inputs.small_model),
            limits=inputs.limits,
            mode=inputs.mode,
            agent=inputs.agent,
            hooks=hooks,
            role=inputs.role,
            effort=inputs.in_effect.effort,
            kept_conversations=workspace.conversations,
            read_messages=early.messages if early is not None else None,
        )

    async def _inputs(self, setup: Setup, variables: Mapping[str, str] | None) -> _TurnInputs:
        """Read what the parts of the turn are made of."""
        run, workspace = self._run, self._workspace
        files = workspace.files.found
        with_files = setup.with_agents(file for file in files.usable_agents if file.is_subagent).settings
        agent = role = None
        if run.parent_run_id is not None:
            agent = agent_of_run(with_files, run.agent)
        elif run.agent is not None:
            role = agent_types(setup.with_agents(files.usable_agents).settings).get(run.agent)
        in_effect = settings_in_effect(run, setup, agent=agent or role)
        assert in_effect.mode is not None
        setup.config.policy.check_mode(in_effect.mode)
        resolved = setup.model(run.model)
        root_session_id, depth = await self._ancestry()
        return _TurnInputs(
            setup=setup,
            with_files=with_files,
            environment=self._environment(setup, variables),
            agent=agent,
            role=role,
            in_effect=in_effect,
            mode=in_effect.mode,
            limits=turn_limits(run, setup, agent=agent or role),
            model=workspace.open_model(setup, resolved),
            small_model=workspace.open_model(setup, setup.catalogue.small(beside=resolved)),
            root_session_id=root_session_id,
            depth=depth,
        )

    async def _hooks(self, inputs: _TurnInputs) -> RunHooks | None:
        setup = inputs.setup
        return await self._workspace.hooks.of_run(
            self._run,
            setup.config,
            trusted=setup.trusted,
            has_claude_files=setup.has_claude_files,
            mode=inputs.mode,
            environment=inputs.environment,
            root_session_id=inputs.root_session_id,
        )

    async def _offered_tools(self, inputs: _TurnInputs) -> OfferedTools:
        """The tools of the run, with those of extensions and clients that join while it runs."""
        workspace, settings, agent = self._workspace, inputs.setup.settings, inputs.agent or inputs.role
        workspace.offer_skills()
        extra: Sequence[Tool[Any]] = ()
        if inputs.setup.trusted:
            extra = await workspace.languages.tools_for(inputs.root_session_id, settings, inputs.environment)
        mcp_tools = McpRunTools(
            workspace.servers_of(inputs.root_session_id),
            max_tokens=settings.tools.mcp_tokens,
            may_call=lambda name: may_reach(name, settings, agent),
        )
        client_tools = ClientRunTools(workspace.shared.client_calls, root_session_id=inputs.root_session_id)
        return workspace.tools.offer(
            settings,
            mode=inputs.mode,
            interactive=self._run.interactive,
            depth=inputs.depth,
            agent=agent,
            preferred=PREFERRED_TOOLS.get(family_of(inputs.model.info.name), ()),
            joining=lambda: (*mcp_tools.join(), *client_tools.join()),
            extra=extra,
        )

    def _tool_contexts(
        self, inputs: _TurnInputs, approver: WorkspaceCallApprover, hooks: RunHooks | None
    ) -> WorkspaceToolContexts:
        workspace, setup = self._workspace, inputs.setup

        def open_model(name: str | None) -> Model:
            return workspace.open_model(setup, setup.model(name)) if name else inputs.small_model

        return WorkspaceToolContexts(
            workspace,
            inputs.with_files,
            environment=inputs.environment,
            root_session_id=inputs.root_session_id,
            can_see_images=inputs.model.info.images,
            permits_url=approver.permits_url,
            runs_edit_steps=setup.trusted,
            hooks=hooks,
            sampling=RunSampling(approver, open_model=open_model, max_cost=inputs.limits.max_cost),
        )

    def _environment(self, setup: Setup, variables: Mapping[str, str] | None) -> Mapping[str, str]:
        """The environment of the run's commands, before keys are removed from it."""
        own = self._workspace.shared.env
        return own if variables is None else merge_variables(own, variables, setup.variables)

    async def _ancestry(self) -> tuple[str, int]:
        """Return the top-level session of a sub-agent's session, or the session itself, and how deep it is nested."""
        session, depth = self._session, 0
        while session.parent_id is not None:
            session, depth = await self._workspace.shared.store.session(session.parent_id), depth + 1
        return session.id, depth


async def _permit_none(tool: str, url: str) -> bool:
    """A shell run has only the shell."""
    return False
