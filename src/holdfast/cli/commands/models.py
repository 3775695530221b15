"""`holdfast models`: what can be used, and what is missing for the rest."""

from __future__ import annotations

import argparse

from holdfast.cli.argument_parser import Parser
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import Exit
from holdfast.cli.formatting import table, thousands
from holdfast.cli.no_model_help import local_lines
from holdfast.cli.run_result import as_text
from holdfast.schema.api.response_bodies import ModelsView


def configure(parser: Parser) -> None:
    parser.explain(
        "The models that can be used here, local servers that answer now included; '*' marks the one that is used\n"
        "when none is named.",
        examples=(
            ("holdfast models --all", "also providers that lack a key, and what to do"),
            ("holdfast config set models.large anthropic/claude-sonnet-4-5", "use this one from now on"),
        ),
    )
    parser.add_argument("--all", action="store_true", help="also providers that cannot be used yet")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    with CommandContext() as here:
        found = here.client.models(workspace_id=here.workspace.id)
    if args.json:
        print(as_text(found))
        return Exit.COMPLETED
    print("\n".join(lines_of(found)))
    if args.all:
        for provider in found.providers:
            print(f"{provider.id:<12} {provider.missing or (f'key from {provider.key}' if provider.key else 'ready')}")
    elif found.large is None:
        print("\nno key is set; 'holdfast models --all' shows where to get one from\n" + "\n".join(local_lines(found)))
    return Exit.COMPLETED


def lines_of(found: ModelsView) -> list[str]:
    rows = [
        (
            "*" if model.name == found.large else "",
            model.name,
            thousands(model.context_window) if model.context_window else "",
            "images" if model.images else "",
            ",".join(model.reasoning),
            "local" if model.local else "",
        )
        for model in found.models
    ]
    return table([("", "MODEL", "WINDOW", "SEES", "REASONING", ""), *rows], right=frozenset({2}))
