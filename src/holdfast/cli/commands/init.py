"""`holdfast init`: let the agent write a first AGENTS.md."""

from __future__ import annotations

import argparse
import os

from holdfast.cli.argument_parser import Parser
from holdfast.cli.current_directory import current_directory
from holdfast.cli.exit_status import CommandError, Exit
from holdfast.cli.task_options import add_task_options, run_task
from holdfast.client.task_prompts import INSTRUCTIONS_FILE as _FILE
from holdfast.client.task_prompts import read_init_prompt


def configure(parser: Parser) -> None:
    parser.explain(
        "Let the agent explore this directory and write a first AGENTS.md: what it needs to know in every session,\n"
        "such as how to build and test. Read it, and change what is wrong. Other files are not changed.",
        examples=(
            ("holdfast init", "write AGENTS.md"),
            ("holdfast init --update", "improve the one that is there"),
            ("holdfast init mention that we release on Fridays", "with a wish"),
        ),
    )
    parser.words_argument = "wish"
    parser.add_argument("wish", nargs="*", metavar="WISH", help="what it should mention")
    parser.add_argument("--update", action="store_true", help=f"improve an existing {_FILE}")
    add_task_options(parser)
    parser.set_defaults(run=init)


def init(args: argparse.Namespace) -> int:
    exists = os.path.lexists(os.path.join(current_directory(), _FILE))
    if exists and not args.update:
        raise CommandError(
            f"{_FILE} exists already", advice="'holdfast init --update' lets the agent improve it", status=Exit.USAGE
        )
    return run_task(args, read_init_prompt(exists=exists, wish=" ".join(args.wish)), mode="accept_edits")
