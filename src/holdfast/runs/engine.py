"""The engine: accepts, cancels, queues and reads runs, and starts and stops their turns after each commit.

An answer is given only after its commit (`R1`). Runs belong to the engine, not to the caller that started them
(`R10`). Everything about one session goes through its mailbox, one commit at a time; sessions do not wait for each
other.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.agent.protocol import TurnFactory
from holdfast.errors import BadRequest, HoldfastError, OutcomeUnknown, ServerStopping
from holdfast.events import Hub
from holdfast.ids import Clock, Ids
from holdfast.runs.acceptance import (
    accept_planner,
    refuse_subagent_session,
    repeat_answer,
    start_record,
    validate_request,
    wait_for_host,
)
from holdfast.runs.cancel_receipt import CancelCommand, PendingReceipt, receipt_of_ended, with_unended
from holdfast.runs.driver import Driver
from holdfast.runs.engine_state import EndedRun, EngineLimits, EngineState
from holdfast.runs.intent_file import IntentFile
from holdfast.runs.lane.commit_plan import Acceptance, CommitPlan, LaneState, QueuedEdit, lane_of
from holdfast.runs.lane.decisions import decide_all
from holdfast.runs.lane.protocol import (
    CancelActive,
    CancelRun,
    CancelSession,
    Change,
    Command,
    Edit,
    Move,
    Open,
    Pause,
    Resume,
    RunEnded,
    TurnStarted,
    TurnStopping,
)
from holdfast.runs.mailbox import Mailbox
from holdfast.runs.recovery import end_crashed_runs, load_lane, post_opening, take_intents
from holdfast.runs.shutdown import stop_engine, stop_workspace
from holdfast.schema.messages import File
from holdfast.schema.runs import END_STATES, Accepted, CancelScope, Queue, Receipt, Run, RunRequest
from holdfast.schema.sessions import Session
from holdfast.store import Committed, Store

_logger = logging.getLogger(__name__)

_TryAccept: TypeAlias = Callable[[], Awaitable[Accepted | None]]


class Engine:
    """All runs of one server."""

    def __init__(
        self,
        store: Store,
        hub: Hub,
        turns: TurnFactory,
        *,
        limits: EngineLimits,
        ids: Ids,
        clock: Clock = time.time,
        intents: IntentFile | None = None,
    ) -> None:
        self._state = EngineState(store, hub, turns, ids=ids, clock=clock, limits=limits, owner=self, intents=intents)
        self._store = store
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._stop_lock = asyncio.Lock()
        self._stop_result: bool | None = None

    async def accept(self, session_id: str, request: RunRequest, *, client: str, body_hash: str) -> Accepted:
        """Accept a run durably, or repeat the first answer for a known `run_id` (`R1`-`R3`)."""

        async def accept_new() -> Accepted | None:
            session = await self._session(session_id)
            validate_request(request)
            refuse_subagent_session(session)
            prepared = self._with_id(await self._prepare(session, request))
            await wait_for_host(self._state, session_id, prepared)
            acceptance = Acceptance(request=prepared, client=client, body_hash=body_hash)
            return await self._post(self._state.mailbox(session_id, session=session), acceptance)

        return await self._accept(
            accept_new, partial(self._find_answer, request.run_id, body_hash=body_hash, session_id=session_id)
        )

    async def accept_in_new_session(
        self, workspace_id: str, request: RunRequest, *, client: str, body_hash: str, title: str = ""
    ) -> Accepted:
        """Create a session and accept its first run in one commit."""

        async def accept_new() -> Accepted | None:
            if workspace_id not in self._state.open_workspaces:
                await self._store.workspace(workspace_id)
            validate_request(request)
            at = self._state.now()
            session = Session(
                id=self._state.ids.new("ses"), workspace_id=workspace_id, title=title, created_at=at, updated_at=at
            )
            prepared = self._with_id(await self._prepare(session, request))
            if prepared.chooses_agent:
                session = replace(session, agent=prepared.agent)
            acceptance = Acceptance(request=prepared, client=client, body_hash=body_hash, in_new_session=True)
            return await self._post(self._state.new_mailbox(session), acceptance)

        return await self._accept(
            accept_new, partial(self._find_answer, request.run_id, body_hash=body_hash, workspace_id=workspace_id)
        )

    async def _accept(self, accept_new: _TryAccept, find_answer: _TryAccept) -> Accepted:
        """Accept a run. Most ids are new, so the ledger is read only if the run is refused or known.

        Whatever refuses it, a known id gets its first answer (`R3`). Two requests with the same id may come at once:
        the lane or the database knows which was first.
        """
        try:
            answer = await accept_new()
        except OutcomeUnknown:
            raise  # nor can the ledger tell
        except HoldfastError:
            answer = await find_answer()
            if answer is None:
                raise
        answer = answer or await find_answer()
        assert answer is not None, "a run that is in the lane is in the database"
        return replace(answer, run=self.with_live_state(answer.run))

    async def _post(self, mailbox: Mailbox, acceptance: Acceptance) -> Accepted | None:
        """The answer, or None if the id is already in this lane."""
        with self._state.start_order.accepting():
            return (await mailbox.post(accept_planner(self._state, acceptance))).answer

    async def get_run(self, run_id: str) -> Run:
        """The run with what it is doing now. Raises `NotFound`, or `Gone` if its session is deleted."""
        return self.with_live_state(await self._store.run(run_id))

    async def wait_run(self, run_id: str, *, timeout: float) -> Run:
        """Wait until the run has ended or the time is over, then return it (`R9`)."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            end = self._state.end_waiters.expect(run_id)
            try:
                run = await self._store.run(run_id)
                left = deadline - loop.time()
                if run.state in END_STATES or left <= 0:
                    return self.with_live_state(run)
                await asyncio.wait({end}, timeout=left)
            finally:
                end.cancel()

    def with_live_state(self, run: Run) -> Run:
        """Add to a stored run what only the engine knows: what it is doing, and that its end cannot be written."""
        active = self._state.active_runs.get(run.id)
        if active is None or run.state in END_STATES:
            return run
        is_stopping = active.stop_reason is not None or active.mailbox.write_error is not None
        return replace(run, state="stopping" if is_stopping else run.state, now=active.progress)

    async def queue(self, session_id: str) -> Queue:
        mailbox = self._state.mailboxes.get(session_id)
        if mailbox is not None and mailbox.state is not None:
            return mailbox.state.lane.view(session_id)
        return lane_of(await self._store.lane(session_id)).view(session_id)

    async def cancel_session(self, session_id: str, scope: CancelScope = "session") -> Receipt:
        """Cancel everything accepted until now, or the active run and the runs that joined it (`C1`-`C4`)."""
        return await self._cancel(session_id, CancelSession() if scope == "session" else CancelActive())

    async def cancel_run(self, run_id: str) -> Receipt:
        if active := self._state.active_runs.get(run_id):  # nothing needs to be read before it is stopped
            receipt = await self._cancel(active.session.id, CancelRun(run_id))
            if receipt.runs:
                return receipt
        run = await self._store.run(run_id)
        if run.state not in END_STATES:
            receipt = await self._cancel(run.session_id, CancelRun(run_id))
            if receipt.runs:
                return receipt
            run = await self._store.run(run_id)
            if run.state not in END_STATES:
                return with_unended(receipt, run, stopped=run_id not in self._state.active_runs)
        return receipt_of_ended(run, mark=(await self._store.lane(run.session_id)).lane.mark)

    async def delete_session(self, session_id: str) -> Receipt:
        """Stop the runs of a session, then delete it. The receipt is that of a cancel."""
        pending = PendingReceipt(self._state, session_id)
        try:
            return await pending.delete()
        finally:
            pending.close()

    async def change_queued(
        self,
        run_id: str,
        *,
        prompt: str | None = None,
        attachments: Sequence[File] | None = None,
        position: int | None = None,
    ) -> Run:
        """Edit or move a queued run, in one commit. Raises `Conflict` (`not_queued`) if it is not queued."""
        run = await self._store.run(run_id)
        is_edit = prompt is not None or attachments is not None
        if not is_edit and position is None:
            raise BadRequest(f"nothing to change in run {run_id!r}; give a prompt, attachments or a position")
        if is_edit and run.kind == "prompt":
            files = run.attachments if attachments is None else tuple(attachments)
            validate_request(RunRequest(prompt=run.prompt if prompt is None else prompt, attachments=files))
        commands: list[Command] = [Edit(run_id)] if is_edit else []
        if position is not None:
            commands.append(Move(run_id, position))
        edit = QueuedEdit(
            prompt=UNSET if prompt is None else prompt,
            attachments=UNSET if attachments is None else tuple(attachments),
        )
        state = (await self._state.send(run.session_id, *commands, edit=edit)).answer
        return self.with_live_state(state.runs[run_id])

    async def pause(self, session_id: str) -> Queue:
        """Keep the next run from starting. The active run continues."""
        return await self._send(session_id, Pause())

    async def resume(self, session_id: str) -> Queue:
        return await self._send(session_id, Resume())

    async def recover(self) -> int:
        """End the runs that a crash left active, in all workspaces. Returns their number. Starts nothing.

        What cannot be written now is retried until it is written or the engine stops.
        """
        self._state.recovers_all = True
        await take_intents(self._state)
        return await end_crashed_runs(self._state, retry=True)

    async def recover_workspace(self, workspace_id: str) -> int:
        """End the runs that another server left active in a workspace that this one owns now. Starts nothing."""
        return await end_crashed_runs(self._state, workspace_id=workspace_id)

    def caretake(self, workspace_id: str) -> None:
        """Accept runs of a workspace whose directory is on a host that is away. They wait until it is back."""
        self._state.caretaken_workspaces.add(workspace_id)

    async def stop_caretaking(self, workspace_id: str) -> None:
        """Undo `caretake`, and forget the lanes of the workspace: another server may change them from now on."""
        self._state.caretaken_workspaces.discard(workspace_id)
        await self._state.wait_forgotten(workspace_id)

    def stop_turns(self) -> None:
        """Stop all active runs at once, whether or not that can be written, and begin nothing until `allow_turns`.

        Their ends are written when possible.
        """
        self._state.turns_allowed.clear()
        for active in tuple(self._state.active_runs.values()):
            active.stop("server_stop")

    def allow_turns(self) -> None:
        """Let the queues go on after `stop_turns`, unless the server stops."""
        if self._state.stopping:
            return
        self._state.turns_allowed.set()
        for mailbox in tuple(self._state.mailboxes.values()):
            if mailbox.state is not None:
                _ = mailbox.post(self._plan_go_on, must_be_written=True)

    async def _plan_go_on(self, state: LaneState) -> CommitPlan[None]:
        """Start the next run, unless the lane was closed meanwhile."""
        if state.lane.lifecycle != "open":
            return CommitPlan(state, None)
        return self._state.plan_decision(state, decide_all(state.lane, Open())).with_answer(None)

    def note_end(self, run: Run) -> None:
        """Wake the waiters of a run that has ended, here or at another server. Called for each end in the log."""
        active = self._state.active_runs.get(run.id)
        self._state.end_waiters.notify(EndedRun(run, active.killed if active else ()))

    async def open_workspace(self, workspace_id: str) -> None:
        """End the runs that a crash left active, then start queued runs (`W6`). Has no effect if it is open.

        A lane that cannot be written now is retried until it is written or the engine stops.
        """
        if self._state.stopping:
            raise ServerStopping("the server is stopping; try again when it is back")
        if workspace_id in self._state.open_workspaces and workspace_id not in self._opening:
            return
        task = self._opening.get(workspace_id)
        if task is None:
            task = self._state.tasks.spawn(self._open(workspace_id), name=f"open:{workspace_id}", may_fail=True)
            self._opening[workspace_id] = task
            task.add_done_callback(lambda _: self._opening.pop(workspace_id, None))
        await asyncio.shield(task)

    async def close_workspace(self, workspace_id: str) -> None:
        """Interrupt its active runs and pause its queues. New prompts get `WorkspaceClosing`."""
        await stop_workspace(self._state, workspace_id)

    async def stop(self) -> bool:
        """Accept no runs, interrupt active ones, keep and pause the queues; in bounded time (`W5`).

        Returns whether all of that is written. What is not written is noted for the next start.
        """
        async with self._stop_lock:
            if self._stop_result is None:
                self._stop_result = await stop_engine(self._state)
            return self._stop_result

    async def unfinished_workspaces(self) -> tuple[str, ...]:
        """Ids of workspaces with unfinished runs. `serve` opens them itself (`W6`)."""
        sessions = dict.fromkeys(run.session_id for run in await self._store.unfinished_runs())
        found = [(await self._store.session(session_id)).workspace_id for session_id in sessions]
        return tuple(dict.fromkeys(found))

    def count_unfinished(self, workspace_id: str | None = None) -> int:
        """The number of unfinished runs of an open workspace, or of all (`W2`)."""
        return sum(
            len(mailbox.state.lane.runs)
            for mailbox in self._state.mailboxes.values()
            if mailbox.state is not None and workspace_id in (None, mailbox.state.session.workspace_id)
        )

    def is_loading(self, workspace_id: str | None = None) -> bool:
        """Whether a lane of a workspace, or of any, is not loaded yet. Its recovery may wait for space (`W2`)."""
        unloaded = [mailbox for mailbox in self._state.mailboxes.values() if mailbox.state is None]
        return any(workspace_id is None or mailbox.workspace_id in (None, workspace_id) for mailbox in unloaded)

    def count_active(self, workspace_id: str | None = None) -> int:
        """The number of runs that have a turn."""
        return sum(workspace_id in (None, active.session.workspace_id) for active in self._state.active_runs.values())

    async def _find_answer(
        self, run_id: str | None, *, body_hash: str, session_id: str | None = None, workspace_id: str | None = None
    ) -> Accepted | None:
        """The first answer for a known run id; `None` for a new one."""
        record = await self._store.run_record(run_id) if run_id is not None else None
        if record is None:
            return None
        return repeat_answer(record, body_hash=body_hash, session_id=session_id, workspace_id=workspace_id)

    async def _prepare(self, session: Session, request: RunRequest) -> RunRequest:
        """Complete and check a request with the settings of its workspace. Where they are away, its start does."""
        if session.workspace_id in self._state.caretaken_workspaces:
            return request
        return await self._state.turns.prepare(session, request)

    async def _session(self, session_id: str) -> Session:
        mailbox = self._state.mailboxes.get(session_id)
        return mailbox.state.session if mailbox and mailbox.state else await self._store.session(session_id)

    def _with_id(self, request: RunRequest) -> RunRequest:
        return request if request.run_id is not None else replace(request, run_id=self._state.ids.new("run"))

    async def _send(self, session_id: str, command: Command) -> Queue:
        return (await self._state.send(session_id, command)).answer.lane.view(session_id)

    async def _cancel(self, session_id: str, command: CancelCommand) -> Receipt:
        pending = PendingReceipt(self._state, session_id)
        try:
            return await pending.cancel(command)
        finally:
            pending.close()

    async def _open(self, workspace_id: str) -> None:
        self._state.open_workspaces.add(workspace_id)
        try:
            ended = await end_crashed_runs(self._state, workspace_id=workspace_id, retry=True)
            runs = await self._store.unfinished_runs(workspace_id=workspace_id)
            sessions = dict.fromkeys(run.session_id for run in runs)
            await asyncio.gather(*(post_opening(self._state, one, self._plan_open) for one in sessions))
        except BaseException:
            self._state.open_workspaces.discard(workspace_id)
            raise
        if runs or ended:
            _logger.info("opened workspace %s: ended %d runs, %d continue", workspace_id, ended, len(runs))

    async def _plan_open(self, state: LaneState) -> CommitPlan[None]:
        """Let the runs of a lane start, unless a stop came first."""
        if not self._state.is_open(state.session.workspace_id):
            raise ServerStopping("the server is stopping, or the workspace was closed again")
        return self._state.plan_decision(state, decide_all(state.lane, Open())).with_answer(None)

    async def load(self, mailbox: Mailbox) -> CommitPlan[None]:
        """Part of `MailboxOwner`."""
        session = mailbox.session or await self._store.session(mailbox.session_id)
        mailbox.workspace_id = session.workspace_id
        return await load_lane(self._state, session)

    def loaded(self, mailbox: Mailbox) -> None:
        """Part of `MailboxOwner`."""
        self._state.lane_loaded(mailbox.session_id)

    def state_now(self, state: LaneState) -> LaneState:
        """Part of `MailboxOwner`."""
        lane = self._state.lane_now(state.lane)
        return state if lane is state.lane else replace(state, lane=lane)

    def applied(self, mailbox: Mailbox, plan: CommitPlan[Any], committed: Committed) -> None:
        """Part of `MailboxOwner`. Each change takes effect even if another one fails."""
        for change in plan.changes:
            try:
                self._apply(change, mailbox, plan, committed)
            except Exception:
                _logger.exception("could not apply %r; its commit stands", change)

    def _apply(self, change: Change, mailbox: Mailbox, plan: CommitPlan[Any], committed: Committed) -> None:
        match change:
            case RunEnded(run_id):
                active = self._state.active_runs.get(run_id)
                ended = next(run for run in plan.ended if run.id == run_id)
                self._state.end_waiters.notify(EndedRun(ended, active.killed if active else ()))
                if active is not None:
                    self._state.remove_active_run(active)
            case TurnStopping(run_id, reason):
                if active := self._state.active_runs.get(run_id):
                    active.stop(reason)
            case TurnStarted(run_id):
                run = plan.state.runs[run_id]
                started_with = start_record(run, plan.batch, committed)
                active = self._state.add_active_run(run, plan.state.session, mailbox, started_with=started_with)
                Driver(self._state, active).start()
            case _:
                pass

    def idle(self, mailbox: Mailbox) -> None:
        """Part of `MailboxOwner`."""
        if self._state.mailboxes.get(mailbox.session_id) is mailbox:
            del self._state.mailboxes[mailbox.session_id]
