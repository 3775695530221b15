"""`holdfast lsp`: the language servers of this directory."""

from __future__ import annotations

import argparse

from holdfast.cli.argument_parser import Parser, add_json_argument, add_subcommands
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import Exit
from holdfast.cli.formatting import json_text
from holdfast.cli.screen import plain


def configure(parser: Parser) -> None:
    parser.explain(
        "List the language servers of this directory with their states, start one again, or show what it printed.\n"
        "A server starts when the agent first reads or edits a file of its kind, if the directory is trusted and the\n"
        "server is installed: in the project's .venv or node_modules, or on your PATH.",
        examples=(
            ("holdfast lsp", "list the servers"),
            ("holdfast lsp restart ruff", "start one again"),
            ("holdfast lsp logs ruff", "show what it printed"),
        ),
    )
    add = add_subcommands(parser, default="list")
    listed = add("list", "list the servers that run and those that could")
    listed.set_defaults(run=show)
    restarted = add("restart", "start a server again, also one that has failed too often")
    restarted.set_defaults(run=restart)
    logged = add("logs", "show the last lines that a server printed")
    logged.set_defaults(run=show_log)
    for each in (restarted, logged):
        each.add_argument("name", metavar="NAME")
    for each in (listed, restarted, logged):
        add_json_argument(each)


def show(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        found = [one for one in context.client.extensions(context.workspace.id).items if one.kind == "lsp"]
    if args.json:
        print(json_text(found))
        return Exit.COMPLETED
    width = max((len(one.name) for one in found), default=0)
    for one in found:
        print(f"{plain(one.name):<{width}}  {one.state:<8}  {plain(one.detail)}".rstrip())
    if not found:
        print("no language server is installed for the files of this directory; docs/extensions.md lists known ones")
    return Exit.COMPLETED


def restart(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        found = context.client.restart_language_server(context.workspace.id, args.name)
    print(json_text(found) if args.json else f"{plain(args.name)} is started again")
    return Exit.COMPLETED


def show_log(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        found = context.client.language_server_log(context.workspace.id, args.name)
    print(json_text(found) if args.json else "\n".join(plain(line) for line in found.text.splitlines()))
    return Exit.COMPLETED
