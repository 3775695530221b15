"""`holdfast accept`: carry out the plan that a run in plan mode ended with."""

from __future__ import annotations

import argparse

from holdfast.cli.argument_parser import Parser
from holdfast.cli.argument_values import identifier
from holdfast.cli.task_options import add_task_options, run_task


def configure(parser: Parser) -> None:
    parser.explain(
        "Accept the plan with which the last prompt of a session ended, and let the agent carry it out, with the same\n"
        "model. To correct the plan instead, send another prompt in plan mode.",
        examples=(
            ('holdfast run --mode plan "split the parser into two modules"', "make a plan; nothing is changed"),
            ("holdfast accept", "carry it out; edits inside the directory need no approval"),
            ('holdfast accept --mode ask "but keep the old names"', "add a note, and be asked for every edit"),
        ),
    )
    parser.words_argument = "note"
    parser.add_argument("note", nargs="*", metavar="NOTE", help="what you add to the plan")
    parser.add_argument("--session", type=identifier, metavar="ID", help="the last one of this directory by default")
    parser.add_argument(
        "--mode", choices=("ask", "accept_edits", "auto"), default="accept_edits", help="when to ask for approval"
    )
    add_task_options(parser, chooses_model=False)
    parser.set_defaults(run=accept)


def accept(args: argparse.Namespace) -> int:
    return run_task(args, " ".join(args.note).strip(), mode=args.mode, session_id=args.session, accepts_plan=True)
