"""The built page that is checked in belongs to its sources, and is what the server can serve."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "src/holdfast/web/static"
NODE = shutil.which("node")


def files_of(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.skipif(
    NODE is None or not (ROOT / "web/node_modules/esbuild").exists(),
    reason="node or the npm modules are not installed; run 'make web'",
)
def test_building_again_gives_the_same_bytes(tmp_path: Path) -> None:
    build = [str(NODE), "build.mjs", "--out", str(tmp_path / "static")]
    subprocess.run(build, cwd=ROOT / "web", check=True, capture_output=True, timeout=60)
    assert files_of(tmp_path / "static") == files_of(STATIC), "run 'make web' and commit the result"


def test_the_page_loads_only_its_own_files_and_has_no_inline_script_or_style() -> None:
    page = (STATIC / "index.html").read_text()
    named = {name.lstrip("/") for name in re.findall(r'(?:src|href)="([^"]+)"', page)}
    assert named == {name for name in files_of(STATIC) if name != "index.html"}
    assert "<style" not in page
    assert re.findall(r"<script(?![^>]* src=)", page) == []


def test_the_page_is_smaller_than_its_limit() -> None:
    total = sum(len(gzip.compress(content, 9)) for content in files_of(STATIC).values())
    assert total <= 200 * 1024


def test_the_npm_lock_has_hashes_and_no_address() -> None:
    lock = (ROOT / "web/package-lock.json").read_text()
    assert '"integrity": "sha512-' in lock
    assert '"resolved"' not in lock
