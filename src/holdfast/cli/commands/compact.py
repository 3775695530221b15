"""`holdfast compact`: replace what the model gets of a session by a summary."""

from __future__ import annotations

import argparse

from holdfast.cli.argument_parser import Parser
from holdfast.cli.argument_values import identifier
from holdfast.cli.command_context import CommandContext
from holdfast.cli.lane_command import wait_and_print


def configure(parser: Parser) -> None:
    parser.explain(
        "Replace the messages that the model gets by a summary, and print it. The messages stay in the session.\n"
        "The last prompts, the task list and the files in use are kept word for word. Long sessions are compacted\n"
        "by themselves before the model's window is full.",
        examples=(
            ("holdfast compact", "the last session of this directory"),
            ('holdfast compact "keep the commands that failed"', "say what matters"),
        ),
    )
    parser.words_argument = "instruction"
    parser.add_argument(
        "instruction", nargs="*", metavar="INSTRUCTION", help="what the summary should keep or leave out"
    )
    parser.add_argument("--session", type=identifier, metavar="ID", help="the last one of this directory by default")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=compact)


def compact(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        instruction = " ".join(args.instruction).strip() or None
        accepted = context.client.compact(context.session_id(args.session), instruction=instruction)
        return wait_and_print(context.client, accepted, as_json=args.json)
