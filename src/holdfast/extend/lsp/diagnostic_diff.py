"""Which diagnostics an edit caused, and how the model is told. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

import msgspec

from holdfast.extend.lsp.protocol_types import Diagnostic
from holdfast.extend.lsp.text_positions import PositionedText

_SEVERITIES = {1: "error", 2: "warning", 3: "information", 4: "hint"}
_MAX_DIFF_LINES = 20_000
"""In longer texts a line stays where it was, instead of being searched."""
MAX_NEW = 20
MAX_OLD = 5


class FileProblem(msgspec.Struct, frozen=True, order=True):
    """A diagnostic for people: with a path, and with line and column counted from 1. Errors sort first."""

    severity: int
    path: str
    line: int
    column: int
    message: str
    source: str = ""
    code: str = ""

    @property
    def identity(self) -> tuple[str, str, str, str, int]:
        """What stays the same when lines above it are added or removed."""
        return self.path, self.source, self.code, self.message, self.severity

    def __str__(self) -> str:
        origin = " ".join(part for part in (self.source, self.code) if part)
        message = " ".join(self.message.split())
        severity = _SEVERITIES.get(self.severity, "problem")
        return f"{self.path}:{self.line}:{self.column}: {severity}: {message}{f' [{origin}]' if origin else ''}"


class ProblemChanges(NamedTuple):
    new: tuple[FileProblem, ...]
    old: tuple[FileProblem, ...]
    """There before, and still there."""
    gone: tuple[FileProblem, ...]


def read_problems(
    diagnostics: Iterable[Diagnostic], *, path: str, text: PositionedText, server: str
) -> tuple[FileProblem, ...]:
    """Return the errors and warnings, without repetitions."""
    found: dict[FileProblem, None] = {}
    for one in diagnostics:
        severity = one.severity or 1
        if severity > 2:
            continue
        start = one.range.start
        problem = FileProblem(
            severity,
            path,
            start.line + 1,
            text.column(start),
            one.text,
            (one.source or server).lower(),
            "" if one.code is None else str(one.code),
        )
        found[problem] = None
    return tuple(sorted(found))


def compare_problems(
    before: Sequence[FileProblem], after: Sequence[FileProblem], *, old_text: str, new_text: str
) -> ProblemChanges:
    """Compare the problems of one file. One that only moved with its line is the same problem."""
    moved = _line_map(old_text.splitlines(), new_text.splitlines())
    unmatched: dict[tuple[str, str, str, str, int], list[FileProblem]] = defaultdict(list)
    for problem in before:
        unmatched[problem.identity].append(problem)
    new, old, rest = [], [], []
    for problem in after:
        same = unmatched[problem.identity]
        found = next((one for one in same if moved.get(one.line, one.line) == problem.line), None)
        if found is None:
            rest.append(problem)
        else:
            same.remove(found)
            old.append(problem)
    for problem in rest:
        if same := unmatched[problem.identity]:
            same.remove(min(same, key=lambda one: abs(moved.get(one.line, one.line) - problem.line)))
            old.append(problem)
        else:
            new.append(problem)
    gone = sorted(problem for same in unmatched.values() for problem in same)
    return ProblemChanges(tuple(new), tuple(sorted(old)), tuple(gone))


def _line_map(before: Sequence[str], after: Sequence[str]) -> dict[int, int]:
    """Map the numbers of unchanged lines, counted from 1, to their new numbers."""
    if max(len(before), len(after)) > _MAX_DIFF_LINES:
        return {}
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return {
        block.a + index + 1: block.b + index + 1
        for block in matcher.get_matching_blocks()
        for index in range(block.size)
    }


def describe_changes(changes: Sequence[ProblemChanges], servers: Sequence[str]) -> str:
    """Return what is added to the result of an edit: new problems first. Empty if there is nothing to tell."""
    new = sorted(problem for one in changes for problem in one.new)
    old = sorted(problem for one in changes for problem in one.old)
    gone = [problem for one in changes for problem in one.gone]
    names = " and ".join(servers)
    lines = []
    if new:
        lines += [f"[{names}: this edit caused {_count(new, 'new problem')}:]", *_listed(new, MAX_NEW)]
    if gone and not new and not old:
        lines.append(f"[{names}: this edit removed {_count(gone, 'problem')}; none is left]")
    elif gone:
        lines.append(f"[{names}: this edit removed {_count(gone, 'problem')}]")
    if old:
        lines += [
            f"[{names}: {_count(old, 'problem')} that {'was' if len(old) == 1 else 'were'} there before:]",
            *_listed(old, MAX_OLD),
        ]
    return "\n".join(lines)


def describe_unknown(problems: Sequence[FileProblem], servers: Sequence[str]) -> str:
    """The same if it is not known which problems the edit caused."""
    if not problems:
        return ""
    names = " and ".join(servers)
    head = f"[{names}: {_count(problems, 'problem')} in the edited files; some may have been there before:]"
    return "\n".join([head, *_listed(sorted(problems), MAX_NEW)])


def list_problems(problems: Sequence[FileProblem], limit: int) -> list[str]:
    return _listed(sorted(problems), limit)


def _listed(problems: Sequence[FileProblem], limit: int) -> list[str]:
    more = len(problems) - limit
    return [*(str(problem) for problem in problems[:limit]), *([f"[… and {more:,} more]"] if more > 0 else [])]


def _count(problems: Sequence[FileProblem], noun: str) -> str:
    return f"{len(problems):,} {noun}{'' if len(problems) == 1 else 's'}"
