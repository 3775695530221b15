"""The MCP servers that an editor passes, as servers of a session. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.schema.extensions import ExtensionStatus, SessionMcpServer

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


def editor_servers(servers: Sequence[Mapping[str, Any]]) -> tuple[SessionMcpServer, ...]:
    """The servers with names that ours may have. Those that the editor would relay itself are left out."""
    found: dict[str, SessionMcpServer] = {}
    for server in servers:
        name = _free_name(server["name"], found)
        if "command" in server:
            env = {one["name"]: one["value"] for one in server["env"]}
            found[name] = SessionMcpServer(name, (server["command"], *server["args"]), env=env)
        elif "url" in server:
            headers = {one["name"]: one["value"] for one in server["headers"]}
            found[name] = SessionMcpServer(
                name, url=server["url"], headers=headers, transport="sse" if server.get("type") == "sse" else "http"
            )
    return tuple(found.values())


def failed_servers(statuses: Sequence[ExtensionStatus]) -> str:
    """What the editor's user is told about servers that do not work; empty if all do."""
    lines = [
        f"- {one.name}: {one.state.replace('_', ' ')}{f', {one.detail}' if one.detail else ''}"
        for one in statuses
        if one.state not in ("ready", "starting")
    ]
    return "\n".join(["MCP servers of the editor that cannot be used:", *lines]) if lines else ""


def _free_name(name: str, taken: Mapping[str, object]) -> str:
    base = _NOT_IN_NAMES.sub("-", name).strip("-._")[:40] or "server"
    number = 1
    while (found := base if number == 1 else f"{base}-{number}") in taken:
        number += 1
    return found
