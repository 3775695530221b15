"""Holdfast as an MCP server on stdin and stdout, for other agents. Imports the protocol's library, which is slow.

Runs that other agents start belong to the server, like all runs: they go on when the other agent leaves. They never ask
a person; what needs an approval is denied, unless a rule or the mode allows it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from holdfast import __version__
from holdfast.client import AsyncClient, open_async_client
from holdfast.errors import HoldfastError
from holdfast.schema.messages import text_of
from holdfast.schema.runs import Mode, Run, RunRequest

_WAIT_SECONDS = 50.0
"""How long a call waits for the end of a run. Other agents give up on calls that take longer than a minute."""
_MAX_MESSAGES = 200

_INSTRUCTIONS = (
    "Holdfast is a coding agent that works in one directory. Start a run with run_prompt. If it has not ended when the"
    " call returns, call wait_run with its run_id until its state is completed, cancelled, failed or interrupted."
)


def make_server(directory: str) -> MCPServer:
    """Return the server that offers Holdfast in a directory."""
    server = MCPServer("holdfast", version=__version__, instructions=_INSTRUCTIONS, log_level="ERROR")

    @server.tool()
    async def run_prompt(
        prompt: str, session_id: str | None = None, mode: Mode = "ask", model: str | None = None
    ) -> dict[str, Any]:
        """Let Holdfast work on a task in its directory. A session_id continues that conversation."""
        request = RunRequest(prompt=prompt, mode=mode, model=model, interactive=False)
        async with _client() as client:
            if session_id is None:
                workspace = await client.open_workspace(directory)
                accepted = await client.start_session(workspace.id, request)
            else:
                accepted = await client.start_run(session_id, request)
            return _described(await client.wait_run(accepted.run.id, seconds=_WAIT_SECONDS))

    @server.tool()
    async def wait_run(run_id: str) -> dict[str, Any]:
        """Wait up to 50 seconds for the end of a run, and return its state and its answer."""
        async with _client() as client:
            return _described(await client.wait_run(run_id, seconds=_WAIT_SECONDS))

    @server.tool()
    async def cancel_run(run_id: str) -> dict[str, Any]:
        """Cancel a run and everything that it started."""
        async with _client() as client:
            await client.cancel_run(run_id)
            return _described(await client.get_run(run_id))

    @server.tool()
    async def read_session(session_id: str) -> list[dict[str, str]]:
        """Read the conversation of a session: the texts of its last 200 messages."""
        async with _client() as client:
            messages, _ = await client.all_messages(session_id)
        said = [{"role": message.role, "text": text_of(message.parts)} for message in messages[-_MAX_MESSAGES:]]
        return [one for one in said if one["text"]]

    return server


@asynccontextmanager
async def _client() -> AsyncIterator[AsyncClient]:
    """A client for one call. Errors tell the other agent what is wrong."""
    try:
        async with await open_async_client(os.environ, name="mcp") as client:
            yield client
    except HoldfastError as error:
        raise ToolError(error.message) from None


def _described(run: Run) -> dict[str, Any]:
    found = {"run_id": run.id, "session_id": run.session_id, "state": run.state, "text": run.text}
    return {**found, "error": run.error.message} if run.error is not None else found
