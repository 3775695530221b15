"""Follow a run or a session: print its events, ask the user what it asks, and notice its end.

All commands that wait for a run use this module. `run`, `attach` and `demo` read the event stream. While the server has
no free stream they poll, as `wait`, `undo` and `redo` always do. The end of a run is found either by its event or by
asking for the run, which happens on every reconnect, heartbeat and poll. So no end is missed, and nothing waits for
ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from holdfast.cli.event_printer import EventPrinter
from holdfast.cli.exit_status import CommandError, Exit
from holdfast.cli.interrupts import Interrupts
from holdfast.cli.screen import Screen
from holdfast.client.late_endpoints import approval_endpoints, load_endpoints, run_endpoints, session_endpoints
from holdfast.client.retry import LongPoll
from holdfast.client.sync_client import SyncClient
from holdfast.client.transcript import Transcript
from holdfast.errors import ServerStopping, TooMany
from holdfast.schema.approvals import Approval, Question
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

load_endpoints(approval_endpoints, run_endpoints, session_endpoints)  # all calls of a follower, for as long as it lives

GIVE_UP_SECONDS = 60.0
"""How long a command that follows a run waits for a server that is gone."""

POLL_SECONDS = 2.0
"""Interval of polls that print text, or that check a paused queue."""

_LONG_POLL_SECONDS = 30.0

_NO_STREAM = "all event streams of the server are in use: text arrives in larger pieces (see server.max_streams)"


class Prompter(Protocol):
    def ask(self, request: Approval | Question) -> None:
        """Have an approval or a question answered."""


class SessionFollower:
    """Follows all runs of one session. Its client does not start a server again that was stopped on purpose."""

    def __init__(
        self,
        client: SyncClient,
        session_id: str,
        *,
        screen: Screen,
        printer: EventPrinter,
        interrupts: Interrupts,
        prompter: Prompter | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        """``on_event`` gets every event of the session before it is printed."""
        self._client = client
        self._client.leave_stopped = True
        self._session_id = session_id
        self._screen = screen
        self._printer = printer
        self._interrupts = interrupts
        self._prompter = prompter
        self._on_event = on_event
        self._pause_note: str | None = None
        self._is_lost = False
        self._has_noted_polling = False

    def follow(
        self, *, after: str | None, known: Iterable[Message] = (), viewing: bool = False, give_up_after: float | None
    ) -> Iterator[Event | None]:
        """Print and handle events from the cursor ``after`` on; ``known`` are the messages at that cursor.

        Yields each event after it was handled, and ``None`` after each poll.
        """
        transcript = Transcript()
        transcript.load(known)
        stream = self._client.events(
            session_id=self._session_id,
            viewing=self._session_id if viewing else None,
            after=after,
            transcript=transcript,
            on_lost=self._on_lost,
            give_up_after=give_up_after,
            raise_when_full=True,
        )
        with stream:
            while True:
                try:
                    with self._interrupts.allowed():
                        event = next(stream)
                except TooMany:
                    self._poll()
                    yield None
                    continue
                if self._on_event is not None:
                    self._on_event(event)
                self._printer.print_event(event, transcript)
                self._handle(event)
                yield event

    def ask_pending(self) -> None:
        """Ask what the session asked before it was followed."""
        if self._prompter is None:
            return
        workspace_id = self._client.session(self._session_id).workspace_id
        approvals, questions = self._client.approvals(workspace_id).items, self._client.questions(workspace_id).items
        requests: list[Approval | Question] = [*approvals, *questions]
        for request in requests:
            if self._session_id in (request.session_id, request.root_session_id):
                self._ask(request)

    def check_queue(self, queue: Queue | None) -> None:
        """Print why the queue is paused, when that changes."""
        note = pause_note(queue) if queue is not None and queue.run_ids else None
        if note is not None and note != self._pause_note:
            self._screen.warn(note)
        self._pause_note = note

    def print_stored(self) -> None:
        """Print the stored messages that were not printed before."""
        self._printer.print_messages(self._client.all_messages(self._session_id)[0])

    def _poll(self) -> None:
        """Replace the event stream for a moment: wait, then print what was stored meanwhile."""
        if not self._has_noted_polling:
            self._has_noted_polling = True
            self._screen.note(_NO_STREAM)
        self._screen.status("waiting for the run to end")
        with self._interrupts.allowed():
            active = self._client.session(self._session_id).queue.active
            if active:
                self._client.get_run(active, wait=POLL_SECONDS)
            else:
                time.sleep(POLL_SECONDS)
        self.print_stored()
        self.ask_pending()

    def _ask(self, request: Approval | Question) -> None:
        if self._prompter is not None:
            with self._interrupts.allowed():
                self._prompter.ask(request)

    def _handle(self, event: Event) -> None:
        match event:
            case Hello() if self._is_lost:
                self._is_lost = False
                self._screen.status(None)
            case QueueChanged() if event.session_id == self._session_id:
                self.check_queue(event.queue)
            case ApprovalRequested():
                self._ask(event.approval)
            case QuestionAsked():
                self._ask(event.question)
            case _:
                pass

    def _on_lost(self, error: Exception, wait: float) -> None:
        self._is_lost = True
        self._screen.status("the connection to the server is lost; reconnecting")


class RunFollower(SessionFollower):
    """Follows one run to its end."""

    def __init__(
        self,
        client: SyncClient,
        run: Run,
        *,
        screen: Screen,
        interrupts: Interrupts | None = None,
        prompter: Prompter | None = None,
        text: bool = True,
        verbose: bool = False,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        """``text``: print the agent's text. ``verbose``: print the output of tools."""
        super().__init__(
            client,
            run.session_id,
            screen=screen,
            printer=EventPrinter(
                screen,
                session_id=run.session_id,
                runs=[run.id] if run.host_run_id is None else [run.id, run.host_run_id],
                text=text,
                verbose=verbose,
            ),
            interrupts=interrupts or Interrupts(),
            prompter=prompter,
            on_event=on_event,
        )
        self._run = run

    def until_end(self, *, after: str | None, known: Iterable[Message] = ()) -> Run:
        """Print the run's events from the cursor on; returns the run as it ended.

        If the run has ended but its event has not arrived yet, the event is awaited until the next heartbeat.
        """
        connected = False
        ended: Run | None = None
        try:
            for event in self.follow(after=after, known=known, give_up_after=GIVE_UP_SECONDS):
                match event:
                    case RunFinished() if event.run.id == self._run.id:
                        return event.run
                    case None | Reset():
                        ended = self.ended()
                        if ended is not None:
                            return ended
                    case Heartbeat() if ended is not None:
                        self.print_stored()
                        return ended
                    case Heartbeat():
                        ended = self._read_end()
                    case Hello():
                        ended = self._read_end() if connected else None
                        connected = True
                    case _:
                        pass
        except ServerStopping as error:
            raise stopped_error(self._run) from error
        raise AssertionError("the stream of events has no end")

    def wait_for_end(self, *, seconds: float | None = None) -> Run:
        """Poll until the run has ended or ``seconds`` have passed. Prints only why the queue is paused."""
        poll = LongPoll(seconds, clock=time.monotonic)
        try:
            while self._run.state not in END_STATES and not poll.is_over:
                if self._run.state == "queued":
                    self.check_queue(self._client.session(self._session_id).queue)
                longest = POLL_SECONDS if self._run.state == "queued" else _LONG_POLL_SECONDS
                self._run = self._client.get_run(self._run.id, wait=poll.next_wait(longest))
        except ServerStopping as error:
            raise stopped_error(self._run) from error
        return self._run

    def ended(self) -> Run | None:
        """The run, if it has ended, after its stored text was printed."""
        run = self._read_end()
        if run is not None:
            self.print_stored()
        return run

    def _read_end(self) -> Run | None:
        run = self._client.get_run(self._run.id)
        if run.state in END_STATES:
            return run
        if run.state == "queued":
            self.check_queue(self._client.session(run.session_id).queue)
        return None

    def print_past(self, messages: Iterable[Message]) -> None:
        """Print what the run wrote before it was followed, and nothing of other runs."""
        for message in messages:
            if message.run_id == self._run.id:
                self._printer.print_messages([message])
            else:
                self._printer.skip_messages([message])

    def print_stored(self) -> None:
        messages = self._client.all_messages(self._session_id)[0]
        self._printer.print_messages(message for message in messages if message.run_id == self._run.id)

    def check_queue(self, queue: Queue | None) -> None:
        """Also show the run's position. Raises if only the user can make the queue move again."""
        if queue is None or self._run.id not in queue.run_ids:
            return
        raise_if_blocked(self._run, queue)
        super().check_queue(queue)
        before = queue.run_ids.index(self._run.id) + (queue.active is not None)
        if queue.paused is not None:
            self._screen.status("queued, paused")
        else:
            self._screen.status(f"queued behind {before} run{'s' * (before != 1)}" if before else "queued")

    def _handle(self, event: Event) -> None:
        match event:
            case RunStarted() if event.run.id == self._run.id:
                self._run = event.run
                self._screen.status("starting")
            case RunJoined() if event.run.id == self._run.id and event.run.host_run_id:
                self._run = event.run
                self._printer.add_run(event.run.host_run_id)
                self._screen.note(f"joined {event.run.host_run_id}")
            case _:
                super()._handle(event)


