"""The reference server of the protocol, from the npm registry, on all three transports. Needs node and a registry."""

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.extend.mcp.running_calls import CallHandlers
from tests.support.mcp_peers import ServerProbe, open_server, until_open
from tests.support.stress import StressShare

_PACKAGE = "@modelcontextprotocol/server-everything"
_INSTALL_SECONDS = 150


async def install(directory: Path) -> Path:
    """Install the server below this directory, and return its program. Skips the test if that is not possible."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed")
    options = (
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--prefix",
        str(directory),
        "--cache",
        str(directory / "c"),
    )
    process = await asyncio.create_subprocess_exec(
        npm, "install", *options, _PACKAGE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(_INSTALL_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        pytest.skip(f"npm did not install {_PACKAGE} within {_INSTALL_SECONDS} s")
    if process.returncode:
        pytest.skip(f"npm cannot install {_PACKAGE}: {output.decode()[-300:]}")
    return directory / "node_modules" / ".bin" / "mcp-server-everything"


@asynccontextmanager
async def serving(program: Path, transport: str) -> AsyncIterator[str]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        str(program),
        transport,
        env={**os.environ, "PORT": str(port)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        await until_open(port)
        yield f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"
    finally:
        process.kill()
        await process.wait()


async def use(probe: ServerProbe) -> None:
    async def elicit(request: dict[str, Any]) -> dict[str, Any]:
        return {"action": "accept", "content": {"name": "Eve", "check": True}}

    async def sample(request: dict[str, Any]) -> dict[str, Any]:
        content = {"type": "text", "text": "a sampled answer"}
        return {"role": "assistant", "content": content, "model": "m", "stopReason": "endTurn"}

    shown: list[str] = []

    async def call(tool: str, **arguments: Any) -> str:
        handlers = CallHandlers(elicit, sample)
        return str(await server.call(tool, arguments, progress=shown.append, handlers=handlers))

    server = probe.server
    assert server.status.state == "ready", (server.status, server.log.lines)
    assert "simulate-research-query" in server.status.detail
    assert server.instructions
    assert "Echo: hello" in await call("echo", message="hello")
    assert "is 5" in await call("get-sum", a=2, b=3)
    assert "image/png" in await call("get-tiny-image")
    assert "structuredContent" in await call("get-structured-content", location="New York")
    assert "Eve" in await call("trigger-elicitation-request")
    assert "a sampled answer" in await call("trigger-sampling-request", prompt="hi", maxTokens=10)
    assert "completed" in await call("trigger-long-running-operation", duration=0.2, steps=2)
    assert shown[-1].startswith("2 of 2")
    assert str(server.surroundings.directory) in await call("get-roots-list")
    assert "contents" in await server.read_resource(str(server.resources[0]["uri"]))
    assert server.resource_templates
    assert "messages" in await server.get_prompt("simple-prompt", {})
    long = asyncio.create_task(call("trigger-long-running-operation", duration=60, steps=60))
    while len(shown) < 3:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.01)
    long.cancel()
    await asyncio.wait([long])
    assert "Echo: still here" in await call("echo", message="still here")


@pytest.mark.timeout(600)
@pytest.mark.stress
async def test_the_reference_server_works_on_every_transport(tmp_path: Path, share: StressShare) -> None:
    program = await install(tmp_path / "npm")
    options: dict[str, Any] = {"sampling": True, "sampling_tokens": 100, "sampling_requests": 5, "start_timeout": 60.0}
    async with open_server(tmp_path, (str(program), "stdio"), **options) as probe:
        await use(probe)
    share.count("transports")
    for transport in ("streamableHttp", "sse"):
        async with serving(program, transport) as url, open_server(tmp_path, url=url, **options) as probe:
            await use(probe)
        share.count("transports")
