"""Recorded event logs, what the server's GETs say at any event of them, and the view that follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.client.transcript import Transcript
from holdfast.client.view_fold import SessionSnapshot, ViewFold
from holdfast.client.view_values import ClientView, StreamConnection
from holdfast.schema.api.response_bodies import SessionView
from holdfast.schema.approvals import Approval, Question
from holdfast.schema.base import encode
from holdfast.schema.events import (
    Delta,
    Event,
    Hello,
    QueueChanged,
    RunAccepted,
    RunProgress,
    SessionCreated,
    SessionDeleted,
    Snapshot,
    read_event,
)
from holdfast.schema.messages import Message, read_message
from holdfast.schema.runs import END_STATES, Now, PauseReason, Queue, Run
from holdfast.schema.sessions import Job, Session, Todo

GOLDEN = Path(__file__).parent / "golden"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.jsonl") if not path.stem.endswith(".snapshots"))
HELLO = Hello("2026-01-01T00:00:00.000Z", "log.0", 10.0)


def read_log(name: str) -> list[Event]:
    return [read_event(line) for line in (GOLDEN / f"{name}.jsonl").read_bytes().splitlines()]


def apply_all(fold: ViewFold, events: list[Event]) -> None:
    """Apply events. Sessions that a user starts are opened when they begin."""
    for event in events:
        is_new = isinstance(event, SessionCreated) and fold.session(event.session_id) is None
        if isinstance(event, SessionCreated) and is_new and event.session.parent_id is None:
            fold.open_session(SessionSnapshot(session=event.session))
        changed = fold.apply(event)
        assert "gap" not in changed, event


def fold_log(events: list[Event]) -> ViewFold:
    fold = ViewFold()
    apply_all(fold, events)
    return fold


def comparable(fold: ViewFold) -> ClientView:
    """The view without what depends on the connection."""
    sessions = tuple(
        replace(session, updated_at="", title="", usage=type(session.usage)()) for session in fold.sessions
    )
    return replace(fold.view(), sessions=sessions, connection=StreamConnection())


def canonical_json(view: ClientView) -> str:
    """The view as JSON that does not depend on the language: whole numbers without a fraction, one line per block."""
    return msgspec.json.format(msgspec.json.encode(_whole(msgspec.json.decode(encode(view)))), indent=1).decode() + "\n"


def _whole(value: Any) -> Any:
    match value:
        case dict():
            return {key: _whole(inner) for key, inner in value.items()}
        case list():
            return [_whole(inner) for inner in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value


class ServerAt:
    """What the server would answer after some events: a plain model of its tables."""

    def __init__(self, events: list[Event]) -> None:
        self.sessions: dict[str, Session] = {}
        self.prompted: dict[str, int] = {}
        self.messages: dict[str, Message] = {}
        self.runs: dict[str, Run] = {}
        self.now: dict[str, Now] = {}
        self.paused: dict[str, PauseReason | None] = {}
        self.todos: dict[str, tuple[Todo, ...]] = {}
        self.asks: dict[str, Approval | Question] = {}
        self.jobs: dict[str, Job] = {}
        self.texts = Transcript()
        for number, event in enumerate(events):
            self.texts.apply(event)
            self._apply(number, event)

    def _apply(self, number: int, event: Event) -> None:
        for name, table in (
            ("session", self.sessions),
            ("run", self.runs),
            ("message", self.messages),
            ("job", self.jobs),
        ):
            value = getattr(event, name, None)
            if isinstance(value, Session | Run | Message | Job):
                table[value.id] = value  # type: ignore[index]
        match event:
            case RunAccepted():
                self.prompted[event.session_id] = number
            case RunProgress():
                self.now[event.run_id] = event.now
            case QueueChanged():
                self.paused[event.session_id] = event.queue.paused
            case SessionDeleted():
                self.sessions.pop(event.session_id, None)
            case _:
                pass
        for ask in (getattr(event, "approval", None), getattr(event, "question", None)):
            if ask is not None:
                self.asks.pop(ask.id, None)
                if ask.state == "open":
                    self.asks[ask.id] = ask
        if (todos := getattr(event, "todos", None)) is not None:
            self.todos[event.session_id] = todos  # type: ignore[union-attr]

    def queue(self, session_id: str) -> Queue:
        runs = [run for run in self.runs.values() if run.session_id == session_id]
        active = [run.id for run in runs if run.state in ("active", "stopping")]
        queued = sorted((run for run in runs if run.state == "queued"), key=lambda run: run.rank)
        waiting = sorted((run for run in runs if run.state == "waiting"), key=lambda run: run.seq)
        return Queue(
            session_id,
            run_ids=tuple(run.id for run in queued),
            waiting=tuple(run.id for run in waiting),
            active=active[0] if active else None,
            paused=self.paused.get(session_id),
        )

    def connect(self) -> ViewFold:
        """The view of a client that reads everything now, and then connects."""
        fold = ViewFold()
        ordered = sorted(self.sessions.values(), key=lambda session: -self.prompted.get(session.id, -1))
        listed = [
            replace(
                session,
                busy=self.queue(session.id).active is not None,
                queued=len(self.queue(session.id).run_ids),
            )
            for session in ordered
        ]
        fold.load_sessions(session for session in listed if session.parent_id is None)
        for session in listed:
            runs = [self._with_now(run) for run in self.runs.values() if run.session_id == session.id]
            fold.open_session(
                SessionSnapshot(
                    session=session,
                    messages=tuple(m for m in self.messages.values() if m.session_id == session.id),
                    runs=tuple(reversed(runs)),
                    queue=self.queue(session.id),
                    todos=self.todos.get(session.id, ()),
                )
            )
        approvals = [ask for ask in self.asks.values() if isinstance(ask, Approval)]
        questions = [ask for ask in self.asks.values() if isinstance(ask, Question)]
        fold.load_asks(approvals, questions)
        fold.load_jobs(reversed(self.jobs.values()))
        fold.apply(HELLO)
        for message_id, message in self.messages.items():
            if parts := self.texts.open_parts(message_id):
                fold.apply(Snapshot(HELLO.at, message.session_id, message_id, parts))
        return fold

    def _with_now(self, run: Run) -> Run:
        return replace(run, now=None if run.state in END_STATES else self.now.get(run.id))


def recorded_snapshots(name: str) -> list[tuple[int, ViewFold]]:
    """Views made from what the real server's GETs returned, each with the number of events before it."""
    found = []
    events = read_log(name)
    for line in (GOLDEN / f"{name}.snapshots.jsonl").read_bytes().splitlines():
        raw = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        after = msgspec.json.decode(raw["after"], type=int)
        fold = ViewFold()
        fold.load_sessions(msgspec.json.decode(raw["sessions"], type=list[Session]))
        for opened in msgspec.json.decode(raw["opened"], type=list[dict[str, msgspec.Raw]]):
            session = msgspec.json.decode(opened["session"], type=SessionView)
            fold.open_session(
                SessionSnapshot(
                    session=msgspec.convert(msgspec.to_builtins(session), Session),
                    messages=tuple(map(read_message, msgspec.json.decode(opened["messages"], type=list[msgspec.Raw]))),
                    runs=msgspec.json.decode(opened["runs"], type=tuple[Run, ...]),
                    queue=session.queue,
                    todos=session.todos,
                )
            )
        fold.load_asks(
            msgspec.json.decode(raw["approvals"], type=list[Approval]),
            msgspec.json.decode(raw["questions"], type=list[Question]),
        )
        fold.load_jobs(msgspec.json.decode(raw["jobs"], type=list[Job]))
        fold.apply(HELLO)
        server = ServerAt(events[:after])
        for message_id, message in server.messages.items():
            if parts := server.texts.open_parts(message_id):
                fold.apply(Snapshot(HELLO.at, message.session_id, message_id, parts))
        found.append((after, fold))
    return found


def is_between_commits(events: list[Event], split: int) -> bool:
    """Whether a client may read the server's state here. Neighbouring events of one commit cannot be told apart."""
    if split in (0, len(events)):
        return True
    before, after = events[split - 1], events[split]
    return is_live(before) or is_live(after)


def is_live(event: Event) -> bool:
    """Live events come between commits, not inside."""
    return isinstance(event, Delta | Snapshot | RunProgress | Hello)
