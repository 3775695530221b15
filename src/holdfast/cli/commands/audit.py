"""`holdfast audit`: who changed what, and how it ended."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from holdfast.cli.argument_parser import Parser
from holdfast.cli.argument_values import count
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import Exit
from holdfast.client.sync_client import SyncClient
from holdfast.schema.audit import AuditEntry
from holdfast.schema.base import encode

_WAIT_SECONDS = 60.0
_PAGE = 500


def configure(parser: Parser) -> None:
    parser.explain(
        "Every request that changes something, with who sent it: a person, a device, or you at this machine. What was\n"
        "sent is not recorded. Entries are kept as long as server.keep_audit says.",
        examples=(
            ("holdfast audit", "the last changes"),
            ("holdfast audit --person anna --since 2026-01-31", "what anna did since that day"),
            ("holdfast audit --failed", "what was refused or went wrong"),
            ("holdfast audit --target ses_1", "all about a session, a run, a device or a directory's workspace"),
            ("holdfast audit --follow --json", "each change as it happens, one JSON object per line"),
        ),
    )
    parser.add_argument("--person", metavar="NAME", help="only changes by this person")
    parser.add_argument("--device", metavar="ID", help="only changes with this device or token")
    parser.add_argument("--target", metavar="TEXT", help="only requests whose path has this text, or that made this id")
    parser.add_argument("--since", metavar="DAY", help="only since this day, such as 2026-01-31 (UTC)")
    parser.add_argument("--failed", action="store_true", help="only requests that were answered with an error")
    parser.add_argument("--limit", type=count, default=50, metavar="N", help="how many, the last ones (default: 50)")
    parser.add_argument("-f", "--follow", action="store_true", help="then print new entries until Ctrl-C")
    parser.add_argument("--json", action="store_true", help="print JSON, one entry per line")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        _print_entries(args)
    except KeyboardInterrupt:
        if not args.follow:
            raise
    return Exit.COMPLETED


def _print_entries(args: argparse.Namespace) -> None:
    wanted = {name: getattr(args, name) for name in ("person", "device", "target", "since", "failed")}
    with CommandContext() as context:
        last = context.client.audit(limit=args.limit, **wanted).items
        entries = list(reversed(last))
        if not entries and not args.follow and not args.json:
            print("no change was recorded")
        for entry in entries:
            _show(entry, as_json=args.json)
        if args.follow:
            for entry in new_entries(context.client, entries, wanted=wanted):
                _show(entry, as_json=args.json)


def new_entries(client: SyncClient, shown: list[AuditEntry], *, wanted: dict[str, Any]) -> Iterator[AuditEntry]:
    """Entries that are answered after those shown, each once. One that is not answered yet is waited for."""
    if shown:
        position = shown[-1].number
    else:
        latest = client.audit(limit=1).items
        position = latest[0].number if latest else 0
    open_numbers = {entry.number for entry in shown if entry.status is None}
    while True:
        after = min(open_numbers, default=position + 1) - 1
        page = client.audit(after=str(after), limit=_PAGE, wait=_WAIT_SECONDS if after == position else 1.0, **wanted)
        for entry in page.items:
            is_new, was_open = entry.number > position, entry.number in open_numbers
            if entry.status is None:
                open_numbers.add(entry.number)
            elif is_new or was_open:
                open_numbers.discard(entry.number)
                yield entry
            position = max(position, entry.number)


def _show(entry: AuditEntry, *, as_json: bool) -> None:
    if as_json:
        print(encode(entry).decode(), flush=True)
        return
    who = entry.person or entry.device_id or "local"
    method = entry.action.partition(" ")[0]
    outcome = "no answer" if entry.status is None else f"{entry.status} {entry.code or ''}".rstrip()
    made = f" → {entry.made}" if entry.made else ""
    client = f" ({entry.client.partition(' ')[0]})" if entry.client else ""
    time = entry.at[:19].replace("T", " ")
    print(f"{time}  {who}{client}  {method} {entry.target}{made}  {outcome}", flush=True)
