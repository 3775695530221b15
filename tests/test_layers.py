"""Import rules, unique names, no import cycles, and pure modules that are pure."""

import gc
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from tests.support.layers import (
    BASE,
    COMPOSITION_ROOT,
    MAY_IMPORT,
    PURE,
    broken_layers,
    import_cycles,
    impurities,
    repeated_class_names,
    repeated_module_names,
)

_SOURCE = Path(holdfast.__file__).parent
_DOC = Path(__file__).parents[1] / "docs" / "architecture.md"

_FORBIDDEN_AT_START = (
    *("asyncio", "starlette", "uvicorn", "httpx2", "textual", "tree_sitter", "markdownify", "mcp", "tomlkit"),
)


@pytest.fixture(scope="module", autouse=True)
def _no_garbage_collection() -> Iterator[None]:
    """All syntax trees are kept, and the collector would look at them again and again: half of the time."""
    gc.disable()
    yield
    gc.enable()


def _source_tree(tmp_path: Path, files: dict[str, str]) -> Path:
    """Write a source tree that looks like the package."""
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.timeout(180)  # some seconds of computing, which can take a minute beside much else
def test_every_package_imports_only_what_its_row_names() -> None:
    assert list(broken_layers(_SOURCE)) == []


@pytest.mark.parametrize("module", PURE)
def test_the_pure_modules_have_no_io_no_clock_and_no_framework(module: str) -> None:
    assert list(impurities(_SOURCE / module, _SOURCE)) == []


def test_the_table_and_the_document_name_the_same_packages() -> None:
    rows = re.findall(r"^\| (`.*?) \|", _DOC.read_text(), flags=re.MULTILINE)
    named = {name.removesuffix(".py").strip("/") for row in rows for name in re.findall(r"`(.*?)`", row)}
    assert named == (MAY_IMPORT.keys() - {"__main__"}) | {COMPOSITION_ROOT}


def test_module_names_are_unique() -> None:
    assert list(repeated_module_names(_SOURCE)) == []


def test_public_class_names_are_unique() -> None:
    assert list(repeated_class_names(_SOURCE)) == []


def test_modules_do_not_import_each_other_in_a_cycle() -> None:
    assert list(import_cycles(_SOURCE)) == []


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
    found = list(broken_layers(_source_tree(tmp_path, {"store/writer.py": line})))
    assert len(found) == 1
    assert re.fullmatch(r"holdfast\.store\.writer:\d+: 'store' may not import 'holdfast\.server.*'", found[0])


def test_the_base_outsiders_and_oneself_may_be_imported(tmp_path: Path) -> None:
    lines = "import sqlite3, holdfast.store\nfrom holdfast import __version__, errors\nfrom holdfast.schema import Run"
    assert list(broken_layers(_source_tree(tmp_path, {"store/writer.py": lines}))) == []


def test_a_package_without_a_row_is_named(tmp_path: Path) -> None:
    assert list(broken_layers(_source_tree(tmp_path, {"misc/things.py": "x = 1"}))) == [
        "holdfast.misc.things: 'misc' has no row in the table; say what it may import"
    ]


def test_only_the_commands_that_start_the_server_may_import_the_composition_root(tmp_path: Path) -> None:
    line = "def start():\n    from holdfast import app"
    commands = dict.fromkeys(
        ("cli/commands/serve.py", "cli/commands/demo.py", "cli/commands/run.py", "tui/main.py"), line
    )
    tree = _source_tree(tmp_path, {"app.py": "import holdfast.server", **commands})
    assert list(broken_layers(tree)) == [
        "holdfast.cli.commands.run:2: 'cli' may not import 'holdfast.app'",
        "holdfast.tui.main:2: 'tui' may not import 'holdfast.app'",
    ]


def test_the_package_itself_names_only_the_interface_for_programs(tmp_path: Path) -> None:
    tree = _source_tree(tmp_path, {"__init__.py": "from holdfast.sdk import Client\nfrom holdfast.store import Store"})
    assert list(broken_layers(tree)) == ["holdfast:2: 'holdfast' may not import 'holdfast.store'"]


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
    tree = _source_tree(tmp_path, {"runs/lane.py": line})
    assert [found.partition(": ")[2] for found in impurities(tree / "runs/lane.py", tree)] == [impurity]


def test_a_repeated_module_name_is_found_in_unrelated_packages_only(tmp_path: Path) -> None:
    names = ("store/sessions.py", "cli/sessions.py", "store/sqlite/sessions.py", "store/protocol.py", "cli/protocol.py")
    tree = _source_tree(tmp_path, dict.fromkeys(names, ""))
    assert list(repeated_module_names(tree)) == [
        "'sessions' is the name of holdfast.cli.sessions and holdfast.store.sessions; rename all but one"
    ]


def test_a_repeated_public_class_name_is_found(tmp_path: Path) -> None:
    text = "class Run: ...\nclass _Private: ..."
    tree = _source_tree(tmp_path, {"schema/runs.py": text, "store/rows.py": text})
    assert list(repeated_class_names(tree)) == [
        "class 'Run' is defined in holdfast.schema.runs and holdfast.store.rows; rename all but one"
    ]


@pytest.mark.parametrize(
    "line",
    [
        "from holdfast.store import rows",
        "def later():\n    from holdfast.store.rows import Row",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import holdfast.store.rows",
    ],
)
def test_an_import_cycle_is_found_however_it_is_written(tmp_path: Path, line: str) -> None:
    files = {"store/rows.py": "import holdfast.store.tables", "store/tables.py": "import holdfast.store.pages"}
    tree = _source_tree(tmp_path, {"store/__init__.py": "", **files, "store/pages.py": line})
    assert list(import_cycles(tree)) == [
        "import cycle: holdfast.store.pages - holdfast.store.rows - holdfast.store.tables"
    ]


def test_an_impurity_is_found_behind_a_module_of_ours(tmp_path: Path) -> None:
    tree = _source_tree(tmp_path, {"schema/__init__.py": "import msgspec", "ids.py": "import time"})
    _source_tree(tree, {"runs/lane.py": "from holdfast.schema import Run"})
    assert list(impurities(tree / "runs/lane.py", tree)) == []
    _source_tree(tree, {"runs/lane.py": "from holdfast.ids import Ids"})
    assert list(impurities(tree / "runs/lane.py", tree)) == ["ids.py:1: imports 'time'"]
