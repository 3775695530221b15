"""`holdfast people`: who may use the server with tokens of their own, what each may do, and where."""

from __future__ import annotations

import argparse
import os

from msgspec import UNSET

from holdfast.cli.argument_parser import Parser, add_json_argument, add_subcommands
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import CommandError, Exit
from holdfast.cli.formatting import json_text, table
from holdfast.schema.people import Person

ROLES = ("watch", "answer", "drive", "admin")
_ROLE_HELP = (
    "what the person may do: watch; answer approvals and questions too; drive sessions too; admin: settings, keys, "
    "trust, devices and people too"
)


def configure(parser: Parser) -> None:
    parser.explain(
        "People who use this server with tokens of their own. Each has a role and the directories that they may use;\n"
        "everything in other directories does not exist for them. A change takes effect at once.",
        examples=(
            ("holdfast people", "list them"),
            ("holdfast people add anna --role drive --workspace ~/api", "anna may work in ~/api and below"),
            ("holdfast people token anna", "print a new token for anna, once"),
            ("holdfast people change anna --role watch", "anna may only look from now on"),
            ("holdfast people change anna --all-workspaces", "in all directories"),
            ("holdfast people remove anna", "cut anna off, with all tokens"),
            ("holdfast web --person anna", "let anna's browser in instead"),
        ),
    )
    add = add_subcommands(parser, default="list")
    listed = add("list", "list the people")
    listed.set_defaults(run=show)
    added = add("add", "add a person")
    added.add_argument("name", metavar="NAME", help="small letters, digits, '.', '_' and '-'")
    added.add_argument("--role", choices=ROLES, required=True, help=_ROLE_HELP)
    _add_workspace_arguments(added)
    added.set_defaults(run=add_person)
    changed = add("change", "change the role or the directories of a person")
    changed.add_argument("name", metavar="NAME")
    changed.add_argument("--role", choices=ROLES, help=_ROLE_HELP)
    _add_workspace_arguments(changed)
    changed.set_defaults(run=change)
    token = add("token", "make a token for a person and print it")
    token.add_argument("name", metavar="NAME")
    token.add_argument("--label", default="", metavar="TEXT", help="what it is for, such as 'laptop'")
    token.add_argument(
        "--scope", choices=ROLES, default="admin", help="what the token allows, if less than the role of the person"
    )
    token.set_defaults(run=make_token)
    removed = add("remove", "remove a person; all tokens are refused at once")
    removed.add_argument("name", metavar="NAME")
    removed.set_defaults(run=remove)
    for each in (listed, added, changed, token, removed):
        add_json_argument(each)


def _add_workspace_arguments(parser: Parser) -> None:
    parser.add_argument(
        "--workspace",
        action="append",
        metavar="DIR",
        help="a directory that the person may use, with all below it; may be given several times",
    )
    parser.add_argument("--all-workspaces", action="store_true", help="the person may use all directories")


def show(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        people = context.client.people().items
    if args.json:
        print(json_text({"people": people}))
    elif not people:
        print("nobody has a token of their own; 'holdfast people add NAME --role drive --workspace DIR' adds a person")
    else:
        rows = [(one.name, one.role, _directories(one), one.created_at[:10]) for one in people]
        print("\n".join(table([("PERSON", "ROLE", "WORKSPACES", "SINCE"), *rows])))
    return Exit.COMPLETED


def add_person(args: argparse.Namespace) -> int:
    if not args.workspace and not args.all_workspaces:
        raise CommandError(
            f"which directories may {args.name} use?",
            advice="give --workspace DIR, or --all-workspaces",
            status=Exit.USAGE,
        )
    with CommandContext() as context:
        person = context.client.add_person(args.name, role=args.role, workspaces=_chosen(args))
    if args.json:
        print(json_text(person))
    else:
        print(f"{_described(person)}\n'holdfast people token {person.name}' makes a token")
    return Exit.COMPLETED


def change(args: argparse.Namespace) -> int:
    if not args.role and not args.workspace and not args.all_workspaces:
        raise CommandError(
            "nothing to change", advice="give --role, --workspace or --all-workspaces", status=Exit.USAGE
        )
    workspaces = _chosen(args) if args.workspace or args.all_workspaces else UNSET
    with CommandContext() as context:
        person = context.client.change_person(args.name, role=args.role, workspaces=workspaces)
    print(json_text(person) if args.json else _described(person))
    return Exit.COMPLETED


def make_token(args: argparse.Namespace) -> int:
    """Print the token alone, so that a script can take it."""
    with CommandContext() as context:
        made = context.client.make_person_token(args.name, label=args.label, scope=args.scope)
    print(json_text(made) if args.json else made.token)
    return Exit.COMPLETED


def remove(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        person = context.client.remove_person(args.name)
    print(json_text(person) if args.json else f"{person.name} was removed; all tokens are refused")
    return Exit.COMPLETED


def _chosen(args: argparse.Namespace) -> list[str] | None:
    if args.workspace and args.all_workspaces:
        raise CommandError("--workspace and --all-workspaces exclude each other", advice="give one", status=Exit.USAGE)
    return None if args.all_workspaces else [os.path.abspath(os.path.expanduser(one)) for one in args.workspace]


def _described(person: Person) -> str:
    return f"{person.name} may {person.role} in {_directories(person)}"


def _directories(person: Person) -> str:
    return "all directories" if person.workspaces is None else ", ".join(person.workspaces)
