"""`holdfast wait`: a run's end, from any shell."""

from __future__ import annotations

import argparse
import math
import time

from holdfast.cli.argument_parser import Parser, an_id, seconds
from holdfast.cli.command_context import CommandContext
from holdfast.cli.error_messages import Problem
from holdfast.cli.exit_status import Exit, exit_of_run
from holdfast.cli.run_result import as_text, result_of
from holdfast.cli.run_watcher import check_pause, stopped
from holdfast.cli.screen import Screen, one_line
from holdfast.client.sync_client import SyncClient
from holdfast.errors import ServerStopping
from holdfast.schema.runs import END_STATES, Run

_ACTIVE_SECONDS = 30.0
_QUEUED_SECONDS = 2.0
"""How soon a queue that is paused meanwhile is noticed."""


def configure(parser: Parser) -> None:
    parser.explain(
        "Wait for a run's end, print the last thing the agent said, and leave with the run's status.\n"
        "Ctrl-C leaves; the run goes on.",
        examples=(
            ("id=$(holdfast run --detach …); holdfast wait $id", "begin now, look later"),
            ("holdfast wait run_… --timeout 5m", "124 if it takes longer; it goes on all the same"),
        ),
    )
    parser.add_argument("run_id", type=an_id, metavar="RUN")
    parser.add_argument("--timeout", metavar="TIME", type=seconds, help="90, 90s, 5m or 1h")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    screen = Screen()
    screen.status("waiting for its end")
    with CommandContext() as here:
        found = _end_of(here.client, args.run_id, seconds=args.timeout, screen=screen)
    screen.finish()
    if found.state not in END_STATES:
        raise Problem(
            f"{found.id} has not ended: it is {found.state}",
            advice=f"it goes on; 'holdfast cancel {found.id}' ends it",
            status=Exit.TIMED_OUT,
        )
    status = int(exit_of_run(found))
    if args.output == "json":
        screen.line(as_text(result_of(found, exit_code=status)))
    elif found.text:
        screen.text(found.text)
        screen.finish()
    if found.state != "completed":
        screen.warn(f"{found.state}: {one_line(found.error.message if found.error else found.reason or '', most=500)}")
    return Exit.FAILED if screen.out_failed and not status else status


def _end_of(client: SyncClient, run_id: str, *, seconds: float | None, screen: Screen) -> Run:
    """The run as it ended, or as it is when the time is over. A lane that stands still is told, not waited for."""
    until = math.inf if seconds is None else time.monotonic() + seconds
    run = client.get_run(run_id)
    client.leave_stopped = True
    told = None
    try:
        while run.state not in END_STATES and time.monotonic() < until:
            if run.state == "queued" and (note := check_pause(run, client.session(run.session_id).queue)) != told:
                told = note
                if note is not None:
                    screen.warn(note)
            longest = _QUEUED_SECONDS if run.state == "queued" else _ACTIVE_SECONDS
            run = client.get_run(run_id, wait=max(min(longest, until - time.monotonic()), 0.0))
    except ServerStopping as error:
        raise stopped(run) from error
    return run
