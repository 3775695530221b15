"""`holdfast changes`, `undo` and `redo`: what the agent did to files, and back."""

from __future__ import annotations

import argparse

from holdfast.cli.approval_prompt import coloured
from holdfast.cli.argument_parser import Parser, an_id
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import Exit, exit_of_run
from holdfast.cli.run_result import as_text, result_of
from holdfast.cli.screen import Screen, Style, one_line, plain
from holdfast.client.sync_client import SyncClient
from holdfast.schema.runs import Accepted
from holdfast.schema.sessions import FileChange

_STATES = {"applied": "", "undone": "  (undone)", "changed_since": "  (changed since by somebody else)"}


def configure(parser: Parser) -> None:
    parser.explain(
        "What the agent changed in a session, as a diff from before its first change to how it left each file.\n"
        "What a shell command wrote is not covered.",
        examples=(("holdfast changes --names", "only which files"),),
    )
    parser.add_argument("session", type=an_id, nargs="?", metavar="SESSION", help="the last one here, if none is named")
    parser.add_argument("--names", action="store_true", help="names only")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=changes)


def configure_undo(parser: Parser) -> None:
    parser.explain(
        "Give files back what they were before the session's last run. Files that somebody changed since are named\n"
        "and not touched, and what a shell command wrote is not covered. 'holdfast redo' takes it back.",
    )
    _add_target(parser, "undo everything from this message on")
    parser.set_defaults(run=undo)


def configure_redo(parser: Parser) -> None:
    parser.explain("Take an undo back.")
    _add_target(parser, "redo everything from this message on")
    parser.set_defaults(run=redo)


def _add_target(parser: Parser, meaning: str) -> None:
    parser.add_argument("session", type=an_id, nargs="?", metavar="SESSION", help="the last one here, if none is named")
    parser.add_argument("--to", type=an_id, metavar="MESSAGE", help=meaning)
    parser.add_argument("--json", action="store_true")


def changes(args: argparse.Namespace) -> int:
    with CommandContext() as here:
        found = here.client.changes(here.session_id(args.session)).items
    if args.json:
        print(as_text(found))
        return Exit.COMPLETED
    screen = Screen()
    screen.style = Style(screen.out)
    for line in lines_of(found, screen, names_only=args.names):
        screen.line(line)
    if not found:
        screen.note("no file was changed with the agent's tools")
    return Exit.COMPLETED


def lines_of(found: tuple[FileChange, ...], screen: Screen, *, names_only: bool) -> list[str]:
    lines = []
    for change in found:
        lines.append(f"{change.change:<8}  {one_line(change.path)}{_STATES[change.state]}")
        if not names_only:
            lines += [coloured(line, screen) for line in plain(change.diff).splitlines()]
    return lines


def undo(args: argparse.Namespace) -> int:
    with CommandContext() as here:
        accepted = here.client.undo(here.session_id(args.session), to_message_id=args.to)
        return _told(here.client, accepted, as_json=args.json)


def redo(args: argparse.Namespace) -> int:
    with CommandContext() as here:
        accepted = here.client.redo(here.session_id(args.session), to_message_id=args.to)
        return _told(here.client, accepted, as_json=args.json)


def _told(client: SyncClient, accepted: Accepted, *, as_json: bool) -> int:
    """It goes through the session's lane like a prompt: what runs is waited for."""
    screen = Screen()
    screen.status("waiting for its turn" if accepted.decision == "queued" else "working")
    run = client.wait_run(accepted.run.id)
    screen.finish()
    status = int(exit_of_run(run))
    if as_json:
        screen.line(as_text(result_of(run, exit_code=status, decision=accepted.decision)))
    elif run.text:
        screen.line(plain(run.text))
    if run.state != "completed":
        screen.warn(f"{run.state}: {one_line(run.error.message if run.error else run.reason or '', most=500)}")
    return status
