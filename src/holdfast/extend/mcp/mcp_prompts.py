"""Prompts of MCP servers as commands: ``/server:prompt argument …``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from holdfast.errors import BadRequest, ToolError
from holdfast.extend.mcp.call_results import read_result
from holdfast.extend.mcp.mcp_server import McpServer
from holdfast.extend.mcp.mcp_servers import McpServers
from holdfast.extend.mcp.tool_definitions import clean_text
from holdfast.schema.commands import ExpandedPrompt, PromptCommand

_MAX_DESCRIPTION = 500
_MAX_PROMPT = 200_000


class McpPrompts:
    """A source of commands. A prompt whose name cannot be typed is left out."""

    def __init__(self, servers: McpServers) -> None:
        self._servers = servers

    def commands(self) -> Sequence[PromptCommand]:
        return [
            PromptCommand(
                name=name,
                description=clean_text(str(prompt.get("description") or ""), limit=_MAX_DESCRIPTION),
                argument_hint=" ".join(_hint(argument) for argument in _arguments(prompt)),
                source=server.config.name,
                kind="mcp",
            )
            for name, (server, prompt) in self._found().items()
        ]

    async def wait_for(self, name: str) -> str:
        """Wait until the server of a command is ready. Return why it has no such prompt; empty if it has it."""
        server_name, colon, prompt = name.partition(":")
        server = next((one for one in self._servers.servers if colon and one.config.name == server_name), None)
        if server is None:
            return ""
        server.hurry()
        await server.wait_settled()
        if name in self._found():
            return ""
        if server.is_ready:
            return f"the MCP server {server_name!r} has no prompt {prompt!r}"
        return f"the MCP server {server_name!r} is not ready: {server.status.detail or server.status.state}"

    async def expand(self, name: str, arguments: str) -> ExpandedPrompt:
        """Get the prompt from its server. Raises `BadRequest` if an argument is missing or the server fails."""
        server, prompt = self._found()[name]
        given = arguments_of(_arguments(prompt), arguments, name=name)
        try:
            answer = await server.get_prompt(str(prompt["name"]), given)
        except ToolError as error:
            raise BadRequest(error.message, code="mcp_prompt_failed") from None
        messages = answer.get("messages")
        contents = [message.get("content") for message in messages or () if isinstance(message, dict)]
        result = read_result({"content": contents}, can_see_images=True)
        return ExpandedPrompt((result.text[:_MAX_PROMPT],), result.files)

    def _found(self) -> dict[str, tuple[McpServer, dict[str, Any]]]:
        found: dict[str, tuple[McpServer, dict[str, Any]]] = {}
        for server in self._servers.servers:
            for prompt in server.prompts if server.is_ready else ():
                name = f"{server.config.name}:{prompt.get('name')}"
                if name.isprintable() and " " not in name and clean_text(name, limit=200) == name:
                    found.setdefault(name, (server, prompt))
        return found


def arguments_of(wanted: Sequence[dict[str, Any]], text: str, *, name: str) -> dict[str, str]:
    """Return the arguments of a prompt: words in order, quoted as in the shell; the last one takes the rest."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    names = [str(argument.get("name")) for argument in wanted]
    if names and len(words) > len(names):
        words = [*words[: len(names) - 1], " ".join(words[len(names) - 1 :])]
    given = dict(zip(names, words, strict=False))
    missing = [str(argument.get("name")) for argument in wanted if argument.get("required")][len(given) :]
    if missing:
        hint = " ".join(_hint(argument) for argument in wanted)
        raise BadRequest(f"/{name} needs {', '.join(missing)}; write /{name} {hint}", code="mcp_argument_missing")
    return given


def _arguments(prompt: dict[str, Any]) -> list[dict[str, Any]]:
    found = prompt.get("arguments")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _hint(argument: dict[str, Any]) -> str:
    name = clean_text(str(argument.get("name")), limit=50)
    return f"<{name}>" if argument.get("required") else f"[{name}]"
