"""Makes what one tool call may touch: the tools' `Context`, on this server's ledger, jobs and people."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from holdfast.agent.protocol import Child, TurnHandle
from holdfast.config import Settings
from holdfast.errors import ToolError
from holdfast.ids import Prefix
from holdfast.schema.approvals import Question, QuestionItem
from holdfast.schema.events import TodoChanged
from holdfast.schema.messages import ToolCall
from holdfast.schema.runs import Limits, Outcome, Phase, Run, RunRequest
from holdfast.schema.sessions import Todo
from holdfast.store import Store
from holdfast.store.writes import PutTodos
from holdfast.tools.process.command_process import child_environment
from holdfast.tools.protocol import ToolContext
from holdfast.tools.web_search import search_key_finder
from holdfast.workspace.open_workspace import OpenWorkspace
from holdfast.workspace.undo.file_snapshots import SessionFiles

_LEAST = 1e-9
"""Dollars; 0 would mean no limit."""


class WorkspaceToolContexts:
    """For the calls of one run."""

    def __init__(self, room: OpenWorkspace, settings: Settings, *, root_session_id: str, can_see_images: bool) -> None:
        self._room = room
        self._settings = settings
        self._root_session_id = root_session_id
        self._can_see_images = can_see_images
        self._environment = child_environment(room.shared.env, settings)

    def redact(self, text: str) -> str:
        return self._room.shared.redact(text)

    def context(
        self,
        handle: TurnHandle,
        call: ToolCall,
        *,
        emit: Callable[[str], None],
        progress: Callable[[Phase], None],
        adopted: Callable[[Child], Awaitable[None]],
    ) -> ToolContext:
        room, shared, run = self._room, self._room.shared, handle.run
        return ToolContext(
            workspace=room.path,
            session_id=run.session_id,
            run_id=run.id,
            call_id=call.id,
            workspace_id=room.workspace.id,
            settings=self._settings,
            environment=self._environment,
            outputs=shared.locations.outputs_dir,
            can_see_images=self._can_see_images,
            interactive=run.interactive,
            emit=emit,
            redact=shared.redact,
            new_id=lambda prefix: shared.ids.new(cast(Prefix, prefix)),
            now=shared.now,
            files=SessionFiles(
                shared.store,
                shared.blobs,
                session_id=run.session_id,
                run_id=run.id,
                call_id=call.id,
                new_id=shared.ids.new,
                now=shared.now,
            ),
            jobs=room.jobs.for_session(run.session_id),
            asker=_Asker(
                room,
                handle,
                call,
                root_session_id=self._root_session_id,
                deadline=self._settings.approvals.deadline,
                progress=progress,
            ),
            todos=_Todos(shared.store, handle),
            subagents=_Children(room, self._settings, handle, adopted=adopted),
            search_key=search_key_finder(shared.keyring, self._settings, env=shared.env),
        )


class _Asker:
    """Questions as durable records; the call waits for their answer."""

    def __init__(
        self,
        room: OpenWorkspace,
        handle: TurnHandle,
        call: ToolCall,
        *,
        root_session_id: str,
        deadline: float,
        progress: Callable[[Phase], None],
    ) -> None:
        self._room = room
        self._deadline = deadline
        self._handle = handle
        self._call = call
        self._root_session_id = root_session_id
        self._progress = progress

    async def ask(self, items: tuple[QuestionItem, ...]) -> tuple[tuple[str, ...], ...] | None:
        self._progress("question")
        answered = await self._room.shared.approvals.ask(
            Question(
                id="",
                workspace_id=self._room.workspace.id,
                session_id=self._handle.run.session_id,
                root_session_id=self._root_session_id,
                run_id=self._handle.run.id,
                call_id=self._call.id,
                items=items,
            ),
            deadline=self._deadline,
        )
        self._progress("tool")
        return answered.answers


class _Todos:
    """The session's task list: whole each time, told to everyone."""

    def __init__(self, store: Store, handle: TurnHandle) -> None:
        self._store = store
        self._handle = handle

    async def read(self) -> tuple[Todo, ...]:
        return await self._store.todos(self._handle.run.session_id)

    async def write(self, todos: tuple[Todo, ...]) -> None:
        session_id = self._handle.run.session_id
        event = TodoChanged(at=self._handle.now(), session_id=session_id, todos=todos)
        await self._handle.commit([PutTodos(session_id, todos)], [event])


class _Children:
    """Sub-agents: child runs with their parent's mode, never more allowed than it."""

    def __init__(
        self,
        room: OpenWorkspace,
        settings: Settings,
        handle: TurnHandle,
        *,
        adopted: Callable[[Child], Awaitable[None]],
    ) -> None:
        self._room = room
        self._settings = settings
        self._handle = handle
        self._adopted = adopted

    async def run(self, *, agent: str, prompt: str, title: str) -> Outcome:
        parent = self._handle.run
        named = self._settings.agents.get(agent)
        if named is None and agent:
            known = ", ".join(sorted(self._settings.agents)) or "none"
            raise ToolError(f"there is no agent called {agent!r}; known: {known}")
        own_model = named.model if named else None
        request = RunRequest(
            prompt=prompt,
            model=own_model or parent.model,
            mode=parent.mode,
            interactive=parent.interactive,
            limits=Limits(max_cost=self._left_to_spend(parent)),
            effort=None if own_model else parent.effort,  # another model may not know it
            agent=agent or "",
        )
        child = await self._handle.child(request, title=title)
        await self._adopted(child)
        ended = await child.ended()
        return Outcome(
            state=cast(Any, ended.state),
            reason=ended.reason or "internal",
            text=ended.text,
            message_id=ended.message_id,
            error=ended.error,
            left_running=ended.left_running,
        )

    def _left_to_spend(self, parent: Run) -> float | None:
        """A sub-agent spends its parent's money; each of several side by side may spend all that is left."""
        limit = self._settings.limits.max_cost if parent.limits.max_cost is None else parent.limits.max_cost
        return max(limit - parent.usage.cost, _LEAST) if limit else None
