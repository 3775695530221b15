"""Makes the turn of a run from the models, tools and rules of its workspace and from the settings of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from holdfast.agent.answer_schema import check_schema
from holdfast.agent.compaction import CompactTurn
from holdfast.agent.model_families import PREFERRED_TOOLS, family_of
from holdfast.agent.prompt_turn import PromptTurn
from holdfast.agent.protocol import Ending, Turn, TurnHandle
from holdfast.agent.shell_turn import ShellTurn
from holdfast.agent.turn_dependencies import TurnDependencies, TurnLimits
from holdfast.config.agent_types import AgentType, agent_of_run, agent_types
from holdfast.config.model_catalogue import ResolvedModel
from holdfast.config.reasoning_effort import OFF, choose_effort
from holdfast.errors import BadRequest, NotFound
from holdfast.extend.client_calls import ClientRunTools
from holdfast.extend.command_files import narrower_mode
from holdfast.extend.mcp.mcp_tools import McpRunTools
from holdfast.schema.client_variables import merge_variables
from holdfast.schema.runs import Run, RunRequest
from holdfast.schema.sessions import Session
from holdfast.tools.bash import BashTool
from holdfast.tools.protocol import Tool
from holdfast.tools.registry import may_reach
from holdfast.workspace.call_approval import WorkspaceCallApprover
from holdfast.workspace.model_sampling import RunSampling
from holdfast.workspace.open_workspace import OpenWorkspace, OpenWorkspaces, Setup
from holdfast.workspace.prompt_commands import CommandTools, WorkspacePromptExpander
from holdfast.workspace.session_observer import WorkspaceObserver
from holdfast.workspace.tool_context import WorkspaceToolContexts
from holdfast.workspace.undo.undo_turn import UndoTurn


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
                resolved = setup.model(request.model)
                if request.mode is not None:
                    setup.config.policy.check_mode(request.mode)
                if request.effort and request.effort not in (*resolved.reasoning, OFF):
                    known = ", ".join((*resolved.reasoning, OFF))
                    raise BadRequest(f"{resolved.name!r} has no effort {request.effort!r}; known: {known}")
                _check_cost_limit(request, resolved)
                _check_attachments(request, resolved)
                if request.output_schema is not None:
                    await asyncio.to_thread(check_schema, request.output_schema)
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
        kept = None if request.agent else await _session_agent(workspace, session.id)
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


class _WorkspaceTurn:
    """Reads the setup and makes the turn when it starts, so that an error there is the end of this run."""

    def __init__(self, workspace: OpenWorkspace, run: Run, session: Session) -> None:
        self._workspace = workspace
        self._run = run
        self._session = session

    async def run(self, handle: TurnHandle) -> Ending | None:
        variables = await self._client_variables()
        setup = (await self._workspace.setup()).of_shell(variables)
        return await (await self._turn(setup, variables)).run(handle)

    async def _client_variables(self) -> dict[str, str] | None:
        """The variables sent with the run, or before it in its session. A sub-agent has those of its parent."""
        store, run = self._workspace.shared.store, self._run
        while run.parent_run_id is not None:
            run = await store.run(run.parent_run_id)
        return await store.environment_of_run(run.id)

    async def _turn(self, setup: Setup, variables: Mapping[str, str] | None) -> Turn:
        run = self._run
        match run.kind:
            case "prompt":
                return PromptTurn(await self._dependencies(setup, variables))
            case "compact":
                return CompactTurn(await self._dependencies(setup, variables))
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

    async def _dependencies(self, setup: Setup, variables: Mapping[str, str] | None) -> TurnDependencies:
        run, workspace, settings = self._run, self._workspace, setup.settings
        await workspace.refresh_extensions(setup)
        if not run.interactive:
            await workspace.mcp.wait_started()
        files = workspace.files.found
        with_files = setup.with_agents(file for file in files.usable_agents if file.is_subagent).settings
        agent = role = None
        if run.parent_run_id is not None:
            agent = agent_of_run(with_files, run.agent)
        elif run.agent is not None:
            role = agent_types(setup.with_agents(files.usable_agents).settings).get(run.agent)
        resolved = setup.model(run.model)
        model = workspace.open_model(setup, resolved)
        small_model = workspace.open_model(setup, setup.catalogue.small(beside=resolved))
        mode = run.mode or settings.approvals.mode
        setup.config.policy.check_mode(mode)
        root_session_id, depth = await self._ancestry()
        workspace.offer_skills()
        environment = self._environment(setup, variables)
        extra: Sequence[Tool[Any]] = ()
        if setup.trusted:
            extra = await workspace.languages.tools_for(root_session_id, settings, environment)
        mcp_tools = McpRunTools(
            workspace.servers_of(root_session_id),
            max_tokens=settings.tools.mcp_tokens,
            may_call=lambda name: may_reach(name, settings, agent or role),
        )
        client_tools = ClientRunTools(workspace.shared.client_calls, root_session_id=root_session_id)
        offered = workspace.tools.offer(
            settings,
            mode=mode,
            interactive=run.interactive,
            depth=depth,
            agent=agent or role,
            preferred=PREFERRED_TOOLS.get(family_of(model.info.name), ()),
            joining=lambda: (*mcp_tools.join(), *client_tools.join()),
            extra=extra,
        )
        called = workspace.commands.find(run.prompt) if agent is None else None
        hooks = await workspace.hooks.of_run(
            run,
            setup.config,
            trusted=setup.trusted,
            has_claude_files=setup.has_claude_files,
            mode=mode,
            environment=environment,
            root_session_id=root_session_id,
        )
        approver = WorkspaceCallApprover(workspace, setup, mode=mode, root_session_id=root_session_id, hooks=hooks)
        limits = _limits(run, setup, agent or role)
        return TurnDependencies(
            store=workspace.shared.store,
            model=model,
            toolbox=CommandTools(offered, called.file) if called and called.file else offered,
            expander=None if agent is not None else WorkspacePromptExpander(workspace.commands, offered),
            approver=approver,
            tool_contexts=WorkspaceToolContexts(
                workspace,
                with_files,
                environment=environment,
                root_session_id=root_session_id,
                can_see_images=model.info.images,
                permits_url=approver.permits_url,
                runs_edit_steps=setup.trusted,
                hooks=hooks,
                sampling=RunSampling(
                    approver,
                    open_model=lambda name: workspace.open_model(setup, setup.model(name)) if name else small_model,
                    max_cost=limits.max_cost,
                ),
            ),
            context_gatherer=workspace.context_gatherer(setup),
            observer=WorkspaceObserver(workspace, run.session_id, trusted=setup.trusted),
            titler=workspace.titles.using(small_model),
            limits=limits,
            mode=mode,
            agent=agent,
            hooks=hooks,
            role=role,
            effort=choose_effort(run.effort or settings.models.effort, resolved.reasoning),
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


async def _session_agent(workspace: OpenWorkspace, session_id: str) -> str | None:
    try:
        return (await workspace.shared.store.session(session_id)).agent
    except NotFound:  # the prompt starts the session
        return None


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


def _check_cost_limit(request: RunRequest, model: ResolvedModel) -> None:
    """Refuse a limit that could not be kept."""
    if request.limits.max_cost and model.price is None:
        raise BadRequest(
            f"the price of {model.name!r} is not known, so the limit of {request.limits.max_cost:g} US dollars cannot"
            f" be kept; set providers.{model.provider}.models.{model.model}.price, or leave out the limit",
            detail={"field": "limits.max_cost"},
        )


def _check_attachments(request: RunRequest, model: ResolvedModel) -> None:
    """Refuse files that the model would not get."""
    for index, file in enumerate(request.attachments):
        if file.data is None:
            continue
        field = {"field": f"attachments[{index}]"}
        if not file.media_type.startswith("image/"):
            raise BadRequest(
                f"{file.name!r} ({file.media_type}) is neither text nor an image, so no model can read it; put it into"
                " the directory, where tools can read it",
                detail=field,
            )
        if not model.images:
            raise BadRequest(
                f"{model.name!r} cannot read images, so {file.name!r} cannot be attached; choose another model, or set"
                f" providers.{model.provider}.models.{model.model}.images to true if it can",
                detail=field,
            )


async def _permit_none(tool: str, url: str) -> bool:
    """A shell run has only the shell."""
    return False


def _limits(run: Run, setup: Setup, agent: AgentType | None) -> TurnLimits:
    configured, own, policy = setup.settings.limits, run.limits, setup.config.policy
    steps = own.max_steps or (agent.max_steps if agent else None) or configured.max_steps
    seconds = configured.max_time if own.max_seconds is None else own.max_seconds
    cost = configured.max_cost if own.max_cost is None else own.max_cost
    return TurnLimits(
        max_steps=min(steps, configured.max_steps) if policy.fixes("limits", "max_steps") else steps,
        max_seconds=_smaller(seconds, configured.max_time) if policy.fixes("limits", "max_time") else seconds,
        max_cost=_smaller(cost, configured.max_cost) if policy.fixes("limits", "max_cost") else cost,
        last_answer_seconds=configured.last_answer,
        tool_parallel=configured.tool_parallel,
    )


def _smaller(one: float, other: float) -> float:
    """The smaller limit; 0 is no limit."""
    return min(one, other) if one and other else one or other
