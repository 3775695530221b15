"""`holdfast attach`: follow a session live as text, and answer what it asks. Leaving changes nothing."""

from __future__ import annotations

import argparse
import sys
import time

from holdfast.cli.approval_prompt import ApprovalPrompt
from holdfast.cli.argument_parser import Parser, an_id
from holdfast.cli.command_context import CommandContext
from holdfast.cli.commands.queue import WHY
from holdfast.cli.event_printer import EventPrinter
from holdfast.cli.exit_status import Exit
from holdfast.cli.interrupts import Interrupted, Interrupts
from holdfast.cli.run_watcher import FULL, FULL_SECONDS
from holdfast.cli.screen import Screen, is_terminal, plain
from holdfast.client.sync_client import SyncClient
from holdfast.client.transcript import Transcript
from holdfast.errors import ServerStopping, TooMany
from holdfast.schema.approvals import Approval, Question
from holdfast.schema.events import (
    ApprovalRequested,
    ApprovalResolved,
    Event,
    Hello,
    QuestionAsked,
    QueueChanged,
    RunFinished,
    RunStarted,
    SessionDeleted,
)
from holdfast.schema.messages import Message, text_of
from holdfast.schema.runs import Queue, Run


def configure(parser: Parser) -> None:
    parser.explain(
        "Follow a session live: what is asked, what is answered, which tools run. Approvals and questions can be\n"
        "answered here. Ctrl-C leaves; what runs goes on.",
        examples=(
            ("holdfast attach", "the session that was used last here"),
            ("holdfast attach ses_…", "any session"),
            ("holdfast attach --until-idle", "until nothing runs or waits there"),
        ),
    )
    parser.add_argument("session", type=an_id, nargs="?", metavar="SESSION", help="the last one here, if none is named")
    parser.add_argument("--until-idle", action="store_true", help="leave when nothing runs or waits any more")
    parser.add_argument("--all", action="store_true", help="begin with everything that was said, not only the last run")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    screen = Screen()
    with Interrupts() as interrupts:
        try:
            with interrupts.allowed(), CommandContext() as here:
                session_id = here.session_id(args.session)
                Attached(here.client, session_id, screen=screen).follow(everything=args.all, until_idle=args.until_idle)
        except ServerStopping:
            screen.warn("the server was stopped; what waits is kept, and the next command starts it again")
            return Exit.INTERRUPTED
        except Interrupted:
            screen.note("left; what runs goes on")
        finally:
            screen.finish()
    return Exit.FAILED if screen.out_failed else Exit.COMPLETED


