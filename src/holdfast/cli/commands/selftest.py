"""`holdfast selftest`: prove the promises on this machine."""

from __future__ import annotations

import argparse
import os
import platform
import random
import signal
import sys
import tempfile
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from holdfast import __version__
from holdfast.cli.argument_parser import Parser
from holdfast.cli.exit_status import CommandError, Exit
from holdfast.cli.formatting import json_text
from holdfast.cli.screen import Style, can_show, is_terminal, one_line
from holdfast.client.server_address import ServerAddress
from holdfast.errors import ConfigError

if TYPE_CHECKING:
    from holdfast.selftest.check_result import CheckResult
    from holdfast.selftest.trial import TrialResult

_SECONDS, _QUICK_SECONDS, _LONG_SECONDS = 50.0, 6.0, 900.0
_REDRAW_SECONDS = 0.1
_TITLE_WIDTH = 52
_ENDED = ("held", "broken", "skipped")


def configure(parser: Parser) -> None:
    parser.explain(
        "Start a server in a temporary home, with a scripted model, and try to break the promises of\n"
        "docs/promises.md: kill -9, races, cut streams, a full disk, a wrong clock. Takes about a minute, needs no\n"
        "key and no network, and leaves no files. Exits with 1 if a promise was broken, and writes a report.",
        examples=(
            ("holdfast selftest", "about a minute"),
            ("holdfast selftest --quick", "one round of each check, about ten seconds"),
            ("holdfast selftest --json", "the result as JSON"),
            (
                "holdfast selftest --server unix:/run/holdfast.sock",
                "on a running server, without the checks that kill it",
            ),
        ),
    )
    duration = parser.add_mutually_exclusive_group()
    duration.add_argument("--quick", action="store_true", help="one round of each check")
    duration.add_argument("--long", action="store_true", help="a quarter of an hour")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--seed", type=int, metavar="N", help="repeat the random choices of an earlier test")
    parser.add_argument("--server", metavar="URL", help="test a running server: unix:/PATH or http://host:port")
    parser.add_argument("--report", metavar="FILE", help="where to write the report if a promise was broken")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import asyncio

    from holdfast.selftest.check_table import CHECKS
    from holdfast.selftest.trial import Trial

    seconds = _QUICK_SECONDS if args.quick else _LONG_SECONDS if args.long else _SECONDS
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(10**9)
    table = LiveTable(sys.stderr if args.json else sys.stdout, silent=args.json)
    trial = Trial(CHECKS, seconds=seconds, seed=seed, on_change=table.show)
    if args.server:
        working = trial.run_on(_address(args.server), token=os.environ.get("HOLDFAST_TOKEN"))
    else:
        working = trial.run()
    try:
        result = asyncio.run(_ended_by_signals(working))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    table.finish()
    report = None if result.held else _write_report(result, args.report)
    if args.json:
        print(json_text({"version": __version__, "held": result.held, "report": report, "result": result}))
    else:
        print("\n" + verdict(result, Style(sys.stdout)))
        for check in result.checks:
            if table.is_live and check.state == "broken":  # its line may be cut
                print(f"  {check.name}: {one_line(check.detail, most=1000)}")
        if report:
            print(f"The report has no secrets; please attach it to an issue: {report}")
    return Exit.COMPLETED if result.held else Exit.FAILED


async def _ended_by_signals(working: Coroutine[Any, Any, TrialResult]) -> TrialResult:
    """SIGTERM and the end of the terminal cancel the trial, as Ctrl-C does: no server and no disk is left behind."""
    import asyncio

    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await working


def _address(text: str) -> ServerAddress:
    try:
        return ServerAddress.parse(text, name="--server")
    except ConfigError as error:
        raise CommandError(str(error), advice="'holdfast status' shows the address", status=Exit.USAGE) from None


def verdict(result: TrialResult, style: Style) -> str:
    """One line: whether all promises held, with the numbers."""
    counts = total_counts(result.checks)
    numbers = ", ".join(
        _counted(counts[what], what) for what in ("prompts", "kills", "cancels", "events") if counts.get(what)
    )
    skipped = sum(check.state == "skipped" for check in result.checks)
    left_out = f", {skipped} left out" if skipped else ""
    broken = sum(check.state == "broken" for check in result.checks)
    tail = f"{numbers}; {result.seconds:.0f} s, seed {result.seed}"
    if broken:
        return style.bad(f"BROKEN: {broken} of {len(result.checks)} checks failed{left_out}.") + f" {tail}"
    held = sum(check.state == "held" for check in result.checks)
    return style.good(f"All promises held: {held} checks{left_out}.") + f" {tail}"


