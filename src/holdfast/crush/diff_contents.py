"""The two sides of a diff as texts: Crush's client gets whole contents and makes its own diff of them. Pure."""

from __future__ import annotations

import re

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_MAX_PADDING = 20_000
"""Empty lines that stand for the unchanged lines before a hunk, so that line numbers are right."""


def contents_of_diff(diff: str) -> tuple[str, str]:
    """The old and the new text that a unified diff of one file compares. Unchanged lines that it omits are empty."""
    old: list[str] = []
    new: list[str] = []
    inside = False
    for line in diff.splitlines():
        if found := _HUNK.match(line):
            inside = True
            skipped = int(found[1]) - 1 - len(old)
            if 0 < skipped <= _MAX_PADDING and int(found[2]) - 1 - len(new) == skipped:
                old.extend([""] * skipped)
                new.extend([""] * skipped)
        elif not inside or line.startswith("\\"):
            continue
        elif line.startswith("-"):
            old.append(line[1:])
        elif line.startswith("+"):
            new.append(line[1:])
        elif line.startswith((" ", "")) and not line.startswith(("diff ", "--- ", "+++ ")):
            old.append(line[1:])
            new.append(line[1:])
    return _joined(old), _joined(new)


def count_changes(diff: str) -> tuple[int, int]:
    """The added and removed lines of a unified diff."""
    lines = diff.splitlines()
    added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("---") for line in lines)
    return added, removed


def _joined(lines: list[str]) -> str:
    return "\n".join([*lines, ""]) if lines else ""
