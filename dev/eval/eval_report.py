"""The results: a table for people, JSON for programs, and the comparison of two of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import msgspec

FORMAT = 1


class TaskResult(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: str
    solved: bool
    state: str = "completed"
    reason: str = ""
    steps: int = 0
    input: int = 0
    """Tokens, those from a cache included."""
    output: int = 0
    cost: float = 0.0
    """US dollars."""
    seconds: float = 0.0
    check: str = ""
    """What the check says, if the task is not solved."""
    error: str = ""


class EvalTotal(msgspec.Struct, frozen=True, kw_only=True):
    tasks: int
    solved: int
    steps: int
    input: int
    output: int
    cost: float
    seconds: float

    @classmethod
    def of(cls, results: Sequence[TaskResult]) -> Self:
        return cls(
            tasks=len(results),
            solved=sum(result.solved for result in results),
            steps=sum(result.steps for result in results),
            input=sum(result.input for result in results),
            output=sum(result.output for result in results),
            cost=round(sum(result.cost for result in results), 6),
            seconds=round(sum(result.seconds for result in results), 1),
        )


class EvalResults(msgspec.Struct, frozen=True, kw_only=True):
    """What is written as JSON. Within a format, fields are only added."""

    format: int = FORMAT
    model: str
    version: str
    commit: str = ""
    finished_at: str = ""
    tasks: tuple[TaskResult, ...]
    total: EvalTotal


def read_results(data: bytes, *, name: str) -> EvalResults:
    """Raises `ValueError` if the data are not results of this format."""
    try:
        found = msgspec.json.decode(data, type=EvalResults)
    except msgspec.DecodeError as error:
        raise ValueError(f"{name!r} has no results of an evaluation: {error}") from None
    if found.format != FORMAT:
        raise ValueError(f"{name!r} has results of format {found.format}; this program reads format {FORMAT}")
    return found


_HEAD = ("TASK", "KIND", "SOLVED", "STEPS", "IN", "OUT", "COST", "TIME", "")


def table(results: EvalResults) -> str:
    """One line per task, and the total."""
    rows = [_HEAD, *(_row(result) for result in results.tasks)]
    total = results.total
    rows.append(
        (
            *("total", "", f"{total.solved}/{total.tasks}", str(total.steps), _tokens(total.input)),
            *(_tokens(total.output), f"${total.cost:.4f}", f"{total.seconds:.0f} s", ""),
        )
    )
    return f"{results.model}, holdfast {results.version} {results.commit}".rstrip() + "\n" + _align(rows)


def comparison(old: EvalResults, new: EvalResults) -> str:
    """What became better and worse, over the tasks that both have."""
    before = {result.name: result for result in old.tasks}
    pairs = [(before[result.name], result) for result in new.tasks if result.name in before]
    rows: list[tuple[str, ...]] = [("TASK", "SOLVED", "STEPS", "IN", "OUT", "COST", "TIME")]
    for first, second in pairs:
        rows.append((second.name, _change(first, second), *_deltas(first, second)))
    first_total, second_total = EvalTotal.of([pair[0] for pair in pairs]), EvalTotal.of([pair[1] for pair in pairs])
    solved = f"{first_total.solved} → {second_total.solved} of {len(pairs)}"
    rows.append(("total", solved, *_deltas(first_total, second_total)))
    head = (
        f"{old.model}, {old.version} {old.commit}".rstrip() + f"  →  {new.model}, {new.version} {new.commit}".rstrip()
    )
    only = [result.name for result in new.tasks if result.name not in before]
    only += [result.name for result in old.tasks if result.name not in {task.name for task in new.tasks}]
    note = f"\nnot compared, because only one of them has it: {', '.join(only)}" if only else ""
    return f"{head}\n{_align(rows)}{note}"


def _row(result: TaskResult) -> tuple[str, ...]:
    why = "" if result.solved else (result.error or result.check or result.reason)
    state = "" if result.state == "completed" else f"{result.state}: "
    return (
        *(result.name, result.kind, "yes" if result.solved else "no", str(result.steps), _tokens(result.input)),
        *(_tokens(result.output), f"${result.cost:.4f}", f"{result.seconds:.0f} s", one_line(f"{state}{why}")),
    )


def one_line(text: str, *, most: int = 80) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _change(first: TaskResult, second: TaskResult) -> str:
    if first.solved == second.solved:
        return "yes" if second.solved else "no"
    return "SOLVED NOW" if second.solved else "BROKEN NOW"


def _deltas(first: TaskResult | EvalTotal, second: TaskResult | EvalTotal) -> tuple[str, ...]:
    return (
        _delta(first.steps, second.steps, "{:+.0f}"),
        _share(first.input, second.input),
        _share(first.output, second.output),
        _delta(first.cost, second.cost, "{:+.4f}"),
        _delta(first.seconds, second.seconds, "{:+.0f} s"),
    )


def _delta(first: float, second: float, form: str) -> str:
    return form.format(second - first) if round(second - first, 4) else "="


def _share(first: int, second: int) -> str:
    if first == second:
        return "="
    return f"{(second - first) / first * 100:+.0f}%" if first else f"+{_tokens(second)}"


def _tokens(number: int) -> str:
    return f"{number / 1000:.1f}k" if number >= 1000 else str(number)


def _align(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    left = {0, 1, len(rows[0]) - 1} if rows[0][-1] == "" else {0, 1}
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