PAUSES = {
    "user": "the queue is paused by the user",
    "server_stop": "the queue is paused because the server was stopped",
    "predecessor": "the queue is paused because the run before did not complete",
}


def pause_note(queue: Queue) -> str | None:
    """Why the queue is paused, and how to resume it. Pure."""
    if queue.paused is None:
        return None
    return f"{PAUSES[queue.paused]}; 'holdfast resume {queue.session_id}' resumes it"


def raise_if_blocked(run: Run, queue: Queue) -> None:
    """Raise if the queue stays paused until the user resumes it, unless the user paused it. Pure."""
    if queue.paused == "server_stop":
        raise stopped_error(run)
    if queue.paused == "predecessor":
        raise CommandError(
            "the run before it did not complete, so this run does not start",
            advice=f"'holdfast resume {queue.session_id}' starts it anyway, 'holdfast cancel {run.id}' removes it",
            status=Exit.FAILED,
        )


def stopped_error(run: Run) -> CommandError:
    """The server was stopped on purpose. A command that only waits does not start it again."""
    if run.state == "queued":
        message = f"the server was stopped before {run.id} started; the run stays in the queue"
        advice = f"'holdfast resume {run.session_id}' starts it, 'holdfast cancel {run.id}' removes it"
    else:
        message = f"the server was stopped; {run.id} was interrupted"
        advice = (
            f"'holdfast wait {run.id}' shows its end; continue with: holdfast run --session {run.session_id} \"go on\""
        )
    return CommandError(message, advice=advice, status=Exit.INTERRUPTED)
