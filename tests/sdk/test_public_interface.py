"""The stability promise of docs/sdk.md: what is public is recorded, and a change of it is seen in a review.

`UPDATE_SNAPSHOTS=1` writes the record again. Only additions keep the promise.
"""

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

import holdfast
import holdfast.sync

RECORD = Path(__file__).parent / "public_interface.txt"


def _lines() -> Iterator[str]:
    for module in (holdfast, holdfast.sync):
        for name in sorted(module.__all__):
            if name != "__version__":
                yield from _describe(f"{module.__name__}.{name}", getattr(module, name))


def _describe(name: str, value: Any) -> Iterator[str]:
    if not inspect.isclass(value):
        yield name
    elif issubclass(value, msgspec.Struct):
        yield f"{name}({', '.join(value.__struct_fields__)})"
    elif getattr(value, "__total__", None) is not None:
        yield f"{name}: {', '.join(sorted(value.__annotations__))}"
    elif issubclass(value, Exception):
        yield name
    else:
        yield f"{name}{inspect.signature(value)}" if name.endswith(".Client") else name
        own = [vars(part) for part in value.__mro__ if part.__module__.startswith("holdfast.sdk.")]
        for member, found in sorted({name: found for part in reversed(own) for name, found in part.items()}.items()):
            if member.startswith("_"):
                continue
            yield f"{name}.{member}" + (str(inspect.signature(found)) if inspect.isfunction(found) else "")


def test_the_public_interface_is_as_recorded() -> None:
    found = "\n".join(_lines()) + "\n"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        RECORD.write_text(found)
    assert found == RECORD.read_text()


def test_importing_the_package_imports_nothing_else() -> None:
    program = "import sys; before = set(sys.modules); import holdfast, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    loaded = set(json.loads(done.stdout))
    assert {name for name in loaded if name.startswith("holdfast")} == {"holdfast"}
    assert loaded & {"msgspec", "asyncio", "typing"} == set()
