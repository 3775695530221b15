"""Writes the vendors' word to tests/models/goldens: their reading of our streams, their verdict on our bodies.

Run it in an environment made from lock/oracles.txt, from the repository's root: ``python -m oracles.regenerate``.
The tests compare our own reading with these files and need no SDK.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from oracles.bodies import verdicts
from oracles.readings import reading

GOLDENS = Path(__file__).parent.parent / "tests" / "models" / "goldens"
WIRES = {
    "openai-chat": ("chat", "openai"),
    "openai-responses": ("responses", "openai"),
    "anthropic": ("anthropic", "anthropic"),
    "gemini": ("gemini", "google-genai"),
}


def main() -> None:
    for wire, (module, package) in WIRES.items():
        streams = import_module(f"tests.models.streams.{module}").STREAMS
        readings = {name: reading(wire, stream) for name, stream in streams.items()}
        _write(f"readings-{wire}", {"read by": f"{package} {version(package)}", "readings": readings})
        checked = verdicts(wire)
        _write(f"bodies-{wire}", {"checked by": f"{package} {version(package)}", "bodies": checked})
        bad = {name: found["verdict"] for name, found in checked.items() if found["verdict"] != "valid"}
        said = f", INVALID: {bad}" if bad else ""
        sys.stdout.write(f"{wire}: {len(readings)} streams, {len(checked)} bodies{said}\n")


def _write(name: str, content: dict[str, Any]) -> None:
    text = json.dumps(content, indent=1, sort_keys=False, ensure_ascii=False)
    (GOLDENS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
