"""The envelope form of a patch as operations on files. Pure; `patch_format` describes it."""

from __future__ import annotations

from holdfast.errors import ToolError
from holdfast.tools.patch.patch_operations import (
    HUNK_HEADER,
    AddFile,
    DeleteFile,
    Hunk,
    HunkLine,
    Operation,
    UpdateFile,
    hunk_line,
    without_stray_end,
)

BEGIN = "*** Begin Patch"
_END = "*** End Patch"
_ADD = "*** Add File: "
_DELETE = "*** Delete File: "
_UPDATE = "*** Update File: "
_MOVE = "*** Move to: "
_END_OF_FILE = "*** End of File"


def parse_envelope(lines: list[str], *, start: int) -> tuple[Operation, ...]:
    """From the line after its beginning. `ToolError` names the line that is not understood."""
    return _Envelope(lines, start).read()


class _Envelope:
    """Reads line by line; a section ends where a line starts with ``***``."""

    def __init__(self, lines: list[str], position: int) -> None:
        self._lines = lines
        self._at = position

    def read(self) -> tuple[Operation, ...]:
        operations: list[Operation] = []
        while (line := self._next()) is not None:
            if line.strip() == _END:
                return tuple(operations)
            if line.strip():
                operations.append(self._operation(line))
        raise ToolError(f"the patch does not end with {_END!r}")

    def _operation(self, line: str) -> Operation:
        if line.startswith(_ADD):
            return self._add(line[len(_ADD) :].strip())
        if line.startswith(_DELETE):
            return DeleteFile(line[len(_DELETE) :].strip())
        if line.startswith(_UPDATE):
            return self._update(line[len(_UPDATE) :].strip())
        raise self._error(line, "expected '*** Add File: …', '*** Update File: …', '*** Delete File: …' or the end")

    def _add(self, path: str) -> AddFile:
        content: list[str] = []
        blank = 0
        while (line := self._peek()) is not None and not line.startswith("*** "):
            self._at += 1
            if not line.strip():
                blank += 1  # content if lines of the file follow, else layout of the patch
            elif line.startswith("+"):
                content += [*[""] * blank, line[1:]]
                blank = 0
            else:
                raise self._error(line, "every line of an added file starts with '+'")
        return AddFile(path, "".join(f"{line}\n" for line in content))

    def _update(self, path: str) -> UpdateFile:
        move_to = None
        if (line := self._peek()) is not None and line.startswith(_MOVE):
            move_to = line[len(_MOVE) :].strip()
            self._at += 1
        hunks = []
        while (line := self._peek()) is not None and not self._section(line):
            hunks.append(self._hunk())
        if not hunks and move_to is None:
            raise ToolError(f"the patch has no hunk for {path!r}")
        return UpdateFile(path, tuple(hunk for hunk in hunks if hunk.lines), move_to)

    def _hunk(self) -> Hunk:
        anchors: list[str] = []
        near = None
        while (line := self._peek()) is not None and line.startswith("@@"):
            if header := HUNK_HEADER.match(line):
                near = int(header["start"])
            elif anchor := _anchor(line):
                anchors.append(anchor)
            self._at += 1
        lines: list[HunkLine] = []
        at_end = False
        while (line := self._peek()) is not None and not line.startswith("@@") and not self._section(line):
            self._at += 1
            if line.strip() == _END_OF_FILE:
                at_end = True
                break
            lines.append(self._hunk_line(line))
        if anchors and not lines:
            raise ToolError(f"the hunk below '@@ {anchors[-1]}' is empty")
        return Hunk(tuple(without_stray_end(lines)), tuple(anchors), near, at_end)

    def _hunk_line(self, line: str) -> HunkLine:
        parsed = hunk_line(line)
        if parsed is None:
            raise self._error(line, "a line of a hunk starts with ' ', '-' or '+'")
        return parsed

    def _section(self, line: str) -> bool:
        return line.startswith("*** ") and line.strip() != _END_OF_FILE

    def _peek(self) -> str | None:
        return self._lines[self._at] if self._at < len(self._lines) else None

    def _next(self) -> str | None:
        line = self._peek()
        self._at += 1
        return line

    def _error(self, line: str, why: str) -> ToolError:
        return ToolError(f"line {self._at} of the patch, {line[:120]!r}: {why}")


def _anchor(line: str) -> str:
    """The text of an ``@@`` line; empty if it only parts hunks."""
    return line.removeprefix("@@").strip().removesuffix("@@").strip()
