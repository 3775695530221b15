"""Writes tests/models/goldens: the answers that the vendors' SDKs read, and how they validate our request bodies.

Run ``python -m oracles.regenerate`` from the repository's root, in an environment with the packages in
lock/oracles.txt. The tests compare our results with these files and need no SDK.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from oracles.bodies import validate_bodies
from oracles.readings import read_stream

GOLDENS = Path(__file__).parent.parent / "tests" / "models" / "goldens"
SDKS = {"openai-chat": "openai", "openai-responses": "openai", "anthropic": "anthropic", "gemini": "google-genai"}


def main() -> None:
    for wire, package in SDKS.items():
        module = wire.replace("-", "_")
        streams = import_module(f"tests.models.streams.{module}").STREAMS
        readings = {name: read_stream(wire, stream) for name, stream in streams.items()}
        _write(f"readings-{wire}", {"read by": f"{package} {version(package)}", "readings": readings})
        checked = validate_bodies(wire)
        _write(f"bodies-{wire}", {"checked by": f"{package} {version(package)}", "bodies": checked})
        invalid = {name: found["verdict"] for name, found in checked.items() if found["verdict"] != "valid"}
        problems = f", INVALID: {invalid}" if invalid else ""
        sys.stdout.write(f"{wire}: {len(readings)} streams, {len(checked)} bodies{problems}\n")


def _write(name: str, content: dict[str, Any]) -> None:
    text = json.dumps(content, indent=1, sort_keys=False, ensure_ascii=False)
    (GOLDENS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
