"""`holdfast fleet`: the servers that share a database, and what each owns."""

from __future__ import annotations

import argparse
import sys

from holdfast.cli.argument_parser import Parser
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import Exit
from holdfast.cli.formatting import json_text, table
from holdfast.cli.screen import Style, one_line
from holdfast.schema.api.server_views import FleetServerView, FleetView, FleetWorkspaceView

_SERVERS = ("server", "machine", "state", "lease", "behind", "owns", "active", "streams", "address")
_WORKSPACES = ("workspace", "owner", "fence", "active", "queued", "directory")


def configure(parser: Parser) -> None:
    parser.explain(
        "List the servers that share a PostgreSQL database, what each owns, its lease, how far it is behind, and how "
        "many runs wait. A server with a database of its own is alone. docs/fleet.md says how to set up several.",
        examples=(("holdfast fleet", "servers and workspaces"), ("holdfast fleet --json", "the same for programs")),
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        found = context.client.fleet()
    print(json_text(found) if args.json else "\n".join(describe(found, Style(sys.stdout))))
    return Exit.COMPLETED


def describe(found: FleetView, style: Style) -> list[str]:
    """The servers, then their workspaces."""
    rows = [_server_row(server, is_here=server.id == found.server_id) for server in found.servers]
    lines = table([_SERVERS, *rows])
    lines[0] = style.bold(lines[0])
    if not found.workspaces:
        return lines
    names = {server.id: server.name or server.host for server in found.servers}
    below = table([_WORKSPACES, *(_workspace_row(one, names) for one in found.workspaces)])
    below[0] = style.bold(below[0])
    return [*lines, "", *below]


def _server_row(server: FleetServerView, *, is_here: bool) -> tuple[str, ...]:
    lease = "–" if server.expires_in is None else f"{server.expires_in:.1f} s"
    return (
        server.id + (" *" if is_here else ""),
        one_line(server.name or server.host),
        server.state,
        lease,
        str(server.lag),
        str(server.workspaces),
        str(server.active_runs),
        str(server.streams),
        one_line(server.address or "–"),
    )


def _workspace_row(one: FleetWorkspaceView, names: dict[str, str]) -> tuple[str, ...]:
    owner = "nobody" if one.server_id is None else one_line(names.get(one.server_id, one.server_id))
    if one.role == "caretaker":
        owner += " (keeps the books)"
    return one.workspace_id, owner, str(one.fence), str(one.active_runs), str(one.queued_runs), one_line(one.path)
