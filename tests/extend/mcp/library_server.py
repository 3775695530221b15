"""An MCP server made with the official library, on one of its three transports: ``python library_server.py stdio``."""

import asyncio
import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("library", instructions="Use add for sums.", log_level="ERROR")


class Name(BaseModel):
    name: str


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def slow(ctx: Context, seconds: float = 30.0) -> str:
    """Report progress, then take long."""
    await ctx.report_progress(1, 2, "half")
    await asyncio.sleep(seconds)
    return "done"


@server.tool()
async def greet(ctx: Context) -> str:
    """Ask for a name."""
    answer = await ctx.elicit("Who are you?", schema=Name)
    return f"hello {answer.data.name}" if answer.action == "accept" else answer.action


@server.prompt()
def review(code: str) -> str:
    """Review some code."""
    return f"Please review: {code}"


@server.resource("note://today", mime_type="text/plain")
def today() -> str:
    """The note of today."""
    return "buy milk"


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run(sys.argv[1], port=int(sys.argv[2]))
