"""Makes the turn that fits a run: the model, the tools and the rules of its workspace, its own settings above them."""

from __future__ import annotations

from holdfast.agent.compact_turn import CompactTurn
from holdfast.agent.prompt_turn import PromptTurn
from holdfast.agent.protocol import Ending, Turn, TurnHandle
from holdfast.agent.shell_turn import ShellTurn
from holdfast.agent.turn_dependencies import TurnDependencies, TurnLimits
from holdfast.config.settings import AgentSettings
from holdfast.errors import BadRequest
from holdfast.schema.runs import Run, RunRequest
from holdfast.schema.sessions import Session
from holdfast.workspace.call_approval import WorkspaceCallApprover
from holdfast.workspace.open_workspace import OpenWorkspace, Setup
from holdfast.workspace.open_workspaces import OpenWorkspaces
from holdfast.workspace.tool_context import WorkspaceToolContexts
from holdfast.workspace.undo.undo_turn import UndoTurn

_RESEARCHER = """\
You are a sub-agent of Holdfast: another agent gave you the task below. Work it out with your tools and answer with \
what it needs to know: findings with `path:line`, facts, open questions. You cannot ask anyone. Be brief and exact.\
"""


class WorkspaceTurns:
    """Implements `TurnFactory`."""

    def __init__(self, rooms: OpenWorkspaces) -> None:
        self._rooms = rooms

    async def check(self, session: Session, request: RunRequest) -> None:
        room = self._rooms.find(session.workspace_id)
        match request.kind:
            case "prompt" | "compact":
                setup = await room.setup()
                resolved = setup.model(request.model)
                if request.effort and request.effort not in resolved.reasoning:
                    known = ", ".join(resolved.reasoning) or "none"
                    raise BadRequest(f"{resolved.name!r} has no effort {request.effort!r}; known: {known}")
            case "shell":
                if not isinstance(request.arguments.get("command"), str) or not request.arguments["command"].strip():
                    raise BadRequest("a shell run needs a command")
            case "undo" | "redo" | "delete":
                pass

    def turn(self, run: Run, session: Session) -> Turn:
        return _RoomTurn(self._rooms.find(session.workspace_id), run, session)


class _RoomTurn:
    """Gathers what the turn works with when it starts, so that its failure is the run's end and nothing else's."""

    def __init__(self, room: OpenWorkspace, run: Run, session: Session) -> None:
        self._room = room
        self._run = run
        self._session = session

    async def run(self, handle: TurnHandle) -> Ending | None:
        setup = await self._room.setup()
        return await (await self._turn(setup)).run(handle)

    async def _turn(self, setup: Setup) -> Turn:
        run = self._run
        match run.kind:
            case "prompt":
                return PromptTurn(await self._dependencies(setup))
            case "compact":
                return CompactTurn(await self._dependencies(setup))
            case "shell":
                bench = WorkspaceToolContexts(
                    self._room, setup.settings, root_session_id=await self._root(), can_see_images=False
                )
                return ShellTurn(bench, self._room.tools.get("bash"), str(run.arguments["command"]))
            case "undo" | "redo":
                return UndoTurn(self._room.shared, run)
            case "delete":
                raise AssertionError("a session is deleted by its lane, not by a turn")

    async def _dependencies(self, setup: Setup) -> TurnDependencies:
        run, room, settings = self._run, self._room, setup.settings
        agent = settings.agents.get(run.agent or "") if run.agent is not None else None
        resolved = setup.model(run.model)
        model = room.open_model(setup, resolved)
        small = room.open_model(setup, setup.catalogue.small(beside=resolved))
        mode = run.mode or settings.approvals.mode
        root = await self._root()
        toolbox = room.tools.offer(
            settings,
            mode=mode,
            interactive=run.interactive,
            depth=1 if run.parent_run_id else 0,
            agent=run.agent or "",
        )
        return TurnDependencies(
            store=room.shared.store,
            model=model,
            toolbox=toolbox,
            gate=WorkspaceCallApprover(room, setup, mode=mode, root_session_id=root),
            bench=WorkspaceToolContexts(room, settings, root_session_id=root, can_see_images=model.info.images),
            surveyor=room.surveyor(setup),
            titler=room.titles.asking(small),
            bounds=_bounds(run, setup, agent),
            agent_prompt=_agent_prompt(run, agent),
            effort=run.effort,
        )

    async def _root(self) -> str:
        """The top-level session that people watch."""
        session = self._session
        while session.parent_id is not None:
            session = await self._room.shared.store.session(session.parent_id)
        return session.id


def _bounds(run: Run, setup: Setup, agent: AgentSettings | None) -> TurnLimits:
    configured, own = setup.settings.limits, run.limits
    steps = own.max_steps or (agent.max_steps if agent else None) or configured.max_steps
    return TurnLimits(
        max_steps=steps,
        max_seconds=configured.max_time if own.max_seconds is None else own.max_seconds,
        max_cost=configured.max_cost if own.max_cost is None else own.max_cost,
        tool_parallel=configured.tool_parallel,
    )


def _agent_prompt(run: Run, agent: AgentSettings | None) -> str | None:
    """A child run's own instructions; None for a person's."""
    if run.parent_run_id is None:
        return None
    return (agent.prompt if agent else "") or _RESEARCHER
