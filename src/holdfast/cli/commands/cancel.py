"""`holdfast cancel`: cancel one run, or all runs of a session so far."""

from __future__ import annotations

import argparse

from holdfast.cli.argument_parser import Parser
from holdfast.cli.argument_values import identifier
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import Exit
from holdfast.cli.formatting import json_text
from holdfast.cli.run_result import receipt_lines
from holdfast.errors import NotFound
from holdfast.schema.runs import Receipt


def configure(parser: Parser) -> None:
    parser.explain(
        "Cancel one run, or all runs of a session so far. Runs that are accepted later are not affected.\n"
        "Prints how each run ended and which processes were killed.",
        examples=(
            ("holdfast cancel", "all runs of the last session of this directory"),
            ("holdfast cancel --active", "only the active run; the queue continues"),
            ("holdfast cancel run_…", "one run"),
        ),
    )
    parser.add_argument(
        "target",
        type=identifier,
        nargs="?",
        metavar="SESSION|RUN",
        help="the last session of this directory by default",
    )
    parser.add_argument("--session", type=identifier, metavar="ID", help="the same as SESSION")
    parser.add_argument("--active", action="store_true", help="only the active run of the session")
    parser.add_argument("--json", action="store_true", help="print the receipt as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        receipt = _cancel(context, args.session or args.target, active_only=args.active)
    if args.json:
        print(json_text(receipt))
    else:
        print("\n".join(receipt_lines(receipt)))
    return Exit.COMPLETED


def _cancel(context: CommandContext, target: str | None, *, active_only: bool) -> Receipt:
    """Clients choose run ids freely, so an id that is not a run's is tried as a session's."""
    if target and not target.startswith("ses_"):
        try:
            return context.client.cancel_run(context.full_id(target, "run"))
        except NotFound as error:
            if error.error_code != "run_not_found":
                raise
    session_id = context.session_id(target)
    return context.client.cancel_session(session_id, scope="active" if active_only else "session")
