"""The first prompt of a new server with five MCP servers, one of which hangs, beside the same without any.

Both servers run as users run them, in processes of their own, in turn. The provider is in a third process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from pathlib import Path

from support.figures import show
from support.relay_bench import Connection, Ours, provider_and_directory, reading_events, stop, wait_until_healthy

_MCP_SERVER = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    result = {"tools": [{"name": "say", "inputSchema": {"type": "object"}}]}
    if request["method"] == "initialize":
        info = {"name": "bench", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""


def mcp_config() -> str:
    commands = [[sys.executable, "-I", "-S", "-c", _MCP_SERVER]] * 4 + [["sleep", "600"]]
    return "".join(f"[mcp.server{number}]\ncommand = {json.dumps(one)}\n" for number, one in enumerate(commands))


async def first_prompt(provider: int, home: Path, config: str) -> float:
    """Milliseconds from sending the first prompt of a new server to its end."""
    subject = Ours(provider, home, settings=config)
    try:
        await wait_until_healthy(subject)
        await subject.prepare()
        connection = Connection(subject.port)
        async with reading_events(subject) as reader:
            began = time.monotonic_ns()
            await subject.start(connection, "quick", "run_1")
            await reader.wait_for_ends(["run_1"])
            took = (time.monotonic_ns() - began) / 1e6
        connection.close()
        return took
    finally:
        stop(subject)


async def compare(provider: int, directory: Path, rounds: int) -> None:
    found: dict[str, list[float]] = {"": [], mcp_config(): []}
    await first_prompt(provider, directory / "warm", "")  # compiles the modules
    for number in range(rounds):
        for index, (config, times) in enumerate(found.items()):
            times.append(await first_prompt(provider, directory / f"{number}-{index}", config))
    without, with_servers = (statistics.median(times) for times in found.values())
    show(
        "first prompt, five MCP servers, one hangs",
        with_servers,
        "ms",
        base=without,
        base_name="none",
        most_ratio=1.25,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with provider_and_directory() as (port, directory):
        asyncio.run(compare(port, directory, rounds))


if __name__ == "__main__":
    main()
