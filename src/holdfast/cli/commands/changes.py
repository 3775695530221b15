"""`holdfast changes`, `undo` and `redo`: the agent's file changes."""

from __future__ import annotations

import argparse

from holdfast.cli.argument_parser import Parser, add_session_argument, identifier
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import Exit
from holdfast.cli.formatting import json_text
from holdfast.cli.lane_command import wait_and_print
from holdfast.cli.screen import Screen, Style, one_line, plain
from holdfast.schema.sessions import FileChange

_STATES = {"applied": "", "undone": "  (undone)", "changed_since": "  (changed since then outside the agent)"}


def configure(parser: Parser) -> None:
    parser.explain(
        "Show the agent's file changes in a session, as a diff from before its first change to its last one.\n"
        "Files written by shell commands are not included.",
        examples=(
            ("holdfast changes", "the last session of this directory"),
            ("holdfast changes --names", "only the names of the files"),
        ),
    )
    add_session_argument(parser)
    parser.add_argument("--names", action="store_true", help="print only the names of the files")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=changes)


def configure_undo(parser: Parser) -> None:
    parser.explain(
        "Undo the file changes of the session's last run. Files that were changed since are listed and not touched.\n"
        "Files written by shell commands are not included. 'holdfast redo' restores the changes.",
        examples=(("holdfast undo", "undo the last run in this directory"),),
    )
    _add_target(parser, "undo everything from this message on")
    parser.set_defaults(run=undo)


def configure_redo(parser: Parser) -> None:
    parser.explain("Redo what was undone.", examples=(("holdfast redo", "redo the last undo in this directory"),))
    _add_target(parser, "redo everything from this message on")
    parser.set_defaults(run=redo)


def _add_target(parser: Parser, meaning: str) -> None:
    add_session_argument(parser)
    parser.add_argument("--to", type=identifier, metavar="MESSAGE", help=meaning)
    parser.add_argument("--json", action="store_true", help="print JSON")


def changes(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        page = context.client.changes(context.session_id(args.session))
    if args.json:
        print(json_text(page))
        return Exit.COMPLETED
    found = page.items
    screen = Screen()
    screen.style = Style(screen.out)
    for line in change_lines(found, screen, names_only=args.names):
        screen.line(line)
    if not found:
        screen.note("the agent's tools changed no files")
    return Exit.COMPLETED


def change_lines(found: tuple[FileChange, ...], screen: Screen, *, names_only: bool) -> list[str]:
    lines = []
    for change in found:
        lines.append(f"{change.change:<8}  {one_line(change.path)}{_STATES[change.state]}")
        if not names_only:
            lines += [screen.style.diff_line(line) for line in plain(change.diff).splitlines()]
    return lines


def undo(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        accepted = context.client.undo(context.session_id(args.session), to_message_id=args.to)
        return wait_and_print(context.client, accepted, as_json=args.json)


def redo(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        accepted = context.client.redo(context.session_id(args.session), to_message_id=args.to)
        return wait_and_print(context.client, accepted, as_json=args.json)
