"""`holdfast trust`: let a directory's own configuration take part."""

from __future__ import annotations

import argparse

from holdfast.cli.argument_parser import Parser
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import Exit
from holdfast.cli.run_result import as_text


def configure(parser: Parser) -> None:
    parser.explain(
        "Let this directory's own configuration (.holdfast/) take part. Until then nothing of it is read or run.",
        examples=(("holdfast trust --revoke", "not any more"),),
    )
    parser.add_argument("--revoke", action="store_true", help="take it back")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    with CommandContext() as here:
        view = here.client.trust(here.workspace.id, trusted=not args.revoke)
    print(as_text(view) if args.json else f"{view.path} is {'trusted' if view.trusted else 'not trusted'}")
    return Exit.COMPLETED
