"""``make bench``: run the benchmarks, print one table, and write docs/performance.md and the ratios of this machine.

With ``--check`` nothing is written: the ratios are compared with those in bench/recorded.json, and a ratio that is
more than 15 % worse in each of three runs fails.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast import __version__

ROOT: Final = Path(__file__).parent.parent
RECORDED: Final = ROOT / "bench" / "recorded.json"
PAGE: Final = ROOT / "docs" / "performance.md"
_WORSE: Final = 1.15
_ATTEMPTS: Final = 3


class Figure(msgspec.Struct, frozen=True):
    """A line of a benchmark, as `bench/support/figures.py` writes it."""

    program: str
    name: str
    value: float
    unit: str
    base: float | None = None
    base_name: str = ""
    aim: str = ""
    met: bool | None = None
    more_is_better: bool = False

    @property
    def key(self) -> str:
        return f"{self.program}: {self.name}"

    @property
    def ratio(self) -> float | None:
        return self.value / self.base if self.base else None


def programs(names: Sequence[str] = ()) -> list[Path]:
    found = {path.stem: path for path in sorted((ROOT / "bench").glob("*.py"))}
    unknown = [name for name in names if name not in found]
    if unknown:
        raise SystemExit(f"no such benchmark: {', '.join(unknown)}; there are: {', '.join(found)}")
    return [path for name, path in found.items() if not names or name in names]


def run(path: Path) -> list[Figure]:
    """Run one program, with its output on the terminal; returns its figures."""
    print(f"== {path.relative_to(ROOT)}", flush=True)
    with tempfile.NamedTemporaryFile("r", suffix=".jsonl") as kept:
        environment = {**os.environ, "HOLDFAST_BENCH_FIGURES": kept.name}
        if status := subprocess.run([sys.executable, str(path)], env=environment, check=False).returncode:
            raise SystemExit(f"{path.name} failed with exit status {status}")
        return read_figures(kept.read().splitlines())


def read_figures(lines: Iterable[str]) -> list[Figure]:
    return [msgspec.json.decode(line, type=Figure) for line in lines if line]


def table(figures: Sequence[Figure]) -> list[str]:
    """A Markdown table of all figures."""
    rows = [("figure", "Holdfast", "beside it", "ratio", "aim", "")]
    for figure in figures:
        beside = f"{figure.base_name} {figure.base:,.2f} {figure.unit}" if figure.base is not None else ""
        ratio = f"{figure.ratio:.2f}" if figure.ratio is not None else ""
        met = {True: "met", False: "**missed**", None: ""}[figure.met]
        rows.append((figure.key, f"{figure.value:,.2f} {figure.unit}", beside, ratio, figure.aim, met))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]


def machine() -> list[str]:
    """What was measured where."""
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], check=False, capture_output=True, text=True
    ).stdout.strip()
    return [
        f"- {datetime.now(UTC):%Y-%m-%d}, Holdfast {__version__}" + (f" at {commit}" if commit else ""),
        f"- {_processor()}, {os.cpu_count()} cores; {platform.system()} {platform.release()}",
        f"- Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}",
    ]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def page(figures: Sequence[Figure]) -> str:
    missed = [figure for figure in figures if figure.met is False]
    return "\n".join(
        [
            "# Performance",
            "",
            "Written by `make bench`. Figures stand beside what the least code for the same job needs in the same run",
            "(`bench/*.py` say what that is), because only ratios can be compared between machines. The aims are ours.",
            f"{len(figures)} figures, {len(missed)} of them miss their aim.",
            "",
            *machine(),
            "",
            *table(figures),
            "",
        ]
    )


def recorded_ratios(figures: Sequence[Figure]) -> dict[str, float]:
    return {figure.key: round(figure.ratio, 3) for figure in figures if figure.ratio is not None}


def regressions(figures: Sequence[Figure], recorded: dict[str, float]) -> dict[str, str]:
    """The figures whose ratio is more than 15 % worse than the recorded one, with what was found."""
    found = {}
    for figure in figures:
        before = recorded.get(figure.key)
        if before is None or figure.ratio is None or before <= 0:
            continue
        change = before / figure.ratio if figure.more_is_better else figure.ratio / before
        if change > _WORSE:
            found[figure.key] = f"{figure.ratio:.2f} × instead of {before:.2f} × (+{(change - 1) * 100:.0f} %)"
    return found


def check(paths: Sequence[Path], recorded: dict[str, float]) -> int:
    """Compare with the recorded ratios. What seems worse is measured again, because other load disturbs a run."""
    worse: dict[str, str] = {}
    for path in paths:
        again: dict[str, str] = {}
        for attempt in range(_ATTEMPTS):
            found = regressions(run(path), recorded)
            again = found if attempt == 0 else {key: text for key, text in found.items() if key in again}
            if not again:
                break
        worse |= again
    for key, text in worse.items():
        print(f"worse in {_ATTEMPTS} runs: {key}: {text}")
    print("no ratio is more than 15 % worse than recorded" if not worse else f"{len(worse)} ratios are worse")
    return 1 if worse else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these programs; nothing is written then")
    parser.add_argument("--check", action="store_true", help="compare with the recorded ratios and write nothing")
    arguments = parser.parse_args()
    paths = programs(arguments.names)
    if arguments.check:
        recorded: dict[str, Any] = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
        if not recorded:
            raise SystemExit(f"{RECORDED.relative_to(ROOT)} has no ratios yet; 'make bench' writes them")
        return check(paths, recorded)
    figures = [figure for path in paths for figure in run(path)]
    print("\n".join(["", *table(figures)]))
    if not arguments.names:
        PAGE.write_text(page(figures))
        RECORDED.write_text(json.dumps(recorded_ratios(figures), indent=1, sort_keys=True) + "\n")
        print(f"\nwritten: {PAGE.relative_to(ROOT)}, {RECORDED.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
