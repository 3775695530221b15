"""`holdfast wait`: wait until a run ends."""

from __future__ import annotations

import argparse

from holdfast.cli.argument_parser import Parser
from holdfast.cli.argument_values import identifier, time_span
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import CommandError, Exit, exit_of_run
from holdfast.cli.formatting import json_text
from holdfast.cli.run_follower import RunFollower
from holdfast.cli.run_result import make_result, print_failure
from holdfast.cli.screen import Screen
from holdfast.schema.runs import END_STATES


def configure(parser: Parser) -> None:
    parser.explain(
        "Wait until a run ends, print the agent's last message, and exit with the run's status.\n"
        "Ctrl-C ends only this command; the run continues.",
        examples=(
            ("id=$(holdfast run --detach …); holdfast wait $id", "start a run now, read its answer later"),
            ("holdfast wait run_… --timeout 5m", "exit with 124 after 5 minutes; the run continues"),
        ),
    )
    parser.add_argument("run_id", type=identifier, metavar="RUN")
    parser.add_argument("--timeout", metavar="TIME", type=time_span, help="90, 90s, 5m or 1h")
    parser.add_argument("--output", choices=("text", "json"), default="text", help="text or one JSON object")
    parser.add_argument("--json", dest="output", action="store_const", const="json", help="the same as --output json")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    screen = Screen()
    screen.status("waiting for the run to end")
    with CommandContext() as context:
        follower = RunFollower(
            context.client, context.client.get_run(context.full_id(args.run_id, "run")), screen=screen
        )
        ended = follower.wait_for_end(seconds=args.timeout)
    screen.finish()
    if ended.state not in END_STATES:
        raise CommandError(
            f"{ended.id} has not ended: it is {ended.state}",
            advice=f"it continues; 'holdfast cancel {ended.id}' cancels it",
            status=Exit.TIMED_OUT,
        )
    status = int(exit_of_run(ended))
    if args.output == "json":
        screen.line(json_text(make_result(ended, exit_code=status)))
    elif ended.text:
        screen.text(ended.text)
        screen.finish()
    print_failure(ended, screen)
    return Exit.FAILED if screen.out_failed and not status else status
