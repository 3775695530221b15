"""`holdfast store`: where the sessions are, and moving them between SQLite and PostgreSQL."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from holdfast.cli.argument_parser import Parser, add_json_argument, add_subcommands
from holdfast.cli.exit_status import CommandError, Exit
from holdfast.cli.formatting import byte_size, json_text, table
from holdfast.cli.screen import is_terminal
from holdfast.errors import BadRequest, StoreLocked
from holdfast.locations import Locations

_SQLITE = "sqlite:"
_POSTGRES = ("postgresql:", "postgres:")
_LONGEST = 4096


def configure(parser: Parser) -> None:
    parser.explain(
        "Show where the sessions are stored, store the password of a PostgreSQL database, or copy all sessions from\n"
        "one store to another. 'sqlite:' is the file in your data directory, 'sqlite:PATH' another one. The target of\n"
        "a copy must be empty, and no server may use either. A copy that was stopped goes on when it is started\n"
        "again. At the end both are compared. Contents of files for undo and whole outputs are not copied: they stay\n"
        "in your data directory.",
        examples=(
            ("holdfast store", "show where the sessions are"),
            ("holdfast store copy sqlite: postgresql://holdfast@db/holdfast", "move to PostgreSQL"),
            ("holdfast store copy postgresql://holdfast@db/holdfast sqlite:", "move back"),
            ("pass show db | holdfast store password", "store the password that is used for PostgreSQL"),
        ),
    )
    add = add_subcommands(parser, default="show")
    shown = add("show", "show where the sessions are")
    shown.set_defaults(run=show)
    copied = add("copy", "copy all sessions to an empty store")
    copied.add_argument("source", metavar="FROM", help="sqlite:[PATH] or postgresql://…")
    copied.add_argument("target", metavar="TO", help="sqlite:[PATH] or postgresql://…")
    copied.set_defaults(run=copy)
    password = add("password", "store the password of the PostgreSQL database; an empty one removes it")
    password.set_defaults(run=set_password)
    for each in (shown, copied):
        add_json_argument(each)


def show(args: argparse.Namespace) -> int:
    from holdfast.app import configured_store

    locations = Locations.from_env(os.environ)
    address = configured_store(locations, os.environ)
    if address is not None:
        found: dict[str, str | int] = {"kind": "postgresql", "address": address}
        text = f"PostgreSQL: {address}"
    else:
        size = locations.database.stat().st_size if locations.database.exists() else 0
        found = {"kind": "sqlite", "path": str(locations.database), "size": size}
        text = f"SQLite: {locations.database}, {byte_size(size)}"
    print(json_text(found) if args.json else text)
    return Exit.COMPLETED


def copy(args: argparse.Namespace) -> int:
    from holdfast.app import copy_store

    locations = Locations.from_env(os.environ)
    kinds = (args.source.startswith(_POSTGRES), args.target.startswith(_POSTGRES))
    for address, is_postgres in zip((args.source, args.target), kinds, strict=True):
        if not is_postgres and not address.startswith(_SQLITE):
            raise CommandError(
                f"{address!r} is no store", advice="use sqlite:, sqlite:PATH or postgresql://…", status=Exit.USAGE
            )
    if kinds[0] == kinds[1]:
        raise CommandError(
            "a copy is from SQLite to PostgreSQL or back",
            advice="'holdfast backup' copies a SQLite file, pg_dump a PostgreSQL database",
            status=Exit.USAGE,
        )
    sqlite, postgres = (args.target, args.source) if kinds[0] else (args.source, args.target)
    named = sqlite.removeprefix(_SQLITE)
    path = Path(named).absolute() if named else locations.database
    shows = is_terminal(sys.stderr) and not args.json

    def progress(name: str, rows: int) -> None:
        if shows:
            print(f"\r{name}: {rows} rows\x1b[K", end="", file=sys.stderr, flush=True)

    try:
        copied = copy_store(locations, path, postgres, to_postgres=kinds[1], progress=progress)
    except (StoreLocked, BadRequest) as error:
        raise CommandError(error.message, advice="'holdfast stop' stops your server", status=Exit.FAILED) from None
    finally:
        if shows:
            print("\r\x1b[K", end="", file=sys.stderr)
    if args.json:
        print(json_text([{"table": each.name, "rows": each.rows, "sha256": each.digest} for each in copied]))
        return Exit.COMPLETED
    rows = [(each.name, str(each.rows), each.digest[:16]) for each in copied if each.rows]
    print("\n".join(table([("TABLE", "ROWS", "SHA-256"), *rows])))
    advice = "holdfast config set store ADDRESS" if kinds[1] else "holdfast config set store --unset"
    print(f"copied and compared; '{advice}', then 'holdfast stop': the next server uses it")
    return Exit.COMPLETED


def set_password(args: argparse.Namespace) -> int:
    from holdfast.app import store_password

    if is_terminal(sys.stdin):
        import getpass

        password = getpass.getpass("password of the database (not shown): ")
    else:
        password = sys.stdin.buffer.read(_LONGEST).decode("utf-8", "replace").strip("\r\n")
    store_password(Locations.from_env(os.environ), password)
    print("stored; it is used when the server starts" if password else "removed")
    return Exit.COMPLETED
