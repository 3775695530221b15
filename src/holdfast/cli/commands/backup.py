"""`holdfast backup`: a consistent copy of the database, also while it is used."""

from __future__ import annotations

import argparse
import os
import time

from holdfast.cli.argument_parser import Parser
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import Exit
from holdfast.cli.formatting import size
from holdfast.cli.run_result import as_text


def configure(parser: Parser) -> None:
    parser.explain(
        "Copy the database, consistently, while everything goes on. To restore it: 'holdfast stop', then put the copy\n"
        "where 'holdfast doctor' shows the database.",
        examples=(("holdfast backup ~/holdfast.db", "to a file that does not exist yet"),),
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="holdfast-DATE.db here, if none is named")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    path = os.path.abspath(args.file or time.strftime("holdfast-%Y%m%d-%H%M%S.db"))
    with CommandContext() as here:
        made = here.client.backup(path)
    print(as_text(made) if args.json else f"{made.path}  {size(made.size)}")
    return Exit.COMPLETED
