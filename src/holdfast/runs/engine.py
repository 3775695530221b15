"""The engine: owns the lanes and the tasks of the runs, and is what the layers above talk to.

What a caller is told is committed (`R1`); what it does with the answer changes nothing, for runs belong to the engine
(`R10`). Everything about one session happens in its mailbox, one commit at a time; sessions do not wait for each other.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from holdfast.agent.protocol import TurnFactory
from holdfast.errors import BadRequest, ServerStopping, StoreConflict
from holdfast.events import Hub
from holdfast.ids import Clock, Ids
from holdfast.runs import recovery
from holdfast.runs.acceptance import Made, accept_planner, answer_again, refuse_child, validate
from holdfast.runs.cancel_receipt import PendingReceipt, receipt_of_ended
from holdfast.runs.driver import Driver
from holdfast.runs.end_waiters import EndedRun
from holdfast.runs.engine_limits import EngineLimits
from holdfast.runs.engine_state import EngineState
from holdfast.runs.lane.ledger_batch import Acceptance, LaneState, Plan, lane_of
from holdfast.runs.lane.protocol import (
    CancelActive,
    CancelRun,
    CancelSession,
    Change,
    Command,
    Delete,
    Edit,
    Move,
    Pause,
    Remove,
    Resume,
    RunFinished,
    RunStarted,
    RunStopping,
)
from holdfast.runs.mailbox import Mailbox
from holdfast.runs.planners import command_planner, open_planner
from holdfast.runs.shutdown import stop_all, stop_workspace
from holdfast.schema.events import SessionCreated
from holdfast.schema.messages import File
from holdfast.schema.runs import END_STATES, Accepted, Queue, Receipt, Run, RunRequest
from holdfast.schema.sessions import Session
from holdfast.store import Store
from holdfast.store.writes import PutSession

_logger = logging.getLogger(__name__)

Scope: TypeAlias = Literal["session", "active"]
_Again: TypeAlias = Callable[[str | None], Awaitable[Accepted | None]]


class Engine:
    """All runs of one server."""

    def __init__(
        self,
        store: Store,
        hub: Hub,
        turns: TurnFactory,
        *,
        ids: Ids | None = None,
        clock: Clock = time.time,
        bounds: EngineLimits | None = None,
    ) -> None:
        self._desk = EngineState(
            store, hub, turns, ids=ids or Ids(clock=clock), clock=clock, bounds=bounds or EngineLimits(), owner=self
        )
        self._store = store
        self._opening: dict[str, asyncio.Task[None]] = {}

    async def accept(self, session_id: str, request: RunRequest, *, client: str, body_hash: str) -> Accepted:
        """A new run, durably, or the first answer again for a known ``run_id`` (`R1`–`R3`)."""
        again = partial(self._again, body_hash=body_hash, session_id=session_id)
        if answer := await again(request.run_id):
            return answer
        session = await self._session(session_id)
        validate(request)
        refuse_child(session)
        await self._desk.turns.check(session, request)
        acceptance = Acceptance(request=self._named(request), client=client, body_hash=body_hash)
        return await self._accept(self._desk.mailbox(session_id, known=session), acceptance, again=again)

    async def accept_in_new_session(
        self, workspace_id: str, request: RunRequest, *, client: str, body_hash: str, title: str = ""
    ) -> Accepted:
        """The session and its first run in one commit."""
        again = partial(self._again, body_hash=body_hash, workspace_id=workspace_id)
        if answer := await again(request.run_id):
            return answer
        await self._store.workspace(workspace_id)
        validate(request)
        at = self._desk.now()
        session = Session(
            id=self._desk.ids.new("ses"), workspace_id=workspace_id, title=title, created_at=at, updated_at=at
        )
        await self._desk.turns.check(session, request)
        acceptance = Acceptance(request=self._named(request), client=client, body_hash=body_hash)
        made = ((PutSession(session),), (SessionCreated(at, session.id, session),))
        return await self._accept(self._desk.new_mailbox(session), acceptance, again=again, made=made)

    async def _accept(
        self, mailbox: Mailbox, acceptance: Acceptance, *, again: _Again, made: Made = ((), ())
    ) -> Accepted:
        """Two requests with one id may get this far: the lane or the ledger knows which came first."""
        try:
            answer = (await mailbox.post(accept_planner(self._desk, acceptance, made=made))).answer
        except StoreConflict:
            answer = await again(acceptance.request.run_id)
            if answer is None:
                raise
        answer = answer or await again(acceptance.request.run_id)
        assert answer is not None, "the lane only knows runs that the ledger knows"
        return replace(answer, run=self.shown(answer.run))

    async def get_run(self, run_id: str) -> Run:
        """As it is, with what it is doing now. `NotFound`, or `Gone` when its session is deleted."""
        return self.shown(await self._store.run(run_id))

    async def wait_run(self, run_id: str, *, timeout: float) -> Run:
        """The same, when it has ended or the time is over (`R9`)."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            over = self._desk.waiters.expect(run_id)
            try:
                run = await self._store.run(run_id)
                left = deadline - loop.time()
                if run.state in END_STATES or left <= 0:
                    return self.shown(run)
                await asyncio.wait({over}, timeout=left)
            finally:
                over.cancel()

    def shown(self, run: Run) -> Run:
        """A run read from the ledger, with what only the engine knows: what it does, that its end is not written."""
        driver = self._desk.drivers.get(run.id)
        if driver is None or run.state in END_STATES:
            return run
        return replace(run, state="stopping" if driver.mailbox.stuck else run.state, now=driver.now)

    async def queue(self, session_id: str) -> Queue:
        mailbox = self._desk.mailboxes.get(session_id)
        if mailbox is not None and mailbox.state is not None:
            return mailbox.state.lane.view(session_id)
        return lane_of(await self._store.lane(session_id)).view(session_id)

    async def cancel_session(self, session_id: str, scope: Scope = "session") -> Receipt:
        """Everything accepted until now, or the active run and what joined it (`C1`–`C4`)."""
        return await self._cancel(session_id, CancelSession() if scope == "session" else CancelActive())

    async def cancel_run(self, run_id: str) -> Receipt:
        run = await self._store.run(run_id)
        if run.state not in END_STATES:
            receipt = await self._cancel(run.session_id, CancelRun(run_id))
            if receipt.runs:
                return receipt
            run = await self._store.run(run_id)
        return receipt_of_ended(run, mark=(await self._store.lane(run.session_id)).lane.mark)

    async def delete_session(self, session_id: str) -> Receipt:
        """Stops what runs, then removes the session. The receipt comes as with a cancel."""
        return await self._cancel(session_id, Delete())

    async def change_queued(
        self,
        run_id: str,
        *,
        prompt: str | None = None,
        attachments: Sequence[File] | None = None,
        position: int | None = None,
    ) -> Run:
        """Edits or moves a run that is still queued, in one commit. `Conflict` (``not_queued``) otherwise."""
        run = await self._store.run(run_id)
        edited: dict[str, str | tuple[File, ...]] = {}
        if prompt is not None:
            edited["prompt"] = prompt
        if attachments is not None:
            edited["attachments"] = tuple(attachments)
        if not edited and position is None:
            raise BadRequest(f"nothing to change in run {run_id!r}; give a prompt, attachments or a position")
        if edited and run.kind == "prompt":
            files = run.attachments if attachments is None else tuple(attachments)
            validate(RunRequest(prompt=run.prompt if prompt is None else prompt, attachments=files))
        commands: list[Command] = [Edit(run_id)] if edited else []
        if position is not None:
            commands.append(Move(run_id, position))
        planner = command_planner(self._desk, *commands, edited=edited)
        state = (await self._desk.mailbox(run.session_id).post(planner)).answer
        return self.shown(state.runs[run_id])

    async def remove_queued(self, run_id: str) -> Run:
        run = await self._store.run(run_id)
        await self._command(run.session_id, Remove(run_id))
        return await self._store.run(run_id)

    async def pause(self, session_id: str) -> Queue:
        """The next run does not start; the active one is not touched."""
        return await self._command(session_id, Pause())

    async def resume(self, session_id: str) -> Queue:
        return await self._command(session_id, Resume())

    async def recover(self) -> int:
        """Ends what a crash left, in all workspaces; how many runs. Starts nothing: that is for opening one."""
        return await recovery.recover(self._desk)

    async def open_workspace(self, workspace_id: str) -> None:
        """Ends what a crash left behind, then lets queued runs start (`W6`). Again: nothing happens."""
        if self._desk.stopping:
            raise ServerStopping("the server is stopping; try again when it is back")
        if workspace_id in self._desk.open_workspaces and workspace_id not in self._opening:
            return
        task = self._opening.get(workspace_id)
        if task is None:
            task = self._desk.tasks.spawn(self._open(workspace_id), name=f"open:{workspace_id}", may_fail=True)
            self._opening[workspace_id] = task
            task.add_done_callback(lambda _: self._opening.pop(workspace_id, None))
        await asyncio.shield(task)

    async def close_workspace(self, workspace_id: str) -> None:
        """Interrupts its active runs, holds its queues; new prompts get `WorkspaceClosing`."""
        await stop_workspace(self._desk, workspace_id)

    async def stop(self) -> None:
        """No new runs; active ones end ``interrupted``, queues are kept and held; bounded (`W5`)."""
        await stop_all(self._desk)

    async def unfinished_workspaces(self) -> tuple[str, ...]:
        """Ids of those with runs that have not ended: `serve` opens them itself (`W6`)."""
        sessions = dict.fromkeys(run.session_id for run in await self._store.unfinished_runs())
        found = [(await self._store.session(session_id)).workspace_id for session_id in sessions]
        return tuple(dict.fromkeys(found))

    def unfinished(self, workspace_id: str | None = None) -> int:
        """How many runs of an open workspace (or of all) have not ended (`W2`)."""
        return sum(
            len(mailbox.state.lane.runs)
            for mailbox in self._desk.mailboxes.values()
            if mailbox.state is not None and workspace_id in (None, mailbox.state.session.workspace_id)
        )

    def active(self, workspace_id: str | None = None) -> int:
        """How many of them have a turn."""
        return sum(workspace_id in (None, driver.session.workspace_id) for driver in self._desk.drivers.values())

    async def _again(
        self, run_id: str | None, *, body_hash: str, session_id: str | None = None, workspace_id: str | None = None
    ) -> Accepted | None:
        record = await self._store.run_record(run_id) if run_id is not None else None
        if record is None:
            return None
        answer = answer_again(record, body_hash=body_hash, session_id=session_id, workspace_id=workspace_id)
        return replace(answer, run=self.shown(answer.run))

    async def _session(self, session_id: str) -> Session:
        mailbox = self._desk.mailboxes.get(session_id)
        return mailbox.state.session if mailbox and mailbox.state else await self._store.session(session_id)

    def _named(self, request: RunRequest) -> RunRequest:
        return request if request.run_id is not None else replace(request, run_id=self._desk.ids.new("run"))

    async def _command(self, session_id: str, *commands: Command) -> Queue:
        state = (await self._desk.mailbox(session_id).post(command_planner(self._desk, *commands))).answer
        return state.lane.view(session_id)

    async def _cancel(self, session_id: str, command: CancelSession | CancelActive | CancelRun | Delete) -> Receipt:
        pending = PendingReceipt(self._desk)
        try:
            await self._desk.mailbox(session_id).post(pending.planner(command))
            return await pending.receipt()
        finally:
            pending.drop()

    async def _open(self, workspace_id: str) -> None:
        self._desk.open_workspaces.add(workspace_id)
        try:
            left = await recovery.recover(self._desk, workspace_id=workspace_id)
            runs = await self._store.unfinished_runs(workspace_id=workspace_id)
            sessions = dict.fromkeys(run.session_id for run in runs)
            await asyncio.gather(*(self._desk.mailbox(one).post(open_planner(self._desk)) for one in sessions))
        except BaseException:
            self._desk.open_workspaces.discard(workspace_id)
            raise
        if runs or left:
            _logger.info("workspace %s is open: %d runs were ended, %d go on", workspace_id, left, len(runs))

    async def load(self, mailbox: Mailbox) -> Plan[None]:
        """For mailboxes."""
        return await recovery.load(self._desk, mailbox.session_id, known=mailbox.known)

    def applied(self, mailbox: Mailbox, plan: Plan[Any]) -> None:
        """For mailboxes: what is committed takes effect, each thing whatever becomes of the others."""
        ended = {run.id: run for run in plan.ended}
        for change in plan.changes:
            try:
                self._take_effect(change, mailbox, plan.state, ended)
            except Exception:
                _logger.exception("what follows from %r failed; its commit stands", change)

    def _take_effect(self, change: Change, mailbox: Mailbox, state: LaneState, ended: dict[str, Run]) -> None:
        match change:
            case RunFinished(run_id):
                driver = self._desk.drivers.get(run_id)
                self._desk.waiters.tell(EndedRun(ended[run_id], driver.killed if driver else ()))
                if driver is not None:
                    driver.ended()
            case RunStopping(run_id, why):
                if driver := self._desk.drivers.get(run_id):
                    driver.stop(why)
            case RunStarted(run_id):
                self._start(mailbox, state.runs[run_id], state.session)
            case _:
                pass

    def _start(self, mailbox: Mailbox, run: Run, session: Session) -> None:
        parent = self._desk.drivers.get(run.parent_run_id or "")
        Driver(self._desk, mailbox, run, session, depth=parent.depth + 1 if parent else 0).start()

    def idle(self, mailbox: Mailbox) -> None:
        """For mailboxes: what has nothing to do is not kept."""
        if self._desk.mailboxes.get(mailbox.session_id) is mailbox:
            del self._desk.mailboxes[mailbox.session_id]
