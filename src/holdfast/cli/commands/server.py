"""`holdfast status`, `stop` and `logs`: the server, from outside."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from holdfast.cli.argument_parser import Parser, count
from holdfast.cli.error_messages import Problem
from holdfast.cli.exit_status import Exit
from holdfast.cli.formatting import span, table
from holdfast.cli.run_result import as_text
from holdfast.client.local_server import is_alive
from holdfast.client.server_address import ServerAddress, address_from_env
from holdfast.client.sync_client import SyncClient
from holdfast.errors import ClientError, ServerStopping, Unreachable
from holdfast.locations import Locations

ANSWER_SECONDS = 5.0
_STOP_SECONDS = 40.0
_LOOK_SECONDS = 0.25


def configure_status(parser: Parser) -> None:
    parser.explain("Whether a server runs, and what it does. Starts none. The status is 1 if none runs.")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=status)


def configure_stop(parser: Parser) -> None:
    parser.explain(
        "Stop the server. What runs is interrupted and says so, what waits is kept; nothing is lost.",
        examples=(("holdfast stop --if-idle", "only if it has nothing to do"),),
    )
    parser.add_argument("--if-idle", action="store_true", help="only if nothing runs or waits")
    parser.set_defaults(run=stop)


def configure_logs(parser: Parser) -> None:
    parser.explain(
        "What the server wrote to its log.", examples=(("holdfast logs -f", "and what it writes from now on"),)
    )
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what is written from now on")
    parser.add_argument("-n", "--lines", type=count, default=100, metavar="N", help="how many lines (100)")
    parser.set_defaults(run=logs)


def status(args: argparse.Namespace) -> int:
    with _client() as client:
        try:
            info = client.server()
        except Unreachable:
            print(f"no server is running at {client.address}")
            return Exit.FAILED
        workspaces = [workspace for workspace in client.workspaces().items if workspace.open]
    if args.json:
        print(as_text({"address": str(client.address), "server": info, "workspaces": workspaces}))
        return Exit.COMPLETED
    state = "stopping" if info.stopping else "running"
    print(f"{state} at {client.address}, version {info.version}, pid {info.pid}, up {span(info.uptime)}")
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
            pid = 0  # somebody else was faster
        _wait_until_gone(client, pid)
    print("stopped")
    return Exit.COMPLETED


def _client() -> SyncClient:
    """Of the server that is there now: nothing is started, nothing is waited for."""
    named = address_from_env(os.environ)
    address = named or ServerAddress(path=str(Locations.from_env(os.environ).socket))
    token = os.environ.get("HOLDFAST_TOKEN") if named else None
    return SyncClient(address, token=token, name="cli", retry_seconds=0.0, response_seconds=ANSWER_SECONDS)


def _wait_until_gone(client: SyncClient, pid: int) -> None:
    """Nobody answers any more, and on this machine the process has ended too: its database is free."""
    until = time.monotonic() + _STOP_SECONDS
    is_local = client.address.path is not None and pid
    while time.monotonic() < until:
        if not _answers(client) and not (is_local and is_alive(pid)):
            return
        time.sleep(0.02)
    raise Problem(
        f"the server has not ended after {_STOP_SECONDS:.0f} s",
        advice="'holdfast logs' shows what it waits for; 'holdfast status' shows its pid",
        status=Exit.FAILED,
    )


def _answers(client: SyncClient) -> bool:
    try:
        client.health()
    except ClientError:
        return False
    return True


def logs(args: argparse.Namespace) -> int:
    if address_from_env(os.environ) is not None:
        raise Problem(
            "the server that HOLDFAST_SERVER names keeps its log where it runs",
            advice="look there: 'holdfast logs' on that machine",
            status=Exit.USAGE,
        )
    path = Locations.from_env(os.environ).logs_dir / "server.log"
    for line in last_lines(path, args.lines):
        print(line)
    if args.follow:
        sys.stdout.flush()
        for text in follow(path):
            sys.stdout.write(text)
            sys.stdout.flush()
    elif not path.exists():
        print(f"there is no log yet at {path}", file=sys.stderr)
    return Exit.COMPLETED


def last_lines(path: Path, number: int) -> list[str]:
    try:
        with path.open("r", encoding="utf-8", errors="replace") as file:
            from collections import deque

            return [line.rstrip("\n") for line in deque(file, maxlen=number)]
    except FileNotFoundError:
        return []


def follow(path: Path) -> Iterator[str]:
    """What is added from now on; a log that is rotated goes on in the new file."""
    from_its_end = path.exists()
    while True:
        try:
            with path.open("r", encoding="utf-8", errors="replace") as file:
                if from_its_end:
                    file.seek(0, os.SEEK_END)
                yield from _growth(file, path)
        except FileNotFoundError:
            time.sleep(_LOOK_SECONDS)
        from_its_end = False


def _growth(file: TextIO, path: Path) -> Iterator[str]:
    """Until another file has taken its place."""
    ours = os.fstat(file.fileno()).st_ino
    while True:
        replaced = _inode(path) not in (ours, None)
        if text := file.read():
            yield text
        elif replaced:
            return
        else:
            time.sleep(_LOOK_SECONDS)


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None
