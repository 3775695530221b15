"""The state that the parts of the engine share: mailboxes, active runs, waiters for ends, limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from holdfast.agent.protocol import Ending, StartRecord, TurnFactory
from holdfast.events import Hub
from holdfast.ids import Clock, Ids, rfc3339
from holdfast.runs.intent_file import Intent, IntentFile, StopIntent
from holdfast.runs.lane.commit_plan import (
    A,
    Acceptance,
    CommitPlan,
    LaneState,
    PlanBuilder,
    QueuedEdit,
    new_lane_state,
)
from holdfast.runs.lane.decisions import decide_all
from holdfast.runs.lane.protocol import Command, Decision
from holdfast.runs.lane.state import Lane, RunStopReason
from holdfast.runs.mailbox import CommittedAnswer, Mailbox, MailboxOwner
from holdfast.runs.start_order import StartOrder
from holdfast.schema.base import Value
from holdfast.schema.runs import Now, Outcome, Run, RunSettings
from holdfast.schema.sessions import Session
from holdfast.store import Store
from holdfast.tasks import OwnedTasks

_LOOK_SECONDS = 0.01


class EngineLimits(Value, frozen=True, kw_only=True):
    unfinished_runs: int
    """Of one session."""
    subagent_depth: int
    """How deep sub-agents may be nested."""
    live_subagents: int = 8
    """Of one run at a time."""
    stop_seconds: float = 1.5
    """How long a turn may clean up after a cancel; then it is abandoned and named (`C7`)."""
    subagent_stop_share: float = 0.8
    """A sub-agent gets this share of its parent's `stop_seconds`, so that it ends before its parent."""
    end_with_cancel_seconds: float = 0.003
    """How long the commit of a cancel waits for the end of the active run, so that both are written at once."""
    accept_first_seconds: float = 0.1
    """How long a turn waits at most with its beginning while other runs are being accepted."""
    receipt_seconds: float = 2.0
    """How long a cancel waits for the ends of the runs it covers (`C3`)."""
    shutdown_seconds: float = 5.0
    """How long a graceful stop waits for all runs (`W5`)."""
    unwritable_seconds: float = 1.0
    """How long a graceful stop waits for ends that could not be written so far."""
    retry_first_seconds: float = 0.1
    """Delay before an end that could not be written is retried; doubles each time."""
    retry_most_seconds: float = 5.0


class EndedRun(Value, frozen=True):
    """An ended run, with what only the process that ended it knows."""

    run: Run
    killed: tuple[str, ...] = ()


class EndWaiters:
    """Futures of callers that wait for the end of a run. Callers that come later read the database (`R9`)."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[EndedRun]]] = {}

    def expect(self, run_id: str) -> asyncio.Future[EndedRun]:
        """A future that is resolved after the commit of the run's end. Cancel it to stop waiting."""
        future: asyncio.Future[EndedRun] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(run_id, set()).add(future)
        future.add_done_callback(lambda done: self._forget(run_id, done))
        return future

    def notify(self, ended: EndedRun) -> None:
        for future in tuple(self._waiting.get(ended.run.id, ())):
            if not future.done():
                future.set_result(ended)

    def __len__(self) -> int:
        return sum(len(waiting) for waiting in self._waiting.values())

    def _forget(self, run_id: str, future: asyncio.Future[EndedRun]) -> None:
        waiting = self._waiting.get(run_id)
        if waiting is not None:
            waiting.discard(future)
            if not waiting:
                del self._waiting[run_id]


