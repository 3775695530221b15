"""Makes the turn of a run from the models, tools and rules of its workspace and from the settings of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from holdfast.agent.compaction import CompactTurn
from holdfast.agent.model_families import PREFERRED_TOOLS, family_of
from holdfast.agent.prompt_turn import PromptTurn
from holdfast.agent.protocol import Ending, Turn, TurnHandle
from holdfast.agent.schema_check import validate_schema
from holdfast.agent.shell_turn import ShellTurn
from holdfast.agent.turn_dependencies import TurnDependencies, TurnLimits
from holdfast.config.agent_types import AgentType, agent_of_run, agent_types
from holdfast.config.settings import Settings
from holdfast.errors import BadRequest
from holdfast.extend.client_calls import ClientRunTools
from holdfast.extend.mcp.mcp_tools import McpRunTools
from holdfast.models.protocol import Model
from holdfast.schema.client_variables import merge_variables
from holdfast.schema.runs import Mode, Run, RunRequest, RunSettings, narrower_mode
from holdfast.schema.sessions import Session
from holdfast.tools.bash import BashTool
from holdfast.tools.protocol import Tool
from holdfast.tools.registry import OfferedTools, may_reach
from holdfast.workspace.call_approval import WorkspaceCallApprover
from holdfast.workspace.model_sampling import RunSampling
from holdfast.workspace.open_workspace import OpenWorkspace, OpenWorkspaces, Setup
from holdfast.workspace.prompt_commands import CommandTools, WorkspacePromptExpander
from holdfast.workspace.run_settings import check_request, settings_in_effect, turn_limits
from holdfast.workspace.session_observer import WorkspaceObserver
from holdfast.workspace.tool_context import WorkspaceToolContexts
from holdfast.workspace.undo.undo_turn import UndoTurn

if TYPE_CHECKING:
    from holdfast.workspace.run_hooks import RunHooks


class WorkspaceTurns:
    """Implements `TurnFactory`."""

    def __init__(self, workspaces: OpenWorkspaces) -> None:
        self._workspaces = workspaces

    async def prepare(self, session: Session, request: RunRequest) -> RunRequest:
        workspace = self._workspaces.require(session.workspace_id)
        match request.kind:
            case "prompt" | "compact":
                workspace.refuse_other_config(request.environment)
                setup = (await workspace.setup()).of_shell(request.environment)
                request = await _with_command_settings(request, workspace, setup)
                request = await self._with_agent(request, session, workspace, setup)
                if request.mode is not None:
                    setup.config.policy.check_mode(request.mode)
                check_request(request, setup.model(request.model))
                if request.output_schema is not None:
                    await validate_schema(request.output_schema)
                if request.delivery == "steer":
                    agent = await workspace.find_agent(request.agent, setup) if request.agent else None
                    request = replace(request, in_effect=settings_in_effect(request, setup, agent=agent))
            case "shell":
                workspace.refuse_other_config(request.environment)
                if not isinstance(request.arguments.get("command"), str) or not request.arguments["command"].strip():
                    raise BadRequest("a shell run needs a command")
            case "undo" | "redo" | "delete":
                pass
        return request

    async def _with_agent(
        self, request: RunRequest, session: Session, workspace: OpenWorkspace, setup: Setup
    ) -> RunRequest:
        """Add the agent of the session, and what it says about the model and the mode."""
        if request.kind != "prompt":
            return request
        kept = None if request.agent else session.agent
        name = request.agent or kept or setup.settings.session.agent
        if name is None:
            return request
        chosen_by = "" if request.agent else ", which was chosen for this session" if kept else " (session.agent)"
        agent = await workspace.find_agent(name, setup, chosen_by=chosen_by)
        request = replace(request, agent=name, chooses_agent=kept is None)
        if agent is None:
            return request
        before = request.mode or setup.settings.approvals.mode
        mode = narrower_mode("plan" if agent.read_only else None, than=before)
        return replace(request, model=request.model or agent.model, mode=request.mode if mode == before else mode)

    def turn(self, run: Run, session: Session) -> Turn:
        return _WorkspaceTurn(self._workspaces.require(session.workspace_id), run, session)


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


class _WorkspaceTurn:
    """Reads the setup and makes the turn when it starts, so that an error there is the end of this run."""

    def __init__(self, workspace: OpenWorkspace, run: Run, session: Session) -> None:
        self._workspace = workspace
        self._run = run
        self._session = session

    async def run(self, handle: TurnHandle) -> Ending | None:
        setup = await self._workspace.setup()
        refreshing = (
            self._workspace.refresh_extensions(setup) if self._run.kind in ("prompt", "compact") else _nothing()
        )
        variables, _ = await asyncio.gather(self._client_variables(), refreshing)
        setup = setup.of_shell(variables)
        return await (await self._turn(setup, variables, handle)).run(handle)

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
        called = workspace.commands.find(self._run.prompt) if inputs.agent is None else None
        return TurnDependencies(
            store=workspace.shared.store,
            model=inputs.model,
            toolbox=CommandTools(offered, called.file) if called and called.file else offered,
            expander=None if inputs.agent is not None else WorkspacePromptExpander(workspace.commands, offered),
            approver=approver,
            tool_contexts=self._tool_contexts(inputs, approver, hooks),
            context_gatherer=workspace.context_gatherer(setup),
            observer=WorkspaceObserver(workspace, self._run.session_id, trusted=setup.trusted),
            titler=workspace.titles.using(inputs.small_model),
            limits=inputs.limits,
            mode=inputs.mode,
            agent=inputs.agent,
            hooks=hooks,
            role=inputs.role,
            effort=inputs.in_effect.effort,
            kept_conversations=workspace.conversations,
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


async def _with_command_settings(request: RunRequest, workspace: OpenWorkspace, setup: Setup) -> RunRequest:
    """Add the settings of the command that a prompt calls, where the request has none. They only narrow the mode."""
    if request.kind != "prompt" or not request.prompt.startswith("/"):
        return request
    await asyncio.to_thread(workspace.files.read, trusted=setup.trusted)
    called = workspace.commands.find(request.prompt)
    if called is None:
        await asyncio.to_thread(workspace.commands.refuse_mistake, request.prompt)
        return request
    if (file := called.file) is None:
        return request
    if file.model and request.model is None and setup.has_model(file.model):
        request = replace(request, model=file.model)
    before = request.mode or setup.settings.approvals.mode
    if (mode := narrower_mode(file.mode, than=before)) != before:
        request = replace(request, mode=mode)
    if file.agent and request.agent is None:
        request = replace(request, agent=file.agent if file.agent in await workspace.agents(setup) else None)
    return request


async def _nothing() -> None:
    pass


async def _permit_none(tool: str, url: str) -> bool:
    """A shell run has only the shell."""
    return False
