"""The cost of covering a command by undo: one look at the tree before it and one after it, and the first look of all.

The tree has 2,000 source files of 4 KB in 100 directories, and an ignored directory. *Bare* is `os.walk` with a `stat`
of every file in the same run, which any tool that looks at the tree pays at least. Rounds alternate; medians are
compared. The aim is 10 ms for both looks together at 2,000 files.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.figures import show

from holdfast.workspace.undo.blob_store import BlobStore
from holdfast.workspace.undo.command_snapshots import CommandSnapshots
from holdfast.workspace.undo.tree_scan import TreeLimits
from tests.support.file_sessions import MemoryRecords

_LIMITS = TreeLimits(names=100_000)


def _make_tree(root: Path, files: int) -> None:
    (root / ".gitignore").parent.mkdir(parents=True)
    (root / ".gitignore").write_text("node_modules/\n*.pyc\n__pycache__/\n/build\n")
    ignored = root / "node_modules"
    ignored.mkdir()
    for number in range(200):
        (ignored / f"{number}.js").write_text("x")
    for number in range(files):
        directory = root / f"package{number // 200}" / f"part{number // 20}"
        if number % 20 == 0:
            directory.mkdir(parents=True)
        (directory / f"module{number % 20}.py").write_text(f"value = {number}\n" * 250)


def _walk(root: Path) -> int:
    seen = 0
    for directory, _, names in os.walk(root):
        for name in names:
            os.lstat(os.path.join(directory, name))
            seen += 1
    return seen


async def _measure(files: int, rounds: int) -> None:
    numbers = count()
    with tempfile.TemporaryDirectory() as base:
        root = Path(base).resolve() / "work"
        await asyncio.to_thread(_make_tree, root, files)
        blobs = BlobStore(Path(base) / "snapshots")
        snapshots = CommandSnapshots(
            root,
            MemoryRecords(),
            blobs,
            workspace_id="wsp_1",
            new_id=lambda prefix: f"{prefix}_{next(numbers)}",
            now=lambda: "",
            redact=str,
        )

        async def cover() -> float:
            began = time.perf_counter()
            call = f"call_{next(numbers)}"
            await snapshots.begin(session_id="ses_1", run_id="run_1", call_id=call, limits=_LIMITS)
            await snapshots.end(call)
            return time.perf_counter() - began

        first = await cover()
        await asyncio.sleep(0.2)  # so that the files of the tree are settled
        await cover()
        bare, unchanged, changed = [], [], []
        for number in range(rounds):
            began = time.perf_counter()
            await asyncio.to_thread(_walk, root)
            bare.append(time.perf_counter() - began)
            unchanged.append(await cover())
            (root / "package0" / "part0" / "module0.py").write_text(f"round {number}\n")
            changed.append(await cover())
        size = sum(path.stat().st_size for path in (Path(base) / "snapshots").rglob("*") if path.is_file())
        one = statistics.median(bare) * 1e3
        most = 10 if files == 2_000 else None
        for name, times in (("unchanged", unchanged), ("one changed", changed)):
            median = statistics.median(times) * 1e3
            show(
                f"looks around a command, {files:,} files, {name}", median, "ms", base=one, base_name="walk", most=most
            )
        show(f"first look, {files:,} files", first * 1e3, "ms", base=one, base_name="walk")
        show(f"stored, {files:,} files", size / 1e6, "MB")
        blobs.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    for files in (200, 2_000, 10_000):
        asyncio.run(_measure(files, arguments.rounds))
