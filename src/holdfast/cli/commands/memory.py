"""`holdfast memory`: what the agent should remember, in this project and in all."""

from __future__ import annotations

import argparse

from holdfast.cli.argument_parser import Parser, add_json_argument, add_subcommands
from holdfast.cli.argument_values import count
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import Exit
from holdfast.cli.formatting import json_text
from holdfast.cli.screen import plain
from holdfast.schema.api.response_bodies import MemoryView


def configure(parser: Parser) -> None:
    parser.explain(
        "List, add and remove what the agent should remember. It is told to the model in every session of this\n"
        "project, or of all projects. The entries are in Markdown files of yours, outside the project; you may\n"
        "edit them.",
        examples=(
            ("holdfast memory", "list the entries"),
            ('holdfast memory add "the tests need a running database"', "for this project"),
            ('holdfast memory add --user "answer in German"', "for all projects"),
            ("holdfast memory remove 2", "remove the second entry of this project"),
            ("holdfast memory path", "print where the files are"),
        ),
    )
    add = add_subcommands(parser, default="list")
    listed = add("list", "list the entries of this project and those for all")
    listed.set_defaults(run=show)
    added = add("add", "remember something")
    added.add_argument("text", nargs="+", metavar="TEXT")
    added.set_defaults(run=remember)
    removed = add("remove", "remove an entry by its number in the list")
    removed.add_argument("number", type=count, metavar="NUMBER")
    removed.set_defaults(run=forget)
    path = add("path", "print where the files are")
    path.set_defaults(run=show_path)
    for each in (added, removed):
        each.add_argument("--user", action="store_true", help="for all projects, not only this one")
    for each in (listed, added, removed, path):
        add_json_argument(each)


def show(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        return _print(context.client.memory(context.workspace.id), as_json=args.json)


def remember(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        text = " ".join(args.text)
        return _print(context.client.remember(context.workspace.id, text, scope=_scope(args)), as_json=args.json)


def forget(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        return _print(context.client.forget(context.workspace.id, args.number, scope=_scope(args)), as_json=args.json)


def show_path(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        found = context.client.memory(context.workspace.id)
    print(json_text(found) if args.json else f"{found.project_file}\n{found.user_file}")
    return Exit.COMPLETED


def _scope(args: argparse.Namespace) -> str:
    return "user" if args.user else "project"


def _print(found: MemoryView, *, as_json: bool) -> int:
    if as_json:
        print(json_text(found))
        return Exit.COMPLETED
    for scope, heading in (("project", "this project"), ("user", "all projects (--user)")):
        entries = [f"{entry.number:>3}  {plain(entry.text)}" for entry in found.items if entry.scope == scope]
        if entries:
            print("\n".join([f"{heading}:", *entries]))
    if not found.items:
        print("nothing is remembered yet; 'holdfast memory add TEXT' adds an entry")
    return Exit.COMPLETED