class Attached:
    """One session, for as long as somebody looks."""

    def __init__(self, client: SyncClient, session_id: str, *, screen: Screen) -> None:
        self._client = client
        self._session_id = session_id
        self._screen = screen
        self._teller = EventPrinter(screen, session_id=session_id)
        self._asker = ApprovalPrompt(client, screen) if is_terminal(sys.stdin) and screen.err_is_terminal else None
        self._prompts: set[str] = set()
        self._asked: set[str] = set()
        self._full_told = False
        self._pause_told: str | None = None

    def follow(self, *, everything: bool, until_idle: bool) -> None:
        messages, cursor = self._client.all_messages(self._session_id)
        self._client.leave_stopped = True
        self._tell_past(messages, everything=everything)
        self._ask_what_is_open()
        self._tell_pause(self._client.session(self._session_id).queue)
        if until_idle and self._is_idle():
            return
        transcript = Transcript()
        transcript.load(messages)
        session_id = self._session_id
        stream = self._client.events(
            session_id=session_id, viewing=session_id, after=cursor, transcript=transcript, raise_when_full=True
        )
        with stream:
            while True:
                try:
                    event = next(stream)
                except TooMany:
                    self._look_without_a_stream()
                    if until_idle and self._is_idle():
                        return
                    continue
                self._teller.tell(event, transcript)
                self._act(event)
                if isinstance(event, SessionDeleted) and event.session_id == self._session_id:
                    self._screen.note("the session was deleted")
                    return
                if until_idle and isinstance(event, Hello | RunFinished | QueueChanged) and self._is_idle():
                    return

    def _look_without_a_stream(self) -> None:
        """While the server has none left: what is stored, as it comes."""
        if not self._full_told:
            self._full_told = True
            self._screen.note(FULL)
        queue = self._client.session(self._session_id).queue
        if queue.active:
            self._client.get_run(queue.active, wait=FULL_SECONDS)
        else:
            time.sleep(FULL_SECONDS)
        for message in self._client.all_messages(self._session_id)[0]:
            self._tell_prompt(message.run_id, message)
            self._teller.catch_up([message])
        self._ask_what_is_open()

    def _is_idle(self) -> bool:
        view = self._client.session(self._session_id)
        return not view.busy and not view.queued

    def _tell_past(self, messages: list[Message], *, everything: bool) -> None:
        last = messages[-1].run_id if messages else None
        past = [message for message in messages if not everything and message.run_id != last]
        self._teller.known(past)
        self._prompts.update(message.run_id for message in past)
        for message in messages[len(past) :]:
            self._tell_prompt(message.run_id, message)
            self._teller.catch_up([message])

    def _tell_prompt(self, run_id: str, message: Message) -> None:
        if message.role == "user" and (text := text_of(message.parts)):
            self._show_prompt(run_id, text)

    def _show_prompt(self, run_id: str, text: str) -> None:
        if run_id not in self._prompts:
            self._prompts.add(run_id)
            self._screen.block()
            self._screen.end_text()
            self._screen.note(self._screen.style.bold(f"> {plain(text)}"))

    def _ask_what_is_open(self) -> None:
        workspace_id = self._client.session(self._session_id).workspace_id
        for approval in self._client.approvals(workspace_id).items:
            if self._session_id in (approval.session_id, approval.root_session_id):
                self._ask(approval)
        for question in self._client.questions(workspace_id).items:
            if self._session_id in (question.session_id, question.root_session_id):
                self._ask(question)

    def _ask(self, asked: Approval | Question) -> None:
        """Here if somebody is here; else it is told how it can be answered."""
        match asked:
            case Approval() if self._asker is not None:
                self._asker.approval(asked)
            case Question() if self._asker is not None:
                self._asker.question(asked)
            case _ if asked.id in self._asked:
                pass  # said already
            case Approval():
                self._screen.note(f"? {asked.tool}: {plain(asked.title)}")
                self._screen.note(f"  'holdfast approvals answer {asked.id} once' allows it")
            case Question():
                self._screen.note(f"? {'; '.join(plain(item.text) for item in asked.items)}")
        self._asked.add(asked.id)

    def _act(self, event: Event) -> None:
        match event:
            case RunStarted() if event.session_id == self._session_id and event.run.kind == "prompt":
                self._show_prompt(event.run.id, event.run.prompt)
            case RunFinished() if event.session_id == self._session_id:
                self._tell_end(event.run)
            case QueueChanged() if event.session_id == self._session_id:
                self._tell_pause(event.queue)
            case ApprovalRequested():
                self._ask(event.approval)
            case ApprovalResolved() if event.approval.decision:
                self._screen.note(f"  {event.approval.decision}, by {event.approval.answered_by or 'somebody'}")
            case QuestionAsked():
                self._ask(event.question)
            case _:
                pass

    def _tell_pause(self, queue: Queue | None) -> None:
        """Why what waits does not begin."""
        paused = queue.paused if queue is not None and queue.run_ids else None
        if paused is not None and paused != self._pause_told:
            self._screen.note(f"{WHY[paused]}; 'holdfast resume {self._session_id}' lets it go on")
        self._pause_told = paused

    def _tell_end(self, run: Run) -> None:
        self._screen.status(None)
        if run.state != "completed":
            why = run.error.message if run.error else run.reason
            self._screen.note(self._screen.style.warm(f"{run.state}: {why}"))
