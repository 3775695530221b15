"""Runs: accept, list, wait, change, cancel, pause (`R1`–`R10`, `C1`–`C4`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.config.agent_types import MAIN_AGENT
from holdfast.digests import sha256_hex
from holdfast.errors import BadRequest, Conflict, NotFound, ServerStopping, WorkspaceClosing
from holdfast.events import Hub
from holdfast.runs import Engine
from holdfast.schema.api.request_bodies import (
    AcceptPlanBody,
    Attachment,
    CompactBody,
    FirstPromptBody,
    PromptBody,
    RequestBody,
    ShellBody,
    UndoBody,
)
from holdfast.schema.api.response_bodies import PageView
from holdfast.schema.client_variables import is_secret
from holdfast.schema.messages import File
from holdfast.schema.runs import Accepted, Limits, Mode, Queue, Receipt, Run, RunKind, RunRequest, RunState
from holdfast.services.api_values import check_depth, page_position, page_view
from holdfast.services.idempotency import run_id_of_key
from holdfast.services.server_state import ServerState
from holdfast.services.workspace_service import WorkspaceService
from holdfast.store import Store

T = TypeVar("T")

_RUN_PAGE = 20

_canonical_json = msgspec.json.Encoder(order="sorted")


class RunService:
    """Runs of all sessions. A run whose workspace is not open opens it.

    The methods that accept a run take the idempotency key of the request: it becomes the id of a run that has none.
    """

    def __init__(
        self,
        store: Store,
        hub: Hub,
        engine: Engine,
        *,
        workspaces: WorkspaceService,
        state: ServerState,
        redact: Callable[[str], str],
    ) -> None:
        self._store = store
        self._hub = hub
        self._engine = engine
        self._workspaces = workspaces
        self._state = state
        self._redact = redact

    async def start(self, session_id: str, body: PromptBody, *, client: str, key: str | None = None) -> Accepted:
        return await self._accept(session_id, self._prompt_request(body), body=body, client=client, key=key)

    async def start_in_new_session(
        self, workspace_id: str, body: FirstPromptBody, *, client: str, key: str | None = None
    ) -> Accepted:
        """Create a session and its first run in one commit."""
        request = _with_id(self._prompt_request(body), key)

        def accept() -> Awaitable[Accepted]:
            return self._engine.accept_in_new_session(
                workspace_id, request, client=client, body_hash=body_hash("prompt", body), title=body.title
            )

        async def known_id() -> str:
            return workspace_id

        return await self._open_and_retry(accept, workspace_id=known_id)

    async def run_shell(self, session_id: str, body: ShellBody, *, client: str, key: str | None = None) -> Accepted:
        request = RunRequest(
            kind="shell",
            run_id=body.run_id,
            arguments={"command": body.command},
            environment=self._without_secrets(body.environment),
        )
        return await self._accept(session_id, request, body=body, client=client, key=key)

    async def compact(self, session_id: str, body: CompactBody, *, client: str, key: str | None = None) -> Accepted:
        arguments = {"instruction": body.instruction} if body.instruction.strip() else {}
        request = RunRequest(kind="compact", run_id=body.run_id, arguments=arguments)
        return await self._accept(session_id, request, body=body, client=client, key=key)

    async def accept_plan(
        self, session_id: str, body: AcceptPlanBody, *, client: str, key: str | None = None
    ) -> Accepted:
        """Carry out the plan with which the last prompt of the session ended, in a mode that may change files."""
        run_id = body.run_id or (run_id_of_key(key) if key is not None else None)
        request = RunRequest(run_id=run_id, mode=body.mode, interactive=body.interactive)
        if run_id is None or await self._store.run_record(run_id) is None:  # a known run is returned as it is (`R3`)
            from holdfast.agent.prompts import read_prompt

            planned = await self._planned_run(session_id)
            note = f"\n\n{body.note.strip()}" if body.note.strip() else ""
            request = replace(
                request,
                prompt=await asyncio.to_thread(read_prompt, "plan_accepted") + note,
                model=planned.model,
                effort=planned.effort,
                limits=planned.limits,
                agent=MAIN_AGENT if await self._only_reads(session_id, planned.agent) else None,
            )
        return await self._accept(session_id, request, body=body, client=client, key=key)

    async def _planned_run(self, session_id: str) -> Run:
        """Return the last prompt's run if it completed in plan mode."""
        before: int | None = None
        while True:
            page = await self._store.runs(session_id, limit=_RUN_PAGE, before=before)
            last = next((run for run in page.items if run.kind == "prompt"), None)
            if last is not None or page.next is None:
                break
            before = page.next
        if last is None or last.state != "completed" or await self._mode_of(session_id, last) != "plan":
            message = "the last prompt of the session has not ended with a plan; send one with mode 'plan' first"
            raise Conflict(message, code="no_plan", detail={"run_id": last.id if last else None})
        return last

    async def _only_reads(self, session_id: str, agent: str | None) -> bool:
        """Whether an agent made the plan that cannot carry it out."""
        if agent in (None, MAIN_AGENT):
            return False
        workspace = await self._workspaces.open_known(await self._workspace_of(session_id))
        found = (await workspace.agents(await workspace.setup())).get(agent)
        return found is not None and found.read_only

    async def _mode_of(self, session_id: str, run: Run) -> Mode:
        if run.mode is not None:
            return run.mode
        workspace = await self._workspaces.configured(await self._workspace_of(session_id))
        return (await workspace.setup()).settings.approvals.mode

    async def undo(self, session_id: str, body: UndoBody, *, client: str, key: str | None = None) -> Accepted:
        return await self._accept(session_id, _undo_request("undo", body), body=body, client=client, key=key)

    async def redo(self, session_id: str, body: UndoBody, *, client: str, key: str | None = None) -> Accepted:
        return await self._accept(session_id, _undo_request("redo", body), body=body, client=client, key=key)

    async def list_runs(
        self, session_id: str, *, limit: int, before: str | None = None, states: tuple[RunState, ...] = ()
    ) -> PageView[Run]:
        """The queue and the past, newest first."""
        page = await self._store.runs(session_id, limit=limit, before=page_position(before), states=states or None)
        view = page_view(page, self._hub)
        return replace(view, items=tuple(self._engine.with_live_state(run) for run in view.items))

    async def get(self, run_id: str) -> Run:
        return await self._engine.get_run(run_id)

    async def wait(self, run_id: str, *, seconds: float, caller_left: Coroutine[Any, Any, None]) -> Run:
        """Return the run when it has ended, the time is over, the caller has left, or no run ends any more (`R9`)."""
        end = asyncio.create_task(self._engine.wait_run(run_id, timeout=seconds), name=f"wait:{run_id}")
        others = [
            asyncio.create_task(caller_left, name=f"left:{run_id}"),
            asyncio.create_task(self._state.wait_for_runs_stopped(), name=f"stop:{run_id}"),
        ]
        try:
            await asyncio.wait({end, *others}, return_when=asyncio.FIRST_COMPLETED)
            return end.result() if end.done() else await self._engine.get_run(run_id)
        finally:
            for task in (end, *others):
                task.cancel()

    async def change(self, run_id: str, *, prompt: str | None = None, position: int | None = None) -> Run:
        """Edit or move a queued run."""

        async def workspace_id() -> str:
            return await self._workspace_of((await self._store.run(run_id)).session_id)

        return await self._open_and_retry(
            lambda: self._engine.change_queued(run_id, prompt=prompt, position=position), workspace_id=workspace_id
        )

    async def cancel(self, run_id: str) -> Receipt:
        return await self._engine.cancel_run(run_id)

    async def cancel_session(self, session_id: str, scope: Literal["session", "active"]) -> Receipt:
        return await self._engine.cancel_session(session_id, scope)

    async def pause(self, session_id: str) -> Queue:
        return await self._in_workspace_of(session_id, lambda: self._engine.pause(session_id))

    async def resume(self, session_id: str) -> Queue:
        return await self._in_workspace_of(session_id, lambda: self._engine.resume(session_id))

    async def _accept(
        self, session_id: str, request: RunRequest, *, body: RequestBody, client: str, key: str | None
    ) -> Accepted:
        request = _with_id(request, key)
        digest = body_hash(request.kind, body)
        return await self._in_workspace_of(
            session_id, lambda: self._engine.accept(session_id, request, client=client, body_hash=digest)
        )

    def _prompt_request(self, body: PromptBody) -> RunRequest:
        return replace(_prompt_request(body), environment=self._without_secrets(body.environment))

    def _without_secrets(self, environment: dict[str, str] | None) -> dict[str, str] | None:
        """The variables without those that look like secrets or contain one. They are stored (`W8`)."""
        if environment is None:
            return None
        return {
            name: value
            for name, value in environment.items()
            if not is_secret(name, value) and self._redact(value) == value
        }

    async def _workspace_of(self, session_id: str) -> str:
        return (await self._store.session(session_id)).workspace_id

    async def _in_workspace_of(self, session_id: str, work: Callable[[], Awaitable[T]]) -> T:
        return await self._open_and_retry(work, workspace_id=lambda: self._workspace_of(session_id))

    async def _open_and_retry(
        self, work: Callable[[], Awaitable[T]], *, workspace_id: Callable[[], Awaitable[str]]
    ) -> T:
        """Do the work. If its workspace turns out not to be open, open it and try once more."""
        try:
            return await work()
        except (NotFound, WorkspaceClosing, ServerStopping) as error:
            closed = error.error_code in ("workspace_closed", WorkspaceClosing.code, ServerStopping.code)
            if not closed or self._state.stopping:
                raise
        await self._workspaces.configured(await workspace_id())
        try:
            return await work()
        except ServerStopping:
            self._state.raise_if_stopping()
            raise WorkspaceClosing("the workspace is closing; open it, then try again") from None


