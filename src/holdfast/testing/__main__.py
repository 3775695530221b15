"""``python -m holdfast.testing [--port N] [SCRIPT.json]``: a provider to point any client at."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import suppress
from pathlib import Path

import msgspec

from holdfast.testing.provider_script import Answer
from holdfast.testing.provider_server import serve


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m holdfast.testing", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("script", nargs="?", type=Path, help="a JSON list of answers")
    arguments = parser.parse_args()
    answers = msgspec.json.decode(arguments.script.read_bytes(), type=list[Answer]) if arguments.script else []
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(arguments.port, answers))


main()
