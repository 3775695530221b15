"""Packages import only what docs/architecture.md allows them, and the pure modules are pure."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from tests.support.layers import BASE, COMPOSITION_ROOT, MAY_IMPORT, PURE, broken_layers, impurities

_SOURCE = Path(holdfast.__file__).parent
_DOC = Path(__file__).parents[1] / "docs" / "architecture.md"

_FORBIDDEN_AT_START = (
    *("asyncio", "starlette", "uvicorn", "httpx2", "textual", "tree_sitter", "markdownify", "mcp", "tomlkit"),
)


def _house(tmp_path: Path, files: dict[str, str]) -> Path:
    """A source tree like the package's own."""
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_every_package_imports_only_what_its_row_names() -> None:
    assert list(broken_layers(_SOURCE)) == []


@pytest.mark.parametrize("module", PURE)
def test_the_pure_modules_have_no_io_no_clock_and_no_framework(module: str) -> None:
    if not (_SOURCE / module).exists():
        pytest.skip(f"{module} is not written yet")
    assert list(impurities(_SOURCE / module, _SOURCE)) == []


def test_the_table_and_the_document_name_the_same_packages() -> None:
    rows = re.findall(r"^\| (`.*?) \|", _DOC.read_text(), flags=re.MULTILINE)
    named = {name.removesuffix(".py").strip("/") for row in rows for name in re.findall(r"`(.*?)`", row)}
    assert named == (MAY_IMPORT.keys() - {"__main__"}) | {COMPOSITION_ROOT}


def test_importing_the_command_line_loads_nothing_heavy() -> None:
    program = "import json, sys, holdfast.cli; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    loaded = {name.split(".")[0] for name in json.loads(done.stdout)}
    assert loaded & set(_FORBIDDEN_AT_START) == set()


@pytest.mark.parametrize(
    "line",
    [
        "import holdfast.server",
        "import holdfast.server.routes as routes",
        "from holdfast import server",
        "from holdfast.server import routes",
        "from ..server import routes",
        "from .. import server",
        "def later():\n    from holdfast.server import routes",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import holdfast.server",
        "import importlib\nimportlib.import_module('holdfast.server')",
    ],
)
def test_a_forbidden_import_is_found_however_it_is_written(tmp_path: Path, line: str) -> None:
    found = list(broken_layers(_house(tmp_path, {"store/writer.py": line})))
    assert len(found) == 1
    assert re.fullmatch(r"holdfast\.store\.writer:\d+: 'store' may not import 'holdfast\.server.*'", found[0])


def test_the_base_outsiders_and_oneself_may_be_imported(tmp_path: Path) -> None:
    lines = "import sqlite3, holdfast.store\nfrom holdfast import __version__, errors\nfrom holdfast.schema import Run"
    assert list(broken_layers(_house(tmp_path, {"store/writer.py": lines}))) == []


def test_a_package_without_a_row_is_named(tmp_path: Path) -> None:
    assert list(broken_layers(_house(tmp_path, {"misc/things.py": "x = 1"}))) == [
        "holdfast.misc.things: 'misc' has no row in the table; say what it may import"
    ]


def test_only_the_commands_that_start_the_server_may_import_the_composition_root(tmp_path: Path) -> None:
    line = "def start():\n    from holdfast import app"
    commands = dict.fromkeys(
        ("cli/commands/serve.py", "cli/commands/demo.py", "cli/commands/run.py", "tui/main.py"), line
    )
    house = _house(tmp_path, {"app.py": "import holdfast.server", **commands})
    assert list(broken_layers(house)) == [
        "holdfast.cli.commands.run:2: 'cli' may not import 'holdfast.app'",
        "holdfast.tui.main:2: 'tui' may not import 'holdfast.app'",
    ]


def test_the_package_itself_imports_none_of_its_parts(tmp_path: Path) -> None:
    house = _house(tmp_path, {"__init__.py": "from holdfast.schema import Run"})
    assert list(broken_layers(house)) == ["holdfast:1: 'holdfast' may not import 'holdfast.schema'"]


@pytest.mark.parametrize("package", sorted(MAY_IMPORT.keys() - BASE - {"__main__"}))
def test_no_two_packages_may_import_each_other(package: str) -> None:
    assert [other for other in MAY_IMPORT[package] if package in MAY_IMPORT[other]] == []


@pytest.mark.parametrize(
    ("line", "impurity"),
    [
        ("import asyncio", "imports 'asyncio'"),
        ("from time import monotonic", "imports 'time'"),
        ("import os.path", "imports 'os.path'"),
        ("import random", "imports 'random'"),
        ("from pathlib import Path", "imports 'pathlib'"),
        ("import sqlite3", "imports 'sqlite3'"),
        ("from datetime import datetime\nat = datetime.now()", "reads a clock with 'now'"),
        ("async def decide(): ...", "'decide' is async"),
        ("text = open('file').read()", "calls 'open'"),
        ("print('decided')", "calls 'print'"),
    ],
)
def test_an_impurity_is_found(tmp_path: Path, line: str, impurity: str) -> None:
    house = _house(tmp_path, {"runs/lane.py": line})
    assert [found.partition(": ")[2] for found in impurities(house / "runs/lane.py", house)] == [impurity]


def test_an_impurity_is_found_behind_a_module_of_ours(tmp_path: Path) -> None:
    house = _house(tmp_path, {"schema/__init__.py": "import msgspec", "ids.py": "import time"})
    _house(house, {"runs/lane.py": "from holdfast.schema import Run"})
    assert list(impurities(house / "runs/lane.py", house)) == []
    _house(house, {"runs/lane.py": "from holdfast.ids import Ids"})
    assert list(impurities(house / "runs/lane.py", house)) == ["ids.py:1: imports 'time'"]
