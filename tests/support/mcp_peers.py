"""MCP servers as peers of tests, and one server outside of a workspace."""

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from holdfast.config import Keyring, SecretStore
from holdfast.config.setting_types import Url, Variables
from holdfast.config.settings import NetworkSettings
from holdfast.extend.mcp.mcp_server import McpServer, McpTimes, ServerSurroundings
from holdfast.extend.mcp.running_calls import CallHandlers
from holdfast.extend.mcp.server_config import McpServerConfig
from holdfast.schema.extensions import ExtensionStatus
from holdfast.tools.process.command_process import CommandLauncher
from holdfast.tools.process.process_table import Process, processes_with_variable

_DIRECTORY = Path(__file__).parents[1] / "extend" / "mcp"
QUICK = McpTimes(ping=0.2, ping_answer=5.0, first_retry=0.01, longest_retry=0.02, close=3.0, relist=0.0)


def plain_command(*behaviour: str) -> tuple[str, ...]:
    """The command of a server without a library, which starts fast."""
    return (sys.executable, "-I", "-S", str(_DIRECTORY / "plain_server.py"), *behaviour)


def library_command(*arguments: str) -> tuple[str, ...]:
    """The command of a server made with the official library."""
    return (sys.executable, str(_DIRECTORY / "library_server.py"), *arguments)


def toml_of(name: str, command: tuple[str, ...], extra: str = "") -> str:
    return f"[mcp.{name}]\ncommand = {json.dumps(command)}\n{extra}\n"


class ServerProbe:
    """A server, and the states that it announced."""

    def __init__(self) -> None:
        self.states: list[ExtensionStatus] = []
        self.server: McpServer
        self._changed = asyncio.Event()

    async def announce(self, status: ExtensionStatus) -> None:
        self.states.append(status)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def until(self, condition: Callable[[ExtensionStatus], bool]) -> ExtensionStatus:
        """Wait until the server has announced such a state, and return it."""
        async with asyncio.timeout(30):
            while not (found := [status for status in self.states if condition(status)]):
                await self._changed.wait()
        return found[0]

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.server.call(tool, arguments, progress=lambda text: None, handlers=CallHandlers(_decline))


async def marked(variable: str) -> list[Process]:
    """The processes that have this variable (``NAME=value``)."""
    return await asyncio.to_thread(processes_with_variable, variable)


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)


async def _decline(request: dict[str, Any]) -> dict[str, Any]:
    return {"action": "decline"}


@asynccontextmanager
async def open_server(
    directory: Path,
    command: tuple[str, ...] = (),
    *,
    url: str | None = None,
    times: McpTimes = QUICK,
    env: dict[str, str] | None = None,
    secrets: Keyring | None = None,
    is_login: bool = False,
    **fields: Any,
) -> AsyncIterator[ServerProbe]:
    """Start a server, and wait until it is ready or has failed."""
    probe, launcher = ServerProbe(), CommandLauncher()
    marks = iter(range(1_000_000))
    around = ServerSurroundings(
        directory=directory,
        env=os.environ,
        secret=tuple,
        network=NetworkSettings(),
        launcher=launcher,
        announce=probe.announce,
        secrets=secrets or Keyring(SecretStore(directory / "secrets.json"), env={}),
        new_id=lambda: f"mcp-{os.getpid()}-{id(probe)}-{next(marks)}",
        now=lambda: "now",
        names_of_others=lambda name: (),
        times=times,
    )
    config = McpServerConfig(
        name="peer",
        command=command,
        url=None if url is None else Url(url),
        env=Variables(env or {}),
        **{"start_timeout": 20.0, "timeout": 20.0, **fields},
    )
    probe.server = McpServer(config, around, is_login=is_login)
    probe.server.start()
    try:
        if not is_login:
            await probe.server.wait_settled()
        yield probe
    finally:
        await probe.server.close()
        await launcher.close()


@asynccontextmanager
async def library_server(transport: str) -> AsyncIterator[str]:
    """Run a server made with the library on loopback. Yields its address."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    process = await asyncio.create_subprocess_exec(*library_command(transport, str(port)), start_new_session=True)
    try:
        await until_open(port)
        yield f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"
    finally:
        process.kill()
        await process.wait()


async def until_open(port: int) -> None:
    async with asyncio.timeout(40):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
                continue
            writer.close()
            await writer.wait_closed()
            return
