"""The fold of events into what every user interface shows: sessions, asks, jobs, clients and opened sessions. Pure.

::

    fold = ViewFold()
    fold.load_sessions(page.items)                       # what the server's GETs returned,
    fold.open_session(SessionSnapshot(session=..., messages=...))
    async for event in client.events(after=cursor):      # and the events since the earliest of their cursors
        changed = fold.apply(event)                      # what must be drawn again
        ...
    fold.transcript(session_id).entries                  # the blocks, with revisions
    fold.view()                                          # everything as one value

Any split of a log gives the same view: the server's values at some event, then the events after it, are the same as all
events. Events that a GET already contains may be applied again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec.structs import replace

from holdfast.client.transcript_fold import TranscriptFold
from holdfast.client.view_values import ClientView, OpenAsk, StreamConnection
from holdfast.schema.approvals import Approval, Question
from holdfast.schema.base import Value
from holdfast.schema.events import (
    ApprovalRequested,
    ApprovalResolved,
    ClientAttached,
    ClientDetached,
    Delta,
    Event,
    Hello,
    JobFinished,
    JobStarted,
    MessageCreated,
    MessageFinished,
    MessageUpdated,
    QuestionAsked,
    QuestionResolved,
    QueueChanged,
    Reset,
    RunAccepted,
    RunFinished,
    RunJoined,
    RunProgress,
    RunStarted,
    RunStopping,
    RunUpdated,
    SessionCreated,
    SessionDeleted,
    SessionUpdated,
    Snapshot,
    TodoChanged,
)
from holdfast.schema.messages import Message
from holdfast.schema.open_texts import OpenTexts
from holdfast.schema.runs import END_STATES, Queue, Run
from holdfast.schema.sessions import Client, Job, Session, Todo

ViewAspect = Literal[
    "blocks", "queue", "active", "todos", "sessions", "asks", "jobs", "clients", "connection", "gap", "reset"
]
"""What an event changed. ``gap``: text is missing, reconnect; ``reset``: read everything from the server again."""

_NOTHING: frozenset[ViewAspect] = frozenset()


class SessionSnapshot(Value, frozen=True):
    """One session as the server's GETs returned it."""

    session: Session
    messages: tuple[Message, ...] = ()
    older: str | None = None
    """Messages before this position are not included."""
    runs: tuple[Run, ...] = ()
    """At least the unfinished runs, and those of the messages."""
    queue: Queue = Queue("")
    todos: tuple[Todo, ...] = ()


