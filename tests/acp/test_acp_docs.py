"""What docs/acp.md and the help tell editors to start works as it is written there."""

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs" / "acp.md"


def _commands(text: str) -> list[dict[str, Any]]:
    """The commands of all settings of editors in a text."""
    found = [json.loads(one) for one in re.findall(r'\{"command": [^{}]*\}', text)]
    assert found
    return found


async def _run(home: Path, *words: str, given: bytes = b"") -> str:
    """Run a program that is installed beside this Python."""
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).with_name(words[0])), *words[1:]),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "HOLDFAST_HOME": str(home / "h")},
    )
    out, _ = await process.communicate(given)
    assert process.returncode == 0
    return out.decode()


async def test_the_command_of_the_docs_answers_an_editor(home: Path) -> None:
    commands = _commands(DOCS.read_text()) + _commands(await _run(home, "holdfast", "acp", "--help"))
    assert len(commands) >= 3
    assert all(one == {"command": "holdfast", "args": ["acp"]} for one in commands)
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    line = json.dumps(request).encode() + b"\n"
    answer = json.loads(await _run(home, commands[0]["command"], *commands[0]["args"], given=line))
    assert answer["result"]["agentInfo"]["name"] == "holdfast"
