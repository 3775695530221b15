"""`holdfast context`: what is sent to the model before the first prompt of a session, and what was cut."""

from __future__ import annotations

import argparse

from holdfast.cli.argument_parser import Parser, add_json_argument
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import Exit
from holdfast.cli.formatting import json_text, table
from holdfast.cli.screen import plain
from holdfast.schema.api.response_bodies import ContextPart


def configure(parser: Parser) -> None:
    parser.explain(
        "Show what the context of a new session in this directory consists of, with estimated tokens: the system\n"
        "prompt, each instruction file and what it imports, skills, agents, tools, and what MCP servers add.\n"
        "Instruction files share a budget; what does not fit is cut, and shown here.",
        examples=(("holdfast context", "what every session begins with"), ("holdfast context --json", "for a script")),
    )
    add_json_argument(parser)
    parser.set_defaults(run=show)


def show(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        found = context.client.context(context.workspace.id)
    if args.json:
        print(json_text(found))
        return Exit.COMPLETED
    rows = [("PART", "TOKENS", "NOTE"), *(_row(part, limit=found.instruction_limit) for part in found.parts)]
    total = sum(part.tokens for part in found.parts)
    print("\n".join(table([*rows, ("total", f"{total:,}", "estimated")])))
    for path in found.ignored:
        print(f"not read, because it is a link out of the repository: {plain(path)}")
    return Exit.COMPLETED


def _row(part: ContextPart, *, limit: int) -> tuple[str, str, str]:
    note = f"{part.cut:,} characters are cut; all instruction files together have {limit:,}" if part.cut else ""
    return plain(part.name), f"{part.tokens:,}", note
