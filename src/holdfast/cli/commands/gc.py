"""`holdfast gc`: free disk space now, and say how much."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime, timedelta

from holdfast.cli.argument_parser import Parser
from holdfast.cli.argument_values import count
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import CommandError, Exit
from holdfast.cli.formatting import byte_size, json_text
from holdfast.client.sync_client import SyncClient
from holdfast.schema.api.response_bodies import CleanupView
from holdfast.schema.sessions import Session

_PAGE = 200


def configure(parser: Parser) -> None:
    parser.explain(
        "Remove what has been kept long enough: events older than server.keep_events, contents of files that undo\n"
        "no longer needs, whole outputs older than 30 days, audit entries older than server.keep_audit. The server\n"
        "does this once an hour; this command does it now, gives the free space back to the disk, and says how much.\n"
        "Sessions are removed only with --sessions.",
        examples=(
            ("holdfast gc", "free what is no longer needed"),
            ("holdfast gc --sessions 90 --yes", "also delete the sessions of all directories unused for 90 days"),
        ),
    )
    parser.add_argument("--sessions", type=count, metavar="DAYS", help="also delete sessions unused for this many days")
    parser.add_argument("--yes", action="store_true", help="delete the sessions without asking")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        client = context.client
        old = _unused_sessions(client, days=args.sessions) if args.sessions else []
        if old and not args.yes and not _confirm(len(old), args.sessions):
            raise CommandError("nothing was deleted", advice="--yes deletes without asking", status=Exit.CANCELLED)
        for session in old:
            client.delete_session(session.id)
        freed = client.clean_up()
    if args.json:
        print(json_text({"sessions": len(old), "freed": freed}))
    else:
        print("\n".join(_lines(freed, sessions=len(old))))
    return Exit.COMPLETED


def _unused_sessions(client: SyncClient, *, days: int) -> list[Session]:
    """The top-level sessions, also archived ones, that nothing has changed for some days and that are idle."""
    before = (datetime.now(UTC) - timedelta(days=days)).isoformat()
    found: list[Session] = []
    for workspace in client.workspaces().items:
        page = client.sessions(workspace.id, limit=_PAGE, archived=True)
        while True:
            found += [each for each in page.items if each.updated_at < before and not each.busy and not each.queued]
            if page.next is None:
                break
            page = client.sessions(workspace.id, limit=_PAGE, archived=True, before=page.next)
    return found


def _confirm(number: int, days: int) -> bool:
    if not sys.stdin.isatty():
        return False
    print(f"Delete {number} sessions unused for {days} days? They cannot be restored. [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _lines(freed: CleanupView, *, sessions: int) -> list[str]:
    removed = {
        "sessions": sessions,
        "events": freed.events,
        "file contents": freed.contents,
        "outputs": freed.outputs,
        "audit entries": freed.audit,
    }
    named = [f"{number:,} {what}" for what, number in removed.items() if number]
    return [
        f"removed {', '.join(named) if named else 'nothing: all of it is still needed'}",
        f"database {byte_size(freed.database_before)} → {byte_size(freed.database_after)}",
        f"files    {byte_size(freed.files_before)} → {byte_size(freed.files_after)}",
    ]
