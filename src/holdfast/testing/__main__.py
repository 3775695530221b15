"""``python -m holdfast.testing [--port N] [SCRIPT.json]``: run the test provider for any client."""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from holdfast.testing.provider_script import WIRES, Answer
from holdfast.testing.provider_server import TestProvider


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m holdfast.testing", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="the port to listen on; 0 chooses a free one")
    parser.add_argument("script", nargs="?", type=Path, help="a JSON file with a list of answers")
    arguments = parser.parse_args()
    answers = msgspec.json.decode(arguments.script.read_bytes(), type=list[Answer]) if arguments.script else []
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(arguments.port, answers))


async def serve(port: int, answers: list[Answer]) -> None:
    """Print the base URLs and answer until interrupted."""
    provider = await TestProvider(answers).start(port)
    try:
        for wire in WIRES:
            sys.stdout.write(f"{wire:18}{provider.url(wire)}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()
    finally:
        await provider.stop()


if __name__ == "__main__":
    main()
