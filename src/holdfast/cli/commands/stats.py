"""`holdfast stats`: tokens, cost, runs and tools, as bar charts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from holdfast.cli.argument_parser import Parser
from holdfast.cli.argument_values import count
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import Exit
from holdfast.cli.formatting import bar, json_text, short_number, table
from holdfast.cli.screen import Style, can_show, one_line
from holdfast.schema.api.response_bodies import StatsView
from holdfast.schema.usage import ToolRow, UsageRow

_BAR_WIDTH = 28
_MAX_ROWS = 12


def configure(parser: Parser) -> None:
    parser.explain(
        "Show tokens, cost and runs by day and by model, and how often tools were used and failed.",
        examples=(("holdfast stats --days 7", "the last week"),),
    )
    parser.add_argument("--days", type=count, default=30, metavar="N", help="number of days, including today (30)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    today = datetime.now(UTC).date()
    since = today - timedelta(days=args.days - 1)
    with CommandContext() as context:
        found = context.client.stats(since=since.isoformat(), until=today.isoformat())
    if args.json:
        print(json_text(found))
    else:
        chart = StatsChart(Style(sys.stdout), fine=can_show(sys.stdout, "█▏"))
        print("\n".join(chart.draw(found, since=since, until=today)))
    return Exit.COMPLETED


class _Sum(NamedTuple):
    tokens: int = 0
    cost: float = 0.0
    runs: int = 0

    def plus(self, row: UsageRow) -> _Sum:
        return _Sum(self.tokens + row.usage.context, self.cost + row.usage.cost, self.runs + row.runs)


class StatsChart:
    """Draws bars by day, by model and by tool, each group to its own scale."""

    def __init__(self, style: Style, *, fine: bool) -> None:
        self._style = style
        self._fine = fine

    def draw(self, found: StatsView, *, since: date, until: date) -> list[str]:
        total = _total(found.models)
        if not total.runs and not found.tools:
            return [f"no usage from {since} to {until}"]
        facts = (f"{total.runs} runs", f"{short_number(total.tokens)} tokens", f"${total.cost:.2f}")
        lines = [self._style.bold(f"{since} – {until}  ") + " · ".join(facts)]
        lines += self._section("by day", self._days(found.models, since=since, until=until))
        lines += self._section("by model", self._models(found.models))
        return lines + self._section("tools", self._tools(found.tools))

    def _section(self, title: str, lines: list[str]) -> list[str]:
        return ["", self._style.bold(title), *lines] if lines else []

    def _days(self, rows: Iterable[UsageRow], *, since: date, until: date) -> list[str]:
        sums: dict[str, _Sum] = {}
        for row in rows:
            sums[row.day] = sums.get(row.day, _Sum()).plus(row)
        first = min((date.fromisoformat(day) for day in sums), default=until)
        days = [max(first, since) + timedelta(days=number) for number in range((until - max(first, since)).days + 1)]
        return self._usage([(f"{day:%a %d %b}", sums.get(day.isoformat(), _Sum())) for day in days])

    def _models(self, rows: Iterable[UsageRow]) -> list[str]:
        sums: dict[str, _Sum] = {}
        for row in rows:
            sums[row.model] = sums.get(row.model, _Sum()).plus(row)
        ranked = sorted(sums.items(), key=lambda item: item[1].tokens, reverse=True)
        return self._usage([(one_line(model, most=40), used) for model, used in ranked[:_MAX_ROWS]])

    def _usage(self, sums: list[tuple[str, _Sum]]) -> list[str]:
        most = max((used.tokens for _, used in sums), default=0) or 1
        cells = [
            (name, short_number(used.tokens), f"${used.cost:.2f}" if used.cost else "", _count_text(used.runs, "run"))
            for name, used in sums
        ]
        bars = [self._bar(used.tokens / most, "36") for _, used in sums]
        return [f"  {line}" for line in self._with_bars(cells, bars)]

    def _tools(self, rows: Iterable[ToolRow]) -> list[str]:
        calls: dict[str, tuple[int, int]] = {}
        for row in rows:
            before = calls.get(row.tool, (0, 0))
            calls[row.tool] = (before[0] + row.calls, before[1] + row.failed)
        ranked = sorted(calls.items(), key=lambda item: item[1][0], reverse=True)[:_MAX_ROWS]
        most = max((used for _, (used, _) in ranked), default=0) or 1
        cells = [
            (one_line(tool, most=30), _count_text(used, "call"), f"{failed} failed" if failed else "", "")
            for tool, (used, failed) in ranked
        ]
        bars = [self._bar(used / most, "32") for _, (used, _) in ranked]
        return [f"  {line}" for line in self._with_bars(cells, bars)]

    def _with_bars(self, cells: list[tuple[str, str, str, str]], bars: list[str]) -> list[str]:
        """The bar follows the name; the numbers are aligned behind it."""
        names = table([(name, "|") for name, *_ in cells])
        rest = table([row[1:] for row in cells], right=frozenset({0, 1, 2}))
        return [f"{name[:-1]}{line}  {numbers}" for name, line, numbers in zip(names, bars, rest, strict=True)]

    def _bar(self, share: float, colour: str) -> str:
        drawn = bar(share, width=_BAR_WIDTH, fine=self._fine)
        return self._style(colour, drawn) + " " * (_BAR_WIDTH - len(drawn))


def _total(rows: Iterable[UsageRow]) -> _Sum:
    total = _Sum()
    for row in rows:
        total = total.plus(row)
    return total


def _count_text(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}" if number else ""
