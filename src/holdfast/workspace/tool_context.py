"""Makes the `ToolContext` of a tool call: its files, jobs, questions, task list and sub-agents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from holdfast.agent.protocol import Subagent, TurnHandle
from holdfast.config import Settings, StreamRedactor
from holdfast.config.agent_types import agent_types, find_agent
from holdfast.errors import ToolError
from holdfast.extend.attached_editors import attached_editors
from holdfast.extend.lsp.workspace_languages import WorkspaceLanguages
from holdfast.ids import Prefix
from holdfast.schema.approvals import Question, QuestionItem
from holdfast.schema.events import TodoChanged
from holdfast.schema.messages import ToolCall
from holdfast.schema.runs import Limits, Outcome, Phase, Run, RunRequest
from holdfast.schema.sessions import Todo
from holdfast.store import Store
from holdfast.store.writes import PutTodos
from holdfast.tools.after_edit.edit_steps import EditSteps
from holdfast.tools.after_edit.formatter_step import FormatterStep
from holdfast.tools.process.command_process import command_environment
from holdfast.tools.protocol import CommandWatch, ToolContext
from holdfast.tools.search.shipped_programs import with_shipped_programs
from holdfast.tools.web_search import search_key_finder
from holdfast.workspace.open_workspace import OpenWorkspace, tree_limits
from holdfast.workspace.undo.command_snapshots import CallCommands
from holdfast.workspace.undo.file_snapshots import SessionFiles

if TYPE_CHECKING:
    from holdfast.workspace.model_sampling import RunSampling
    from holdfast.workspace.run_hooks import RunHooks

_MIN_COST_LIMIT = 1e-9
"""US dollars. A limit of 0 would mean no limit."""


class WorkspaceToolContexts:
    """The `ToolContexts` of one run."""

    def __init__(
        self,
        workspace: OpenWorkspace,
        settings: Settings,
        *,
        environment: Mapping[str, str],
        root_session_id: str,
        can_see_images: bool,
        permits_url: Callable[[str, str], Awaitable[bool]],
        runs_edit_steps: bool = False,
        hooks: RunHooks | None = None,
        sampling: RunSampling | None = None,
    ) -> None:
        """``runs_edit_steps``: whether the directory is trusted, so that formatters and language servers may run."""
        self._hooks = hooks
        self._sampling = sampling
        self._workspace = workspace
        self._settings = settings
        self._root_session_id = root_session_id
        self._can_see_images = can_see_images
        self._permits_url = permits_url
        self._own_environment = environment
        self._is_trusted = runs_edit_steps
        formatters = FormatterStep(workspace.shared.launcher, seconds=float(settings.tools.format_timeout))
        self._edit_steps = EditSteps([formatters, workspace.languages.step(settings)]) if runs_edit_steps else None

    @cached_property
    def _environment(self) -> Mapping[str, str]:
        """The environment of commands. Most turns run none."""
        environment = command_environment(self._own_environment, self._settings)
        return with_shipped_programs(environment, self._workspace.shared.locations.programs_dir)

    def redact(self, text: str) -> str:
        return self._workspace.redactor.redact(text)

    def _redact_output(self) -> StreamRedactor:
        """A redactor of what is known when the output begins: `.env` files may become known during the call."""
        return self._workspace.redactor.stream()

    def redact_answer(self) -> StreamRedactor:
        return self._workspace.shared.keyring.redactor.stream()

    def context(
        self,
        handle: TurnHandle,
        call: ToolCall,
        *,
        emit: Callable[[str], None],
        progress: Callable[[Phase], None],
        on_subagent: Callable[[Subagent], Awaitable[None]],
    ) -> ToolContext:
        workspace, shared, run = self._workspace, self._workspace.shared, handle.run
        return ToolContext(
            workspace=workspace.path,
            session_id=run.session_id,
            run_id=run.id,
            call_id=call.id,
            workspace_id=workspace.workspace.id,
            settings=self._settings,
            environment=self._environment,
            outputs=shared.locations.session_outputs(self._root_session_id),
            temporary=shared.locations.session_temporary(self._root_session_id),
            hidden=shared.locations.own_directories,
            visible=(shared.locations.skills_dir, shared.locations.programs_dir),
            can_see_images=self._can_see_images,
            interactive=run.interactive,
            emit=emit,
            redact=self.redact,
            redact_stream=self._redact_output,
            permits_url=self._permits_url,
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
                on_write=workspace.command_snapshots.note_write,
                on_read=self._note_read,
            ),
            editor=attached_editors(
                shared.client_calls,
                root_session_id=self._root_session_id,
                workspace_id=workspace.workspace.id,
                session_id=run.session_id,
                run_id=run.id,
                call_id=call.id,
            ),
            command_watch=self._command_watch(run, call),
            after_edit=self._edit_steps,
            jobs=workspace.jobs.for_session(run.session_id),
            asker=_Asker(
                workspace,
                handle,
                call,
                root_session_id=self._root_session_id,
                deadline=self._settings.approvals.deadline_in(run.mode or self._settings.approvals.mode),
                progress=progress,
                hooks=self._hooks,
            ),
            todos=_Todos(shared.store, handle),
            subagents=_Subagents(workspace, self._settings, handle, on_subagent=on_subagent),
            sampler=None if self._sampling is None else self._sampling.of_call(handle, call, progress),
            search_key=search_key_finder(shared.keyring, self._settings, env=shared.env),
        )

    def _note_read(self, path: Path) -> None:
        if self._is_trusted:
            self._workspace.languages.note_read(path, self._settings, self._environment)

    def _command_watch(self, run: Run, call: ToolCall) -> CommandWatch | None:
        if not self._settings.undo.commands:
            return None
        watch = CallCommands(
            self._workspace.command_snapshots,
            session_id=run.session_id,
            run_id=run.id,
            call_id=call.id,
            limits=tree_limits(self._settings),
        )
        return _ToldCommands(watch, self._workspace.languages) if self._is_trusted else watch


class _ToldCommands:
    """Tells language servers which files a command changed."""

    def __init__(self, watch: CommandWatch, languages: WorkspaceLanguages) -> None:
        self._watch = watch
        self._languages = languages

    async def begin(self) -> None:
        await self._watch.begin()

    async def end(self) -> tuple[str, ...]:
        changed = await self._watch.end()
        self._languages.note_changes(changed)
        return changed


class _Asker:
    """Stores a question and waits for its answer."""

    def __init__(
        self,
        workspace: OpenWorkspace,
        handle: TurnHandle,
        call: ToolCall,
        *,
        root_session_id: str,
        deadline: float,
        progress: Callable[[Phase], None],
        hooks: RunHooks | None,
    ) -> None:
        self._hooks = hooks
        self._workspace = workspace
        self._deadline = deadline
        self._handle = handle
        self._call = call
        self._root_session_id = root_session_id
        self._progress = progress

    async def ask(self, items: tuple[QuestionItem, ...]) -> tuple[tuple[str, ...], ...] | None:
        self._progress("question")
        if self._hooks is None:
            return await self._ask(items)
        text = "; ".join(item.text for item in items)
        async with self._hooks.notifying("question", text, call_id=self._call.id):
            return await self._ask(items)

    async def _ask(self, items: tuple[QuestionItem, ...]) -> tuple[tuple[str, ...], ...] | None:
        answered = await self._workspace.shared.approvals.ask(
            Question(
                id="",
                workspace_id=self._workspace.workspace.id,
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
    """The task list of the session. Each write replaces the whole list."""

    def __init__(self, store: Store, handle: TurnHandle) -> None:
        self._store = store
        self._handle = handle

    async def read(self) -> tuple[Todo, ...]:
        return await self._store.todos(self._handle.run.session_id)

    async def write(self, todos: tuple[Todo, ...]) -> None:
        session_id = self._handle.run.session_id
        event = TodoChanged(at=self._handle.now(), session_id=session_id, todos=todos)
        await self._handle.commit([PutTodos(session_id, todos)], [event])


class _Subagents:
    """Starts sub-agents. A sub-agent has the mode of its parent or plan mode, so it may do no more than its parent."""

    def __init__(
        self,
        workspace: OpenWorkspace,
        settings: Settings,
        handle: TurnHandle,
        *,
        on_subagent: Callable[[Subagent], Awaitable[None]],
    ) -> None:
        self._workspace = workspace
        self._settings = settings
        self._handle = handle
        self._on_subagent = on_subagent

    async def run(self, *, agent: str, prompt: str, title: str) -> Outcome:
        parent = self._handle.run
        kind = find_agent(self._settings, agent)
        if kind is None:
            raise ToolError(f"agent {agent!r} does not exist; agents: {', '.join(sorted(agent_types(self._settings)))}")
        request = RunRequest(
            prompt=prompt,
            model=kind.model or parent.model,
            mode="plan" if kind.read_only else parent.mode,
            interactive=parent.interactive,
            limits=Limits(max_cost=self._cost_limit(parent)),
            effort=None if kind.model else parent.effort,  # another model may not support it
            agent=kind.name,
        )
        subagent = await self._handle.start_subagent(request, title=title)
        await self._on_subagent(subagent)
        ended = await subagent.ended()
        return Outcome(
            state=cast(Any, ended.state),
            reason=ended.reason or "internal",
            text=ended.text,
            message_id=ended.message_id,
            error=ended.error,
            left_running=ended.left_running,
        )

    def _cost_limit(self, parent: Run) -> float | None:
        """Return what the parent may still spend. Several sub-agents in parallel may each spend all of it."""
        limit = self._settings.limits.max_cost if parent.limits.max_cost is None else parent.limits.max_cost
        return max(limit - parent.usage.cost, _MIN_COST_LIMIT) if limit else None