def total_counts(checks: Sequence[CheckResult]) -> dict[str, int]:
    total: dict[str, int] = {}
    for check in checks:
        for what, number in check.counts.items():
            total[what] = total.get(what, 0) + number
    return total


def _counted(number: int, what: str) -> str:
    """``1 kill``, ``2 kills``, ``1 run with one end``."""
    first, *others = what.split(" ")
    if number == 1:
        first = "process" if first == "processes" else first.removesuffix("s")
    return " ".join((f"{number:,}", first, *others))


class LiveTable:
    """One line for each check. On a terminal all lines are drawn again while counts grow; else a line when it ends."""

    def __init__(self, stream: TextIO, *, silent: bool = False) -> None:
        self._stream = stream
        self._silent = silent
        self.is_live = is_terminal(stream) and not silent
        self._style = Style(stream)
        self._drawn = 0
        self._next = 0.0
        self._results: Sequence[CheckResult] = ()
        self._printed: set[str] = set()
        signs = "✓✗•" if can_show(stream, "✓✗•") else "+!-"
        self._marks = {"held": signs[0], "broken": signs[1], "skipped": signs[2], "running": ">", "waiting": " "}

    def show(self, results: Sequence[CheckResult]) -> None:
        self._results = results
        if self.is_live:
            if time.monotonic() >= self._next:
                self._draw()
                self._next = time.monotonic() + _REDRAW_SECONDS
        elif not self._silent:
            for result in results:
                if result.state in _ENDED and result.name not in self._printed:
                    self._printed.add(result.name)
                    print(self.line(result), file=self._stream, flush=True)

    def finish(self) -> None:
        if self.is_live:
            self._draw()

    def line(self, result: CheckResult) -> str:
        counts = ", ".join(_counted(number, what) for what, number in result.counts.items())
        mark = self._marks[result.state]
        shown = f"{mark} {result.title:<{_TITLE_WIDTH}} {result.detail or counts}".rstrip()
        match result.state:
            case "held":
                return self._style.good(mark) + shown[1:]
            case "broken":
                return self._style.bad(shown)
            case "waiting" | "skipped":
                return self._style.dim(shown)
        return self._style.bold(shown)

    def _draw(self) -> None:
        width, height = os.get_terminal_size(self._stream.fileno())
        shown = _most_recent(self._results, height - 1)
        up = f"\r\x1b[{self._drawn}A" if self._drawn else ""
        lines = [self.line(_fitting(result, width)) + "\x1b[K" for result in shown]
        self._stream.write(up + "\n".join(lines) + "\n")
        self._stream.flush()
        self._drawn = len(lines)


def _most_recent(results: Sequence[CheckResult], most: int) -> Sequence[CheckResult]:
    """As many lines as the terminal has, up to the check that runs: a line that scrolled away cannot be drawn again."""
    begun = sum(result.state != "waiting" for result in results)
    start = max(0, min(begun, len(results)) - max(1, most))
    return results[start : start + max(1, most)]


def _fitting(result: CheckResult, width: int) -> CheckResult:
    """A result whose line has at most ``width`` columns; the whole detail is in the report."""
    import msgspec

    space = max(0, width - _TITLE_WIDTH - 4)
    counts: dict[str, int] = {}
    for what, number in result.counts.items():
        if len(", ".join(_counted(n, w) for w, n in {**counts, what: number}.items())) <= space:
            counts[what] = number
    title = result.title[: max(0, width - 3)]
    return msgspec.structs.replace(result, title=title, counts=counts, detail=result.detail[:space])


def _write_report(result: TrialResult, name: str | None) -> str:
    """A text file for an issue. It names no key, and the home directory is shortened."""
    lines = [
        "# Holdfast self-test report",
        "",
        f"version {__version__}, Python {platform.python_version()}, {platform.platform()}, {os.cpu_count()} cores",
        f"seed {result.seed}, {result.seconds:.1f} s",
        "",
        *(f"- {check.state}: {check.name} ({', '.join(check.promises)}) {check.counts}" for check in result.checks),
        "",
        *(f"## {check.name}\n\n{check.detail}\n" for check in result.checks if check.state == "broken"),
        "## The server's log\n",
        "```",
        result.server_log,
        "```",
    ]
    text = "\n".join(lines).replace(str(Path.home()), "~") + "\n"
    if name:
        path = Path(name)
        path.write_text(text)
        return str(path)
    handle, found = tempfile.mkstemp(prefix="holdfast-selftest-", suffix=".md")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    return found