class ViewFold:
    """Everything that a client shows, as of the last event."""

    def __init__(self) -> None:
        self.connection = StreamConnection()
        self._sessions: dict[str, Session] = {}
        """The one prompted last at the end."""
        self._active: dict[str, str] = {}
        """The active run of each session."""
        self._queued: dict[str, int] = {}
        self._asks: dict[str, OpenAsk] = {}
        self._jobs: dict[str, Job] = {}
        self._clients: dict[str, Client] = {}
        self._transcripts: dict[str, TranscriptFold] = {}
        self._open = OpenTexts()
        self._session_of_message: dict[str, str] = {}
        """The sessions of messages with open text."""

    # What is shown.

    def view(self) -> ClientView:
        """Everything as one value. Costs as much as the history is long; meant for tests and for saving."""
        return ClientView(
            sessions=self.sessions,
            asks=self.asks,
            jobs=self.jobs,
            clients=self.clients,
            transcripts={session_id: fold.view() for session_id, fold in sorted(self._transcripts.items())},
            connection=self.connection,
        )

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The one prompted last first; without sub-agents' sessions."""
        found = [self._current(session) for session in self._sessions.values() if session.parent_id is None]
        return tuple(reversed(found))

    @property
    def asks(self) -> tuple[OpenAsk, ...]:
        return tuple(self._asks.values())

    @property
    def jobs(self) -> tuple[Job, ...]:
        return tuple(self._jobs.values())

    @property
    def clients(self) -> tuple[Client, ...]:
        return tuple(self._clients.values())

    def session(self, session_id: str) -> Session | None:
        """A session with its current counts, also a sub-agent's."""
        found = self._sessions.get(session_id)
        return None if found is None else self._current(found)

    def transcript(self, session_id: str) -> TranscriptFold | None:
        """An opened session, or a sub-agent's session below one."""
        return self._transcripts.get(session_id)

    def root_of(self, session_id: str) -> str:
        """The session that the user started, for a sub-agent's session."""
        session = self._sessions.get(session_id)
        while session is not None and session.parent_id is not None:
            session_id = session.parent_id
            session = self._sessions.get(session_id)
        return session_id

    def _current(self, session: Session) -> Session:
        fold = self._transcripts.get(session.id)
        return replace(
            session,
            busy=session.id in self._active,
            queued=self._queued.get(session.id, 0) if fold is None else fold.queued,
            clients=sum(client.session_id == session.id for client in self._clients.values()),
        )

    # Values from the server's GETs.

    def load_sessions(self, sessions: Iterable[Session]) -> None:
        """Add sessions in the order of the server's list: the one prompted last first."""
        for session in reversed(tuple(sessions)):
            self._sessions.pop(session.id, None)
            self._sessions[session.id] = session
            if session.busy:
                self._active.setdefault(session.id, "")
            self._queued[session.id] = session.queued

    def load_asks(self, approvals: Iterable[Approval], questions: Iterable[Question]) -> None:
        """Replace the open approvals and questions."""
        for ask in list(self._asks.values()):
            self._close_ask(ask.id)
        for approval in approvals:
            self._put_approval(approval)
        for question in questions:
            self._put_question(question)

    def load_jobs(self, jobs: Iterable[Job]) -> None:
        """Replace the jobs, given as in the server's list: the newest first."""
        self._jobs = {job.id: job for job in reversed(tuple(jobs))}

    def load_clients(self, clients: Iterable[Client]) -> None:
        self._clients = {client.id: client for client in clients}

    def open_session(self, snapshot: SessionSnapshot) -> TranscriptFold:
        """Show a session. Opening it again replaces what was known of it."""
        session = snapshot.session
        self._drop_transcript(session.id)
        self._sessions.setdefault(session.id, session)
        fold = self._new_transcript(session.id)
        fold.set_queue(snapshot.queue)
        fold.todos = snapshot.todos
        fold.load(snapshot.messages, snapshot.runs, older=snapshot.older)
        self._queued[session.id] = len(snapshot.queue.run_ids)
        self._active.pop(session.id, None)
        if snapshot.queue.active is not None:
            self._active[session.id] = snapshot.queue.active
        for ask in self._asks.values():
            self._show_ask(ask)
        return fold

    def load_older(
        self, session_id: str, messages: Iterable[Message], runs: Iterable[Run], *, older: str | None
    ) -> None:
        """Add a page of older messages to an opened session."""
        if fold := self._transcripts.get(session_id):
            fold.load(messages, runs, older=older)

    def close_session(self, session_id: str) -> None:
        """Show a session and its sub-agents' sessions no longer."""
        self._drop_transcript(session_id)
        for child in [s.id for s in self._sessions.values() if s.parent_id == session_id and s.id in self._transcripts]:
            self.close_session(child)

    def _drop_transcript(self, session_id: str) -> None:
        self._transcripts.pop(session_id, None)
        for message_id in [m for m, owner in self._session_of_message.items() if owner == session_id]:
            self._open.drop(message_id)
            del self._session_of_message[message_id]

    def set_connection(self, connection: StreamConnection) -> None:
        """The connection was lost, or is being opened. `Hello` sets it to ``live``."""
        self.connection = connection

    # Events.

    def apply(self, event: Event) -> frozenset[ViewAspect]:
        """Apply an event, and return what it changed."""
        match event:
            case Delta() | Snapshot() | MessageCreated() | MessageUpdated() | MessageFinished():
                return self._apply_message(event)
            case RunAccepted() | RunStarted() | RunJoined() | RunStopping() | RunUpdated() | RunFinished():
                return self._put_run(event.run, accepted=isinstance(event, RunAccepted))
            case RunProgress():
                return self._set_progress(event)
            case QueueChanged():
                return self._set_queue(event.queue)
            case ApprovalRequested() | ApprovalResolved():
                return self._put_approval(event.approval)
            case QuestionAsked() | QuestionResolved():
                return self._put_question(event.question)
            case SessionCreated() | SessionUpdated() | SessionDeleted():
                return self._apply_session(event)
            case TodoChanged():
                return self._set_todos(event)
            case JobStarted() | JobFinished():
                self._jobs[event.job.id] = event.job
                return frozenset({"jobs"})
            case ClientAttached():
                self._clients[event.client.id] = replace(event.client, session_id=event.session_id)
                return frozenset({"clients", "sessions"})
            case ClientDetached():
                self._clients.pop(event.client.id, None)
                return frozenset({"clients", "sessions"})
            case Hello():
                return self._connected(event)
            case Reset():
                self._forget_everything()
                return frozenset({"reset"})
            case _:
                return _NOTHING

    def _apply_message(
        self, event: Delta | Snapshot | MessageCreated | MessageUpdated | MessageFinished
    ) -> frozenset[ViewAspect]:
        fold = self._transcripts.get(event.session_id)
        if fold is None:
            return _NOTHING
        match event:
            case Delta():
                self._session_of_message[event.message_id] = event.session_id
                if not fold.append(event):
                    return frozenset({"gap"})
            case Snapshot():
                self._session_of_message[event.message_id] = event.session_id
                fold.replace_open(event)
            case MessageCreated() | MessageUpdated():
                fold.put_message(event.message)
            case MessageFinished():
                fold.finish_message(event.message)
                self._session_of_message.pop(event.message.id, None)
        return frozenset({"blocks"})

    def _put_run(self, run: Run, *, accepted: bool) -> frozenset[ViewAspect]:
        session_id = run.session_id
        if run.state in ("active", "stopping"):
            self._active[session_id] = run.id
        elif run.state in END_STATES and self._active.get(session_id) in (run.id, ""):
            self._active.pop(session_id, None)
        if accepted and (session := self._sessions.pop(session_id, None)):
            self._sessions[session_id] = session
        if (fold := self._transcripts.get(session_id)) is None:
            return frozenset({"sessions"})
        fold.put_run(run)
        return frozenset({"sessions", "blocks", "queue", "active"})

    def _set_progress(self, event: RunProgress) -> frozenset[ViewAspect]:
        if fold := self._transcripts.get(event.session_id):
            fold.set_progress(event.run_id, event.now)
            return frozenset({"active"})
        return _NOTHING

    def _set_queue(self, queue: Queue) -> frozenset[ViewAspect]:
        self._queued[queue.session_id] = len(queue.run_ids)
        if queue.active is None:
            self._active.pop(queue.session_id, None)
        else:
            self._active[queue.session_id] = queue.active
        if fold := self._transcripts.get(queue.session_id):
            fold.set_queue(queue)
            return frozenset({"sessions", "queue", "active"})
        return frozenset({"sessions"})

    def _set_todos(self, event: TodoChanged) -> frozenset[ViewAspect]:
        if fold := self._transcripts.get(event.session_id):
            fold.todos = event.todos
            return frozenset({"todos"})
        return _NOTHING

    def _put_approval(self, approval: Approval) -> frozenset[ViewAspect]:
        return self._put_ask(OpenAsk(approval.id, approval=approval), is_open=approval.state == "open")

    def _put_question(self, question: Question) -> frozenset[ViewAspect]:
        return self._put_ask(OpenAsk(question.id, question=question), is_open=question.state == "open")

    def _put_ask(self, ask: OpenAsk, *, is_open: bool) -> frozenset[ViewAspect]:
        if is_open:
            self._asks[ask.id] = ask
            self._show_ask(ask)
        else:
            self._close_ask(ask.id)
        return frozenset({"asks", "blocks"})

    def _show_ask(self, ask: OpenAsk) -> None:
        subject = ask.approval or ask.question
        if subject and (fold := self._transcripts.get(subject.session_id)):
            fold.set_ask(subject.call_id, ask.id)

    def _close_ask(self, ask_id: str) -> None:
        ask = self._asks.pop(ask_id, None)
        subject = ask and (ask.approval or ask.question)
        if subject and (fold := self._transcripts.get(subject.session_id)):
            fold.set_ask(subject.call_id, None)

    def _apply_session(self, event: SessionCreated | SessionUpdated | SessionDeleted) -> frozenset[ViewAspect]:
        if isinstance(event, SessionDeleted):
            self.close_session(event.session_id)
            self._sessions.pop(event.session_id, None)
            self._active.pop(event.session_id, None)
            self._queued.pop(event.session_id, None)
            return frozenset({"sessions", "blocks"})
        session = event.session
        is_new = session.id not in self._sessions
        self._sessions[session.id] = session
        if is_new and session.parent_id in self._transcripts:  # everything in it follows as events
            self._new_transcript(session.id)
        return frozenset({"sessions"})

    def _connected(self, event: Hello) -> frozenset[ViewAspect]:
        """A new connection sends the open texts and the clients again."""
        for message_id, session_id in self._session_of_message.items():
            if fold := self._transcripts.get(session_id):
                fold.drop_open(message_id)
        self._session_of_message.clear()
        self._open.clear()
        self.connection = StreamConnection("live", since=event.at)
        return frozenset({"connection", "blocks"})

    def _forget_everything(self) -> None:
        for values in (self._sessions, self._active, self._queued, self._asks, self._jobs, self._transcripts):
            values.clear()
        self._open.clear()
        self._session_of_message.clear()

    def _new_transcript(self, session_id: str) -> TranscriptFold:
        fold = self._transcripts[session_id] = TranscriptFold(session_id, open_texts=self._open)
        return fold
