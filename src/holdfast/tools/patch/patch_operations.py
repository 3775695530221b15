"""What a patch is, once it is read. Pure."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import msgspec

HUNK_HEADER = re.compile(r"@@ -(?P<start>\d+)(?:,(?P<old>\d+))? \+\d+(?:,(?P<new>\d+))? @@")
Mark = Literal[" ", "-", "+"]


class HunkLine(msgspec.Struct, frozen=True):
    mark: Mark
    text: str


class Hunk(msgspec.Struct, frozen=True):
    lines: tuple[HunkLine, ...]
    anchors: tuple[str, ...] = ()
    """Lines that stand above it, in order."""
    near: int | None = None
    """The line it starts at, counted from 1, where the patch says so; an insertion follows this line."""
    at_end: bool = False
    final_newline: bool | None = None
    """Whether the file ends in one afterwards; None: as it is."""

    @property
    def old(self) -> list[str]:
        return [line.text for line in self.lines if line.mark != "+"]


class AddFile(msgspec.Struct, frozen=True):
    path: str
    text: str
    executable: bool = False


class DeleteFile(msgspec.Struct, frozen=True):
    path: str


class UpdateFile(msgspec.Struct, frozen=True):
    path: str
    hunks: tuple[Hunk, ...]
    move_to: str | None = None


Operation: TypeAlias = AddFile | DeleteFile | UpdateFile


def hunk_line(line: str) -> HunkLine | None:
    """An empty line is an empty line that stays: many tools drop the blank in front of it."""
    match line[:1]:
        case "":
            return HunkLine(" ", "")
        case " " | "-" | "+" as mark:
            return HunkLine(mark, line[1:])
        case _:
            return None


def without_stray_end(lines: list[HunkLine]) -> list[HunkLine]:
    """Empty lines between a hunk and what follows it are layout, not content."""
    while lines and lines[-1] == HunkLine(" ", ""):
        lines.pop()
    return lines
