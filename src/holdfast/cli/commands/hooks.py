"""`holdfast hooks`: which hooks are active, where they come from, and what could not be used."""

from __future__ import annotations

import argparse
import sys

from holdfast.cli.argument_parser import Parser, add_json_argument
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import Exit
from holdfast.cli.formatting import json_text
from holdfast.cli.screen import Style, one_line, plain
from holdfast.schema.extensions import ExtensionStatus


def configure(parser: Parser) -> None:
    parser.explain(
        "List the hooks of this directory: programs that run before and after tool calls, with a prompt, or at the\n"
        "end of a run. They are configured as [hooks.NAME] in your settings or the project's, and read from the\n"
        "settings files of Claude Code. Shows when each runs, where it comes from, how it did last, and what is not\n"
        "used.",
        examples=(
            ("holdfast hooks", "what is active, and what is not"),
            ("holdfast hooks --json", "for a script"),
        ),
    )
    add_json_argument(parser)
    parser.set_defaults(run=show)


def show(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        listed = context.client.extensions(context.workspace.id).items
    found = [status for status in listed if status.kind == "hook"]
    if args.json:
        print(json_text(found))
    elif found:
        print("\n".join(line for status in found for line in hook_lines(status)))
    else:
        print("there are no hooks; docs/extensions.md shows how to write one")
    return Exit.COMPLETED


def hook_lines(status: ExtensionStatus) -> list[str]:
    """A hook in two or three lines: its name and state, what it does, and where it is configured."""
    style = Style(sys.stdout)
    mark = {"ready": style.good, "failed": style.bad}.get(status.state, style.dim)
    lines = [f"{style.bold(plain(status.name))}  {mark(status.state)}", f"  {one_line(status.detail)}"]
    return [*lines, f"  {style.dim(plain(status.source))}"] if status.source else lines
