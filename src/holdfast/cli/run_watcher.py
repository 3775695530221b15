"""One run, followed to its end: over lost connections, lost servers and events that were never seen.

The end comes from whoever tells it first: the event, or the run itself, which is asked for whenever the stream had to
begin again and with every heartbeat. So nothing is missed, and nothing waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from holdfast.cli.approval_prompt import ApprovalPrompt
from holdfast.cli.error_messages import Problem
from holdfast.cli.event_printer import EventPrinter
from holdfast.cli.exit_status import Exit
from holdfast.cli.interrupts import Interrupts
from holdfast.cli.screen import Screen
from holdfast.client.sync_client import SyncClient
from holdfast.client.transcript import Transcript
from holdfast.errors import TooMany
from holdfast.schema.events import (
    ApprovalRequested,
    Event,
    Heartbeat,
    Hello,
    QuestionAsked,
    QueueChanged,
    Reset,
    RunFinished,
    RunJoined,
    RunStarted,
)
from holdfast.schema.messages import Message
from holdfast.schema.runs import END_STATES, Queue, Run

GIVE_UP_SECONDS = 60.0
"""How long a server that is gone is waited for."""

FULL_SECONDS = 2.0
"""How often it is asked while the server has no stream to give."""

FULL = "all event streams of the server are taken: text comes in larger pieces (server.max_streams allows more)"


class RunWatcher:
    def __init__(
        self,
        client: SyncClient,
        run: Run,
        *,
        screen: Screen,
        teller: EventPrinter,
        interrupts: Interrupts,
        asker: ApprovalPrompt | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        self._client = client
        self._run = run
        self._screen = screen
        self._teller = teller
        self._interrupts = interrupts
        self._asker = asker
        self._on_event = on_event
        self._queue_told: str | None = None
        self._full_told = False

    @property
    def run(self) -> Run:
        """As far as it was seen."""
        return self._run

    def until_end(self, *, after: str | None, known: Iterable[Message] = ()) -> Run:
        """Tells what happens from the cursor on; ``known`` are the messages as they were there."""
        transcript = Transcript()
        transcript.load(known)
        stream = self._client.events(
            session_id=self._run.session_id,
            after=after,
            transcript=transcript,
            on_lost=self._lost,
            give_up_after=GIVE_UP_SECONDS,
            raise_when_full=True,
        )
        greeted = False
        with stream:
            while True:
                try:
                    with self._interrupts.allowed():
                        event = next(stream)
                except TooMany:
                    if (ended := self._ask_for_the_end()) is not None:
                        return ended
                    continue
                if self._on_event is not None:
                    self._on_event(event)
                if isinstance(event, RunFinished) and event.run.id == self._run.id:
                    return event.run
                began_again = isinstance(event, Reset | Heartbeat) or (isinstance(event, Hello) and greeted)
                if began_again and (ended := self.ended()) is not None:
                    return ended
                greeted = greeted or isinstance(event, Hello)
                self._teller.tell(event, transcript)
                self._act(event)

    def ended(self) -> Run | None:
        """The run, if it has ended, with everything told that it said."""
        run = self._client.get_run(self._run.id)
        if run.state not in END_STATES:
            if run.state == "queued":
                self._check_queue(self._client.session(run.session_id).queue)
            return None
        self.catch_up()
        return run

    def _ask_for_the_end(self) -> Run | None:
        """Instead of a stream, while the server has none left: what is stored is told, and the end is waited for."""
        if not self._full_told:
            self._full_told = True
            self._screen.note(FULL)
        self._screen.status("waiting for its end")
        with self._interrupts.allowed():
            self._client.get_run(self._run.id, wait=FULL_SECONDS)
        if (ended := self.ended()) is not None:
            return ended
        self.catch_up()
        with self._interrupts.allowed():
            self.ask_what_is_open()
        return None

    def catch_up(self) -> None:
        messages, _ = self._client.all_messages(self._run.session_id)
        self._teller.catch_up(message for message in messages if message.run_id == self._run.id)

    def ask_what_is_open(self) -> None:
        """What the run asked before it was followed."""
        if self._asker is None:
            return
        session_id = self._run.session_id
        workspace_id = self._client.session(session_id).workspace_id
        for approval in self._client.approvals(workspace_id).items:
            if session_id in (approval.session_id, approval.root_session_id):
                self._asker.approval(approval)
        for question in self._client.questions(workspace_id).items:
            if session_id in (question.session_id, question.root_session_id):
                self._asker.question(question)

    def _act(self, event: Event) -> None:
        match event:
            case RunStarted() if event.run.id == self._run.id:
                self._run = event.run
                self._screen.status("starting")
            case RunJoined() if event.run.id == self._run.id and event.run.host_run_id:
                self._run = event.run
                self._teller.also(event.run.host_run_id)
                self._screen.note(f"joined {event.run.host_run_id}")
            case QueueChanged() if event.session_id == self._run.session_id:
                self._check_queue(event.queue)
            case ApprovalRequested() if self._asker is not None:
                with self._interrupts.allowed():
                    self._asker.approval(event.approval)
            case QuestionAsked() if self._asker is not None:
                with self._interrupts.allowed():
                    self._asker.question(event.question)
            case _:
                pass

    def _check_queue(self, queue: Queue | None) -> None:
        """A queue that stands still is told; one that nothing but a person moves again is not waited for."""
        if queue is None or self._run.id not in queue.run_ids:
            return
        place = queue.run_ids.index(self._run.id) + (queue.active is not None)
        note = check_pause(self._run, queue)
        if note is None:
            self._screen.status(f"queued, {place} before it" if place else "queued")
        else:
            if note != self._queue_told:
                self._screen.warn(note)
            self._screen.status("queued, paused")
        self._queue_told = note

    def _lost(self, error: Exception, wait: float) -> None:
        self._screen.status("the server is lost; coming back")


def check_pause(run: Run, queue: Queue | None) -> str | None:
    """What to say of a lane that a person holds; raises if nothing but a person will ever move the run. Pure."""
    if queue is None or queue.paused is None or run.id not in queue.run_ids:
        return None
    resume = f"'holdfast resume {queue.session_id}' lets it go on"
    if queue.paused == "user":
        return f"the queue is paused by a person; {resume}"
    if queue.paused == "server_stop":
        raise stopped(run)
    raise Problem(
        "the run before it did not complete, so this one does not begin",
        advice=f"{resume}, 'holdfast cancel {run.id}' removes it",
        status=Exit.FAILED,
    )


def stopped(run: Run) -> Problem:
    """The server was stopped on purpose, and is not started again by somebody who merely waits."""
    if run.state == "queued":
        what = f"the server was stopped before {run.id} began; it is kept in the queue"
        advice = f"'holdfast resume {run.session_id}' lets it go on, 'holdfast cancel {run.id}' removes it"
    else:
        what = f"the server was stopped; {run.id} was interrupted"
        advice = (
            f"'holdfast wait {run.id}' shows its end; go on with: holdfast run --session {run.session_id} \"go on\""
        )
    return Problem(what, advice=advice, status=Exit.INTERRUPTED)