def body_hash(kind: RunKind, body: RequestBody) -> str:
    """A hash that is the same for the same request, however its JSON was written (`R3`). It is stored.

    The shell from which a prompt is sent again does not matter.
    """
    if isinstance(body, PromptBody | ShellBody):
        body = replace(body, environment=None)
    return sha256_hex(kind.encode() + b"\n" + _canonical_json.encode(body))


def _with_id(request: RunRequest, key: str | None) -> RunRequest:
    if request.run_id is not None or key is None:
        return request
    return replace(request, run_id=run_id_of_key(key))


def _prompt_request(body: PromptBody) -> RunRequest:
    check_depth(body.output_schema, name="output_schema")
    return RunRequest(
        prompt=body.prompt,
        run_id=body.run_id,
        attachments=tuple(_file(attachment, index=index) for index, attachment in enumerate(body.attachments)),
        delivery=body.delivery,
        after=body.after,
        model=body.model,
        mode=body.mode,
        interactive=body.interactive,
        limits=Limits(body.limits.max_steps, body.limits.max_seconds, body.limits.max_cost),
        effort=body.effort,
        agent=body.agent,
        output_schema=body.output_schema,
    )


def _file(attachment: Attachment, *, index: int) -> File:
    if (attachment.text is None) == (attachment.data is None):
        raise BadRequest(
            f"attachment {attachment.name!r} needs either 'text' or 'data'", detail={"field": f"attachments[{index}]"}
        )
    return File(attachment.name, attachment.media_type, attachment.text, attachment.data)


def _undo_request(kind: RunKind, body: UndoBody) -> RunRequest:
    arguments: dict[str, Any] = {} if body.to_message_id is None else {"to_message_id": body.to_message_id}
    if body.confirmed_runs:
        arguments["confirmed_runs"] = list(body.confirmed_runs)
    return RunRequest(kind=kind, run_id=body.run_id, arguments=arguments)
