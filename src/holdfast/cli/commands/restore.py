"""`holdfast restore`: list the backups, and put one in the place of a damaged database."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from holdfast.cli.argument_parser import Parser
from holdfast.cli.exit_status import CommandError, Exit
from holdfast.cli.formatting import byte_size, json_text
from holdfast.errors import StoreLocked
from holdfast.locations import Locations


def configure(parser: Parser) -> None:
    parser.explain(
        "List the backups of the database, or restore one. The server makes a backup each day and keeps three;\n"
        "'holdfast backup' makes one at any time. The server must be stopped. The old database is moved to a\n"
        "directory beside it and never removed. What happened after the backup is not in the restored database.",
        examples=(
            ("holdfast restore", "list the backups"),
            ("holdfast restore latest", "restore the newest automatic backup"),
            ("holdfast restore ~/holdfast.db", "restore a copy that 'holdfast backup' made"),
        ),
    )
    parser.add_argument(
        "backup", nargs="?", metavar="BACKUP", help="a file, or 'latest'; without it, the backups are listed"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from holdfast.app import configured_store, list_backups, restore_database

    locations = Locations.from_env(os.environ)
    if args.backup is not None and configured_store(locations, os.environ) is not None:
        raise CommandError(
            "the sessions are in PostgreSQL, which has backups of its own",
            advice="restore the database with its own tools (docs/fleet.md), or remove the setting 'store' first",
            status=Exit.FAILED,
        )
    found = list_backups(locations.backups_dir)
    if args.backup is None:
        if args.json:
            print(json_text([{"path": str(each.path), "size": each.size, "modified": each.modified} for each in found]))
        for each in found if not args.json else ():
            made = time.strftime("%Y-%m-%d %H:%M", time.localtime(each.modified))
            print(f"{made}  {byte_size(each.size):>9}  {each.path}")
        if not found and not args.json:
            print("there are no automatic backups yet; the server makes one each day")
        return Exit.COMPLETED
    if args.backup == "latest" and not found:
        raise CommandError(
            f"there is no backup in {str(locations.backups_dir)!r}",
            advice="name a file that 'holdfast backup' made",
            status=Exit.FAILED,
        )
    backup = found[0].path if args.backup == "latest" else Path(args.backup).absolute()
    stamp = time.strftime("%Y%m%d-%H%M%S")
    try:
        restored = restore_database(locations.database, backup, stamp=stamp)
    except StoreLocked:
        raise CommandError(
            "the server is running; a backup can be restored only while it is stopped",
            advice="run 'holdfast stop', then restore again",
            status=Exit.FAILED,
        ) from None
    moved = str(restored.moved_to) if restored.moved_to else None
    if args.json:
        print(json_text({"backup": str(backup), "old": moved, "sessions": restored.sessions, "runs": restored.runs}))
        return Exit.COMPLETED
    print(f"restored {backup} ({restored.sessions} sessions, {restored.runs} runs)")
    if moved:
        print(f"the old database is in {moved}")
    return Exit.COMPLETED
