"""Checks the requests of runs, and makes their turns. What turns are made of is imported when the first one starts."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from holdfast.agent.protocol import Ending, Turn, TurnHandle
from holdfast.config.agent_types import MAIN_AGENT, AgentType
from holdfast.errors import BadRequest
from holdfast.schema.runs import Run, RunRequest, narrower_mode
from holdfast.schema.sessions import Session
from holdfast.workspace.open_workspaces import OpenWorkspaces
from holdfast.workspace.run_settings import check_request, settings_in_effect
from holdfast.workspace.workspace_setup import ConfiguredWorkspace, Setup


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
                request = await self._with_command_settings(request, workspace, setup)
                request = await self._with_agent(request, session, workspace, setup)
                if request.mode is not None:
                    setup.config.policy.check_mode(request.mode)
                check_request(request, setup.model(request.model))
                if request.output_schema is not None:
                    from holdfast.agent.schema_check import validate_schema

                    await validate_schema(request.output_schema)
                if request.delivery == "steer":
                    agent = await self._find_agent(request.agent, workspace, setup) if request.agent else None
                    request = replace(request, in_effect=settings_in_effect(request, setup, agent=agent))
            case "shell":
                workspace.refuse_other_config(request.environment)
                if not isinstance(request.arguments.get("command"), str) or not request.arguments["command"].strip():
                    raise BadRequest("a shell run needs a command")
            case "undo" | "redo" | "delete":
                pass
        return request

    async def _with_agent(
        self, request: RunRequest, session: Session, workspace: ConfiguredWorkspace, setup: Setup
    ) -> RunRequest:
        """Add the agent of the session, and what it says about the model and the mode."""
        if request.kind != "prompt":
            return request
        kept = None if request.agent else session.agent
        name = request.agent or kept or setup.settings.session.agent
        if name is None:
            return request
        chosen_by = "" if request.agent else ", which was chosen for this session" if kept else " (session.agent)"
        agent = await self._find_agent(name, workspace, setup, chosen_by=chosen_by)
        request = replace(request, agent=name, chooses_agent=kept is None)
        if agent is None:
            return request
        before = request.mode or setup.settings.approvals.mode
        mode = narrower_mode("plan" if agent.read_only else None, than=before)
        return replace(request, model=request.model or agent.model, mode=request.mode if mode == before else mode)

    async def _find_agent(
        self, name: str, workspace: ConfiguredWorkspace, setup: Setup, *, chosen_by: str = ""
    ) -> AgentType | None:
        if name == MAIN_AGENT:
            return None
        live = await self._workspaces.live(workspace.workspace.id)
        return await live.find_agent(name, setup, chosen_by=chosen_by)

    async def _with_command_settings(
        self, request: RunRequest, configured: ConfiguredWorkspace, setup: Setup
    ) -> RunRequest:
        """Add the settings of the command that a prompt calls, where the request has none. It only narrows the mode."""
        if request.kind != "prompt" or not request.prompt.startswith("/"):
            return request
        workspace = await self._workspaces.live(configured.workspace.id)
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

    def turn(self, run: Run, session: Session) -> Turn:
        return _StartingTurn(self._workspaces, run, session)


class _StartingTurn:
    """Makes the live parts of the workspace when it starts, so that an error there is the end of this run."""

    def __init__(self, workspaces: OpenWorkspaces, run: Run, session: Session) -> None:
        self._workspaces = workspaces
        self._run = run
        self._session = session

    async def run(self, handle: TurnHandle) -> Ending | None:
        await handle.may_begin()
        workspace = await self._workspaces.live(self._session.workspace_id)
        from holdfast.workspace.workspace_turn import WorkspaceTurn  # imported by now, in a thread

        return await WorkspaceTurn(workspace, self._run, self._session).run(handle)
