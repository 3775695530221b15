"""`holdfast changes`, `undo` and `redo`: the agent's file changes."""

from __future__ import annotations

import argparse
import sys

from holdfast.cli.argument_parser import Parser, add_session_argument
from holdfast.cli.argument_values import identifier
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import Exit
from holdfast.cli.formatting import json_text
from holdfast.cli.lane_command import wait_and_print
from holdfast.cli.screen import Screen, Style, one_line, plain
from holdfast.client.sync_client import SyncClient
from holdfast.schema.sessions import FileChange, RunChanges

_STATES = {"applied": "", "undone": "  (undone)", "changed_since": "  (changed since then outside the agent)"}


def configure(parser: Parser) -> None:
    parser.explain(
        "Show the files that the agent changed in a session, run by run, with what its commands changed.\n"
        "'*' marks files that changed while a command ran: they may also have been changed by you.\n"
        "Ignored files, and what background jobs write, are not covered; each run says what else was not.",
        examples=(
            ("holdfast changes", "the last session of this directory"),
            ("holdfast changes --names", "only the names of the files"),
            ("holdfast changes --total", "one diff per file, from before its first change to its last one"),
        ),
    )
    add_session_argument(parser)
    parser.add_argument("--names", action="store_true", help="print only the names of the files")
    parser.add_argument("--total", action="store_true", help="join the changes of all runs")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=changes)


def configure_undo(parser: Parser) -> None:
    parser.explain(
        "Undo the file changes of the session's last run. Files that were changed since are listed and not touched.\n"
        "Files that changed while a command ran may also have been changed by you: undo asks before it restores them.\n"
        "'holdfast redo' restores the changes.",
        examples=(
            ("holdfast undo", "undo the last run in this directory"),
            ("holdfast undo --force", "also what changed while its commands ran, without asking"),
        ),
    )
    _add_target(parser, "undo everything from this message on")
    parser.add_argument("--force", action="store_true", help="restore files that changed while a command ran")
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
        found = context.client.changes(context.session_id(args.session))
    if args.json:
        print(json_text(found))
        return Exit.COMPLETED
    screen = Screen()
    screen.style = Style(screen.out)
    if args.total:
        lines = change_lines(found.items, screen, names_only=args.names)
    else:
        lines = [line for run in found.runs for line in run_lines(run, screen, names_only=args.names)]
    for line in lines:
        screen.line(line)
    if not lines:
        screen.note("the agent changed no files")
    return Exit.COMPLETED


def run_lines(run: RunChanges, screen: Screen, *, names_only: bool) -> list[str]:
    """One run: its prompt, its files, and what undo does not cover."""
    heading = f"{run.run_id}  {one_line(run.prompt)}".rstrip()
    lines = [screen.style.bold(heading), *change_lines(run.files, screen, names_only=names_only)]
    return [*lines, *(screen.style.dim(plain(note)) for note in run.notes)]


def change_lines(found: tuple[FileChange, ...], screen: Screen, *, names_only: bool) -> list[str]:
    lines = []
    for change in found:
        mark = "*" * change.by_command
        lines.append(f"{change.change + mark:<9} {one_line(change.path)}{_STATES[change.state]}")
        if not names_only:
            lines += [screen.style.diff_line(line) for line in plain(change.diff).splitlines()]
    return lines


def _message_id(context: CommandContext, args: argparse.Namespace) -> str | None:
    return context.full_id(args.to, "message") if args.to else None


def undo(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        session_id = context.session_id(args.session)
        message_id = _message_id(context, args)
        confirmed = _confirmed_runs(context.client, session_id, to_message_id=message_id, force=args.force)
        accepted = context.client.undo(session_id, to_message_id=message_id, confirmed_runs=confirmed)
        return wait_and_print(context.client, accepted, as_json=args.json)


def _confirmed_runs(client: SyncClient, session_id: str, *, to_message_id: str | None, force: bool) -> tuple[str, ...]:
    """The runs whose files that changed during commands are restored: asked at a terminal, none without one."""
    preview = client.preview_undo(session_id, to_message_id=to_message_id)
    files = [file.path for file in preview.files if file.action == "confirm"]
    if force:
        return preview.runs
    if not files:
        return ()
    screen = Screen()
    screen.note("these files changed while a command ran, and may have been changed by you:")
    for path in files:
        screen.note(f"  {one_line(path)}")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        screen.note("they are not touched; 'holdfast undo --force' restores them too, and 'holdfast redo' reverses it")
        return ()
    screen.note("restore them too? 'holdfast redo' reverses it. [y/N]")
    return preview.runs if sys.stdin.readline().strip().lower() in ("y", "yes") else ()


def redo(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        accepted = context.client.redo(context.session_id(args.session), to_message_id=_message_id(context, args))
        return wait_and_print(context.client, accepted, as_json=args.json)
