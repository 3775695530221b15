"""`holdfast attach`: follow a session live as text, and answer its questions."""

from __future__ import annotations

import argparse
import sys

from holdfast.cli.approval_prompt import ApprovalNotices, ApprovalPrompt
from holdfast.cli.argument_parser import Parser, add_session_argument
from holdfast.cli.command_context import CommandContext
from holdfast.cli.event_printer import EventPrinter
from holdfast.cli.exit_status import Exit
from holdfast.cli.interrupts import Interrupted, Interrupts
from holdfast.cli.run_follower import SessionFollower
from holdfast.cli.screen import Screen, is_terminal
from holdfast.client.sync_client import SyncClient
from holdfast.errors import ServerStopping
from holdfast.schema.events import Hello, QueueChanged, RunFinished, SessionDeleted


def configure(parser: Parser) -> None:
    parser.explain(
        "Follow a session live: prompts, answers and tool calls. Approvals and questions can be answered here.\n"
        "Ctrl-C ends only this command; the runs continue.",
        examples=(
            ("holdfast attach", "follow the last session of this directory"),
            ("holdfast attach ses_…", "follow any session"),
            ("holdfast attach --until-idle", "exit when no run is active or queued"),
        ),
    )
    add_session_argument(parser)
    parser.add_argument("--until-idle", action="store_true", help="exit when no run is active or queued")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the output of tools and the task list")
    parser.add_argument("--all", action="store_true", help="first print the whole conversation, not only the last run")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    screen = Screen()
    with Interrupts() as interrupts:
        try:
            with interrupts.allowed():
                context = CommandContext()
            with context:
                session_id = context.session_id(args.session)
                _follow(context.client, session_id, screen=screen, interrupts=interrupts, args=args)
        except ServerStopping:
            screen.warn("the server was stopped; queued runs are kept, and the next command starts the server again")
            return Exit.INTERRUPTED
        except Interrupted:
            screen.note("detached; the runs continue")
        finally:
            screen.finish()
    return Exit.FAILED if screen.out_failed else Exit.COMPLETED


def _follow(
    client: SyncClient, session_id: str, *, screen: Screen, interrupts: Interrupts, args: argparse.Namespace
) -> None:
    can_ask = is_terminal(sys.stdin) and screen.err_is_terminal
    printer = EventPrinter(screen, session_id=session_id, verbose=args.verbose)
    follower = SessionFollower(
        client,
        session_id,
        screen=screen,
        printer=printer,
        interrupts=interrupts,
        prompter=ApprovalPrompt(client, screen) if can_ask else ApprovalNotices(screen),
    )

    def is_idle() -> bool:
        view = client.session(session_id)
        return not view.busy and not view.queued

    with interrupts.allowed():
        messages, cursor = client.all_messages(session_id)
    last_run = messages[-1].run_id if messages else None
    printer.skip_messages(message for message in messages if not args.all and message.run_id != last_run)
    printer.print_messages(message for message in messages if args.all or message.run_id == last_run)
    follower.ask_pending()
    follower.check_queue(client.session(session_id).queue)
    if args.until_idle and is_idle():
        follower.print_stored()
        return
    for event in follower.follow(after=cursor, known=messages, viewing=True, give_up_after=None):
        if isinstance(event, SessionDeleted) and event.session_id == session_id:
            screen.note("the session was deleted")
            return
        may_be_idle = event is None or isinstance(event, Hello | RunFinished | QueueChanged)
        if args.until_idle and may_be_idle and is_idle():
            follower.print_stored()  # the run may have ended before its last events arrived here
            return
