"""Checks that the event log and the tables agree, and that both keep the promises."""

from collections import defaultdict

from msgspec.structs import replace

from holdfast.errors import Gone
from holdfast.runs.lane.commit_plan import lane_of, run_in_event
from holdfast.schema import events as ev
from holdfast.schema.messages import Message, public_parts
from holdfast.schema.runs import END_STATES, Queue, Run
from holdfast.store import Store

_FIELDS = (
    *("id", "session_id", "seq", "kind", "state", "reason", "rank", "delivery", "after", "prompt", "attachments"),
    *("client", "host_run_id", "parent_run_id", "started_at", "finished_at", "text", "message_id", "error"),
)


class LoggedState:
    """The state that the events of the log describe."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.messages: dict[str, tuple[Message, bool]] = {}
        """Each message, and whether it was finished."""
        self.queues: dict[str, Queue] = {}
        self.deleted: set[str] = set()
        self.started: defaultdict[str, int] = defaultdict(int)
        self.ended: defaultdict[str, int] = defaultdict(int)
        self._last = 0

    def apply(self, number: int, event: ev.Event) -> None:
        assert number > self._last, f"E1: number {number} after {self._last}"
        self._last = number
        match event:
            case ev.RunAccepted(run=run):
                assert run.id not in self.runs, f"R3: {run.id} is accepted twice"
                self.runs[run.id] = run
            case ev.RunStarted(run=run):
                self._check_start(run)
                self._next(run, "queued")
            case ev.RunJoined(run=run):
                self._next(run, "waiting")
            case ev.RunStopping(run=run):
                self._next(run, "active")
            case ev.RunUpdated(run=run):
                self._next(run, "queued", "waiting")
            case ev.RunFinished(run=run):
                self._next(run, "queued", "waiting", "joined", "active", "stopping")
                self.ended[run.id] += 1
            case ev.QueueChanged(queue=queue):
                self.queues[queue.session_id] = queue
            case ev.MessageCreated(message=message) | ev.MessageUpdated(message=message):
                self._check_message(message)
                self.messages[message.id] = (message, message.role == "user")
            case ev.MessageFinished(message=message):
                self._check_message(message)
                self.messages[message.id] = (message, True)
            case ev.SessionDeleted(session_id=session_id):
                self._forget(session_id)
            case _:
                pass

    def _next(self, run: Run, *before: str) -> None:
        known = self.runs.get(run.id)
        assert known is not None, f"E8: the log was cut behind {run.id}"
        assert known.state in before, f"R7: {run.id} went from {known.state} to {run.state}"
        self.runs[run.id] = run

    def _check_start(self, run: Run) -> None:
        self.started[run.id] += 1
        here = [other for other in self.runs.values() if other.session_id == run.session_id]
        turns = [other.id for other in here if other.state in ("active", "stopping")]
        assert not turns, f"R4: {run.id} starts while {turns} have the turn"
        queue = sorted((other.rank, other.id) for other in here if other.state == "queued")
        assert queue, f"R5: {run.id} starts, but nothing is queued"
        assert queue[0][1] == run.id, f"R5: {run.id} starts before {queue[0][1]}"

    def _check_message(self, message: Message) -> None:
        run = self.runs[message.run_id]
        if not message.unsent and message.session_id == run.session_id:  # else a fork's copy
            assert run.state in ("active", "stopping", "joined"), (
                f"E5: a message of {run.id} comes when it is {run.state}"
            )

    def _forget(self, session_id: str) -> None:
        self.deleted.add(session_id)
        for run in [run for run in self.runs.values() if run.session_id == session_id]:
            assert run.state in END_STATES, f"E8: {run.id} was {run.state} when its session was deleted"
            del self.runs[run.id]


async def read_logged_state(store: Store) -> LoggedState:
    replay = LoggedState()
    deleted = set()
    page = await store.events_after(0, upto=store.last_number, limit=1_000_000, max_bytes=1 << 40)
    events = [(logged.number, ev.read_event(logged.body)) for logged in page.events]
    for _, event in events:
        if isinstance(event, ev.SessionDeleted):
            deleted.add(event.session_id)
    for number, event in events:
        if getattr(event, "session_id", None) not in deleted:
            replay.apply(number, event)
    replay.deleted = deleted
    return replay


async def check_log_matches_tables(store: Store) -> LoggedState:
    """Raise if the tables and the log differ, or either breaks a promise."""
    await store.prune_responses(before="")  # removes nothing; when it returns, all commits before it are published
    replay = await read_logged_state(store)
    for session_id in {run.session_id for run in replay.runs.values()} - replay.deleted:
        try:
            await _check_session(store, replay, session_id)
        except Gone:
            continue  # deleted between the two reads
    for run_id, run in replay.runs.items():
        assert replay.ended[run_id] == (run.state in END_STATES), f"R7: {run_id} has {replay.ended[run_id]} ends"
        assert replay.started[run_id] <= 1, f"R7: {run_id} was started {replay.started[run_id]} times"
    return replay


async def _check_session(store: Store, replay: LoggedState, session_id: str) -> None:
    rows = {run.id: run for run in (await store.runs(session_id, limit=10_000)).items}
    for run_id, row in rows.items():
        logged_run = replay.runs[run_id]
        for field in _FIELDS:
            stored, logged = getattr(run_in_event(row), field), getattr(logged_run, field)
            assert stored == logged, f"the log says {field} of {run_id} is {logged!r}, the table says {stored!r}"
    assert {run.id for run in replay.runs.values() if run.session_id == session_id} == rows.keys()
    lane = lane_of(await store.lane(session_id))
    assert sum(run.state in ("active", "stopping") for run in lane.runs) <= 1, "R4: two runs have the turn"
    shown, logged_queue = lane.view(session_id), replay.queues.get(session_id, Queue(session_id))
    assert (shown.run_ids, shown.waiting) == (logged_queue.run_ids, logged_queue.waiting)
    if lane.lifecycle == "open":
        assert shown.paused == logged_queue.paused
    for message in (await store.messages(session_id, limit=10_000)).items:
        assert message.id in replay.messages, f"message {message.id} is stored but has no event"
        logged_message, finished = replay.messages[message.id]
        if finished:
            assert logged_message == replace(message, parts=public_parts(message.parts))
