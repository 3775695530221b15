"""`holdfast status`, `stop`, `logs` and `backup`: manage the running server."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from holdfast.cli.argument_parser import Parser
from holdfast.cli.argument_values import count
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import CommandError, Exit
from holdfast.cli.formatting import byte_size, duration, json_text, table
from holdfast.client.local_server import is_alive
from holdfast.client.server_address import ServerAddress, address_from_env
from holdfast.client.sync_client import SyncClient
from holdfast.errors import ClientError, ServerStopping, Unreachable
from holdfast.locations import Locations

RESPONSE_SECONDS = 5.0
_STOP_SECONDS = 40.0
_CHECK_SECONDS = 0.25


def configure_status(parser: Parser) -> None:
    parser.explain(
        "Show whether a server is running and what it does. Does not start one. Exits with 1 if none is running.",
        examples=(("holdfast status --json", "for scripts"),),
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=status)


def configure_stop(parser: Parser) -> None:
    parser.explain(
        "Stop the server. Active runs are interrupted and keep their text; queued runs stay queued.",
        examples=(("holdfast stop --if-idle", "only if a command started it, and no run is active or queued"),),
    )
    parser.add_argument(
        "--if-idle", action="store_true", help="only if a command started it, and no run is active or queued"
    )
    parser.set_defaults(run=stop)


def configure_logs(parser: Parser) -> None:
    parser.explain("Print the end of the server's log.", examples=(("holdfast logs -f", "keep printing new lines"),))
    parser.add_argument("-f", "--follow", action="store_true", help="keep printing new lines")
    parser.add_argument(
        "-n", "--limit", "--lines", type=count, default=100, metavar="N", help="maximum number of lines (100)"
    )
    parser.set_defaults(run=logs)


def configure_backup(parser: Parser) -> None:
    parser.explain(
        "Copy the database consistently while the server is running. 'holdfast restore' puts a copy\n"
        "in the place of the database.",
        examples=(("holdfast backup ~/holdfast.db", "copy to a file that does not exist yet"),),
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="holdfast-DATE.db in this directory by default")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=backup)


def status(args: argparse.Namespace) -> int:
    with _client() as client:
        try:
            info = client.server()
        except Unreachable:
            print(f"no server is running at {client.address}")
            return Exit.FAILED
        workspaces = [workspace for workspace in client.workspaces().items if workspace.open]
    if args.json:
        print(json_text({"address": str(client.address), "server": info, "workspaces": workspaces}))
        return Exit.COMPLETED
    state = "stopping" if info.stopping else "running"
    print(f"{state} at {client.address}, version {info.version}, pid {info.pid}, up {duration(info.uptime)}")
    print(f"{info.active_runs} active and {info.queued_runs} queued runs, {info.clients} clients")
    rows = [
        (
            workspace.path,
            f"{workspace.active_runs} active",
            f"{workspace.pending_approvals + workspace.pending_questions} to answer",
            f"{workspace.running_jobs} jobs",
        )
        for workspace in workspaces
    ]
    for line in table(rows):
        print(line)
    return Exit.COMPLETED


def stop(args: argparse.Namespace) -> int:
    with _client() as client:
        try:
            pid = client.server().pid
            client.stop_server(if_idle=args.if_idle)
        except Unreachable:
            print("no server is running")
            return Exit.COMPLETED
        except ServerStopping:
            pid = 0  # another client has stopped it
        _wait_until_gone(client, pid)
    print("stopped")
    return Exit.COMPLETED


def _client() -> SyncClient:
    """A client of the running server. It starts no server and does not retry."""
    named = address_from_env(os.environ)
    address = named or ServerAddress(path=str(Locations.from_env(os.environ).socket))
    token = os.environ.get("HOLDFAST_TOKEN") if named else None
    return SyncClient(address, token=token, name="cli", retry_seconds=0.0, response_seconds=RESPONSE_SECONDS)


def _wait_until_gone(client: SyncClient, pid: int) -> None:
    """Wait until the server is gone. On this machine its process must have ended too, so that the database is free."""
    until = time.monotonic() + _STOP_SECONDS
    is_local = client.address.path is not None and pid
    while time.monotonic() < until:
        if not _responds(client) and not (is_local and is_alive(pid)):
            return
        time.sleep(0.02)
    raise CommandError(
        f"the server has not stopped after {_STOP_SECONDS:.0f} s",
        advice="'holdfast logs' shows what it waits for; 'holdfast status' shows its pid",
        status=Exit.FAILED,
    )


def _responds(client: SyncClient) -> bool:
    try:
        client.health()
    except ClientError:
        return False
    return True


def logs(args: argparse.Namespace) -> int:
    if address_from_env(os.environ) is not None:
        raise CommandError(
            "HOLDFAST_SERVER is set, and the log of that server is on its own machine",
            advice="run 'holdfast logs' on that machine",
            status=Exit.USAGE,
        )
    path = Locations.from_env(os.environ).logs_dir / "server.log"
    for line in last_lines(path, args.limit):
        print(line)
    if args.follow:
        sys.stdout.flush()
        for text in follow_log(path):
            sys.stdout.write(text)
            sys.stdout.flush()
    elif not path.exists():
        print(f"no log exists yet at {path}", file=sys.stderr)
    return Exit.COMPLETED


def last_lines(path: Path, number: int) -> list[str]:
    try:
        with path.open("r", encoding="utf-8", errors="replace") as file:
            from collections import deque

            return [line.rstrip("\n") for line in deque(file, maxlen=number)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CommandError(
            f"the log {str(path)!r} cannot be read: {error.strerror}",
            advice="correct its permissions; the server goes on without a log that it cannot write",
            status=Exit.FAILED,
        ) from None


def follow_log(path: Path) -> Iterator[str]:
    """Text that is appended from now on, also after the log was rotated."""
    start_at_end = path.exists()
    while True:
        try:
            with path.open("r", encoding="utf-8", errors="replace") as file:
                if start_at_end:
                    file.seek(0, os.SEEK_END)
                yield from _appended_text(file, path)
        except FileNotFoundError:
            time.sleep(_CHECK_SECONDS)
        start_at_end = False


def _appended_text(file: TextIO, path: Path) -> Iterator[str]:
    """Text appended to the file, until another file replaces it."""
    inode = os.fstat(file.fileno()).st_ino
    while True:
        replaced = _inode(path) not in (inode, None)
        if text := file.read():
            yield text
        elif replaced:
            return
        else:
            time.sleep(_CHECK_SECONDS)


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def backup(args: argparse.Namespace) -> int:
    path = os.path.abspath(args.file or time.strftime("holdfast-%Y%m%d-%H%M%S.db"))
    with CommandContext() as context:
        copy = context.client.backup(path)
    print(json_text(copy) if args.json else f"{copy.path}  {byte_size(copy.size)}")
    return Exit.COMPLETED