class ActiveRun:
    """A run that has the turn: what it is doing, why it must stop, what it has killed and left running."""

    def __init__(
        self,
        run: Run,
        session: Session,
        *,
        mailbox: Mailbox,
        hub: Hub,
        now: Callable[[], str],
        depth: int,
        started_with: StartRecord,
    ) -> None:
        self.run = run
        """As it was when it started."""
        self.session = session
        self.started_with = started_with
        self.mailbox = mailbox
        self.depth = depth
        """How many runs are above it; 0 for a run that is not a sub-agent's."""
        self.stop_reason: RunStopReason | None = None
        self.killed: tuple[str, ...] = ()
        self.left_running: tuple[str, ...] = ()
        self.subagents: dict[str, Callable[[RunStopReason], None]] = {}
        """The live sub-agents: for each run id the function that stops it."""
        self.turn_task: asyncio.Task[Any] | None = None
        """The task of the turn, while it runs."""
        self.stop_requested: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.turn_over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the turn and its sub-agents have returned, or were abandoned."""
        self.end_committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.in_effect: asyncio.Future[RunSettings] = asyncio.get_running_loop().create_future()
        """The settings with which the turn works, all defaults filled in."""
        self._progress = Now("starting", since=now())
        self._hub = hub
        self._now = now

    @property
    def has_ended(self) -> bool:
        """Whether the end is committed."""
        return self.end_committed.done()

    @property
    def progress(self) -> Now:
        """What the run is doing, or that its end cannot be written (`R14`)."""
        if self.mailbox.write_error is not None:
            return Now("store", self.mailbox.write_error.message, self._progress.since)
        return self._progress

    def use_settings(self, in_effect: RunSettings) -> None:
        if not self.in_effect.done():
            self.in_effect.set_result(in_effect)

    async def settings_known(self) -> None:
        """Wait until it is known with which settings the turn works, or until it takes no steers any more."""
        await asyncio.wait(
            (self.in_effect, self.stop_requested, self.turn_over, self.end_committed),
            return_when=asyncio.FIRST_COMPLETED,
        )

    @property
    def takes_steers(self) -> bool:
        return self.run.kind == "prompt" and self.stop_reason is None and not self.turn_over.done()

    def announce(self) -> None:
        """Tell the subscribers what it is doing. Call it once, when the run has started."""
        self._hub.report_progress(self.session.id, self.run.id, self._progress)

    def set_progress(self, progress: Now) -> None:
        if not self.has_ended and (self.stop_reason is None or progress.phase == "stopping"):
            self._progress = progress
            self._hub.report_progress(self.session.id, self.run.id, progress)

    def stop(self, reason: RunStopReason) -> None:
        """Stop the turn and its sub-agents. Only the first call has an effect."""
        if self.stop_reason is None and not self.has_ended:
            self.stop_reason = reason
            if self.turn_task is not None:
                self.turn_task.cancel()
            self.stop_subagents(reason)
            self.set_progress(Now("stopping", self._progress.what, self._now()))
            self.stop_requested.set_result(None)

    async def wait_stopped(self) -> None:
        """Wait until nothing of the run is running any more. Its end may not be written yet."""
        await asyncio.wait((self.turn_over, self.end_committed), return_when=asyncio.FIRST_COMPLETED)

    def stop_subagents(self, reason: RunStopReason) -> None:
        for stop in tuple(self.subagents.values()):
            stop(reason)

    def report(self, *, killed: Sequence[str] = (), left_running: Sequence[str] = ()) -> None:
        """Add the names of processes that were killed or did not die."""
        self.killed = tuple(dict.fromkeys((*self.killed, *killed)))
        self.left_running = tuple(dict.fromkeys((*self.left_running, *left_running)))

    def with_left_running(self, outcome: Outcome) -> Outcome:
        """The outcome with everything that was reported as left running."""
        left = tuple(dict.fromkeys((*outcome.left_running, *self.left_running)))
        return replace(outcome, left_running=left)


class EngineState:
    def __init__(
        self,
        store: Store,
        hub: Hub,
        turns: TurnFactory,
        *,
        ids: Ids,
        clock: Clock,
        limits: EngineLimits,
        owner: MailboxOwner,
        intents: IntentFile | None = None,
    ) -> None:
        self.store = store
        self.hub = hub
        self.turns = turns
        self.ids = ids
        self.limits = limits
        self.tasks = OwnedTasks()
        self.end_waiters = EndWaiters()
        self.start_order = StartOrder(most_seconds=limits.accept_first_seconds)
        self.mailboxes: dict[str, Mailbox] = {}
        """By session id; only those with work or unfinished runs."""
        self.active_runs: dict[str, ActiveRun] = {}
        """By run id."""
        self.open_workspaces: set[str] = set()
        self.caretaken_workspaces: set[str] = set()
        """Those whose directory is on a host that is away: runs are accepted, and wait there."""
        self.recovers_all = False
        """Whether everything in the database is this server's, also in workspaces that it has not opened."""
        self.stopping = False
        self.has_stopped = False
        """Whether what cannot be written is left to the next start."""
        self.turns_allowed = asyncio.Event()
        """Not set while the server may begin nothing."""
        self.turns_allowed.set()
        self.intents = intents
        """Where a cancel or a stop is noted that the database cannot take; `None`: nowhere."""
        self.left_intents: dict[str, tuple[Intent, ...]] = {}
        """By session id: the intents that the last server left and that its lane has not taken yet."""
        self.taken_intents: tuple[Intent, ...] = ()
        """All of them; they are forgotten when every lane has taken its own."""
        self._clock = clock
        self._owner = owner

    def now(self, *, later: float = 0.0) -> str:
        """The current time, or the time in ``later`` seconds."""
        return rfc3339(self._clock() + later)

    def lane_now(self, lane: Lane) -> Lane:
        """The lane as it is to be decided on now: whether the next run may start."""
        may_start = self.turns_allowed.is_set()
        return lane if lane.may_start == may_start else replace(lane, may_start=may_start)

    def lane_loaded(self, session_id: str) -> None:
        """Call this when the lane has committed the intents that were left for it."""
        if self.left_intents.pop(session_id, None) is not None and not self.left_intents:
            # A stop of this server may have been noted meanwhile. If it was not, to hold the queues again is harmless.
            done = (intent for intent in self.taken_intents if not (self.stopping and isinstance(intent, StopIntent)))
            self.forget_intents(*done)

    def stop_retrying(self) -> None:
        """Leave what cannot be written to the next start, now and in mailboxes that are made later."""
        self.has_stopped = True
        for mailbox in self.mailboxes.values():
            mailbox.stop_retrying()

    def forget_intents(self, *intents: Intent) -> None:
        """Call this when the database has them."""
        if self.intents is not None:
            _ = self.tasks.spawn(asyncio.to_thread(self.intents.forget, *intents), name="forget intents")

    def new_message_id(self) -> str:
        return self.ids.new("msg")

    def is_open(self, workspace_id: str) -> bool:
        """Whether runs of this workspace are accepted and started."""
        return workspace_id in self.open_workspaces and not self.stopping

    def add_active_run(self, run: Run, session: Session, mailbox: Mailbox, *, started_with: StartRecord) -> ActiveRun:
        parent = self.active_runs.get(run.parent_run_id or "")
        depth = parent.depth + 1 if parent else 0
        active = ActiveRun(
            run, session, mailbox=mailbox, hub=self.hub, now=self.now, depth=depth, started_with=started_with
        )
        self.active_runs[run.id] = active
        return active

    def remove_active_run(self, active: ActiveRun) -> None:
        """Call this when the run's end is committed."""
        if not active.has_ended:
            active.end_committed.set_result(None)
        self.active_runs.pop(active.run.id, None)
        self.hub.close_session(active.session.id)

    def mailbox(self, session_id: str, *, session: Session | None = None) -> Mailbox:
        """The mailbox of a session. Post to it at once: a mailbox without work is dropped."""
        return self.mailboxes.get(session_id) or self._add_mailbox(session_id, None, session)

    async def wait_forgotten(self, workspace_id: str) -> None:
        """Wait until no lane of the workspace is in memory. Nothing may be active in it, and nothing new may come."""
        while any(one.workspace_id in (None, workspace_id) for one in self.mailboxes.values()):  # noqa: ASYNC110 - rare
            await asyncio.sleep(_LOOK_SECONDS)

    def new_mailbox(self, session: Session) -> Mailbox:
        """The mailbox of a session that its first command creates."""
        return self._add_mailbox(session.id, new_lane_state(session), session)

    def _add_mailbox(self, session_id: str, state: LaneState | None, session: Session | None) -> Mailbox:
        mailbox = Mailbox(
            session_id,
            store=self.store,
            owner=self._owner,
            tasks=self.tasks,
            retry_seconds=(self.limits.retry_first_seconds, self.limits.retry_most_seconds),
            end_seconds=self.limits.end_with_cancel_seconds,
            state=state,
            session=session,
        )
        if self.has_stopped:
            mailbox.stop_retrying()
        self.mailboxes[session_id] = mailbox
        return mailbox

    def send(
        self, session_id: str, *commands: Command, edit: QueuedEdit | None = None, uses_reserve: bool = False
    ) -> asyncio.Future[CommittedAnswer[LaneState]]:
        """Send commands to a lane as one commit. The answer is the state after it."""

        async def plan(state: LaneState) -> CommitPlan[LaneState]:
            made = self.plan_decision(state, decide_all(state.lane, *commands), edit=edit)
            return made.with_answer(made.state)

        return self.mailbox(session_id).post(plan, uses_reserve=uses_reserve)

    def plan_builder(self, state: LaneState) -> PlanBuilder:
        return PlanBuilder(state, at=self.now(), new_message_id=self.new_message_id)

    def plan_decision(
        self,
        state: LaneState,
        decision: Decision[A],
        *,
        acceptance: Acceptance | None = None,
        edit: QueuedEdit | None = None,
        endings: Mapping[str, Ending] | None = None,
    ) -> CommitPlan[A]:
        """The commit of a decision; see `PlanBuilder.plan`."""
        return self.plan_builder(state).plan(decision, acceptance=acceptance, edit=edit, endings=endings)
