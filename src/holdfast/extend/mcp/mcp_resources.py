"""Resources of MCP servers in prompts: ``@server:uri``, and what completes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from holdfast.extend.mcp.mcp_server import McpServer
from holdfast.extend.mcp.mcp_servers import McpServers
from holdfast.extend.mcp.tool_definitions import clean_text, shown_name
from holdfast.schema.commands import MentionKind, OfferedMention, PromptPiece, ResourceMention

_MENTION = re.compile(r"(?<![\w@`/\\])@(?P<server>[\w.-]+):(?P<uri>[A-Za-z][A-Za-z0-9+.-]*:[^\s`]+)")
_AFTER = ".,;:!?)]}\"'>"
"""Characters that end a sentence or a quotation, not an address."""
_MAX_ADDRESS = 500
_MAX_DESCRIPTION = 200


class McpResources:
    """The resources of the servers of a workspace."""

    def __init__(self, servers: McpServers) -> None:
        self.servers = servers

    def read_prompt(self, prompt: str) -> tuple[PromptPiece, ...] | None:
        """Split a prompt at the resources that it mentions; None if it mentions none.

        Only names of configured servers count. Other text that looks like a mention is text.
        """
        pieces: list[PromptPiece] = []
        position = 0
        for found in _MENTION.finditer(prompt):
            server = self._server(found["server"])
            if server is None:
                continue
            uri = _address(server, found["uri"])
            pieces += [prompt[position : found.start()], ResourceMention(server.config.name, uri, typed=True)]
            position = found.start("uri") + len(uri)
        return (*pieces, prompt[position:]) if pieces else None

    def has_server(self, name: str) -> bool:
        return self._server(name) is not None

    def offered(self, query: str, *, limit: int) -> tuple[OfferedMention, ...]:
        """Return the resources of the ready servers that match what is typed, best first."""
        wanted = query.lower()
        matches = [
            (place, mention.text, mention)
            for mention, words in self._all()
            if (place := f"{mention.text} {words}".lower().find(wanted)) >= 0
        ]
        return tuple(mention for _, _, mention in sorted(matches, key=lambda match: match[:2])[:limit])

    def _all(self) -> Iterator[tuple[OfferedMention, str]]:
        """Return the mentions, each with further words by which it is found."""
        for server in self.servers.servers:
            if server.is_ready:
                for resource in server.resources:
                    yield from _offer(server, resource, "uri", "resource")
                for template in server.resource_templates:
                    yield from _offer(server, template, "uriTemplate", "template")

    def _server(self, name: str) -> McpServer | None:
        return next((server for server in self.servers.servers if server.config.name == name), None)


def _address(server: McpServer, written: str) -> str:
    """Return the address without the punctuation that follows it, unless the server has it with it."""
    known = {str(resource.get("uri")) for resource in server.resources}
    return written if written in known else written.rstrip(_AFTER)


def _offer(
    server: McpServer, item: dict[str, Any], key: str, kind: MentionKind
) -> Iterator[tuple[OfferedMention, str]]:
    """An address that cannot be typed, or that could mislead, is left out."""
    address = str(item.get(key) or "")
    start = address.partition("{")[0] if kind == "template" else address
    if not start or len(address) > _MAX_ADDRESS or not address.isprintable() or re.search(r"[\s`]", address):
        return
    if clean_text(address, limit=_MAX_ADDRESS) != address:
        return
    name = shown_name(str(item.get("title") or item.get("name") or ""))
    about = clean_text(str(item.get("description") or ""), limit=_MAX_DESCRIPTION).replace("\n", " ")
    words = f"{name}: {about}" if about else name
    shown = f"{address}  {words}" if kind == "template" else words
    yield OfferedMention(f"{server.config.name}:{start}", kind, shown), words
