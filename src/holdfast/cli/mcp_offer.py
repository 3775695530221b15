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
from holdfast.schema.runs import MODES_BY_FREEDOM, Mode, Run, RunRequest, narrower_mode

_WAIT_SECONDS = 50.0
"""How long a call waits for the end of a run. Other agents give up on calls that take longer than a minute."""
_MAX_MESSAGES = 200

_INSTRUCTIONS = (
    "Holdfast is a coding agent that works in one directory. Start a run with run_prompt. If it has not ended when the"
    " call returns, call wait_run with its run_id until its state is completed, cancelled, failed or interrupted. These"
    " modes may be chosen: {modes}."
)


def make_server(directory: str, *, max_mode: Mode) -> MCPServer:
    """Return the server that offers Holdfast in a directory, in no freer mode than ``max_mode``."""
    offered = MODES_BY_FREEDOM[: MODES_BY_FREEDOM.index(max_mode) + 1]
    instructions = _INSTRUCTIONS.format(modes=", ".join(offered))
    server = MCPServer("holdfast", version=__version__, instructions=instructions, log_level="ERROR")

    @server.tool()
    async def run_prompt(
        prompt: str, session_id: str | None = None, mode: Mode | None = None, model: str | None = None
    ) -> dict[str, Any]:
        """Let Holdfast work on a task in its directory. A session_id continues that conversation."""
        if mode is not None and mode not in offered:
            raise ToolError(
                f"mode {mode!r} is not offered; choose {' or '.join(offered)}. The person who set this server up can"
                f" allow it with 'holdfast mcp serve --max-mode {mode}'"
            )
        chosen = mode or narrower_mode("ask", than=max_mode)
        request = RunRequest(prompt=prompt, mode=chosen, model=model, interactive=False)
        async with _client() as client:
            if session_id is None:
                workspace = await client.open_workspace(directory)
                accepted = await client.start_session(workspace.id, request)
            else:
                await _require_session(client, session_id)
                accepted = await client.start_run(session_id, request)
            return _described(await client.wait_run(accepted.run.id, seconds=_WAIT_SECONDS))

    @server.tool()
    async def wait_run(run_id: str) -> dict[str, Any]:
        """Wait up to 50 seconds for the end of a run, and return its state and its answer."""
        async with _client() as client:
            await _require_run(client, run_id)
            return _described(await client.wait_run(run_id, seconds=_WAIT_SECONDS))

    @server.tool()
    async def cancel_run(run_id: str) -> dict[str, Any]:
        """Cancel a run and everything that it started."""
        async with _client() as client:
            await _require_run(client, run_id)
            await client.cancel_run(run_id)
            return _described(await client.get_run(run_id))

    @server.tool()
    async def read_session(session_id: str) -> list[dict[str, str]]:
        """Read the conversation of a session: the texts of its last 200 messages."""
        async with _client() as client:
            await _require_session(client, session_id)
            messages, _ = await client.all_messages(session_id)
        said = [{"role": message.role, "text": text_of(message.parts)} for message in messages[-_MAX_MESSAGES:]]
        return [one for one in said if one["text"]]

    async def _require_run(client: AsyncClient, run_id: str) -> None:
        await _require_session(client, (await client.get_run(run_id)).session_id)

    async def _require_session(client: AsyncClient, session_id: str) -> None:
        """Only the sessions of this directory are offered."""
        workspace = await client.open_workspace(directory)
        if (await client.session(session_id)).workspace_id != workspace.id:
            raise ToolError(f"session {session_id!r} belongs to another directory than {directory!r}")

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
