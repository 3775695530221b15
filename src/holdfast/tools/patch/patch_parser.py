"""Parsing of patches into operations on files. Pure. Two formats are accepted.

The envelope::

    *** Begin Patch
    *** Update File: src/app.py
    *** Move to: src/main.py          (optional)
    @@ def main():                    (optional: the hunk is below this line; may be repeated)
     a line to keep
    -a line to remove
    +a line to add
    *** End of File                   (optional: the hunk is at the end of the file)
    *** Add File: notes.txt
    +its lines
    *** Delete File: old.txt
    *** End Patch

Unified diffs, as ``diff -u`` and ``git diff`` write them. Their line numbers and counts are only hints; the lines must
match.
"""

from __future__ import annotations

import codecs
import re
from typing import TypeAlias

import msgspec

from holdfast.errors import ToolError
from holdfast.tools.patch.hunks import Hunk, HunkLine

_BEGIN = "*** Begin Patch"
_END = "*** End Patch"
_ADD = "*** Add File: "
_DELETE = "*** Delete File: "
_UPDATE = "*** Update File: "
_MOVE = "*** Move to: "
_END_OF_FILE = "*** End of File"
_NOTHING = "/dev/null"
_GIT_LINE = "diff --git "
_HUNK_HEADER = re.compile(r"@@ -(?P<start>\d+)(?:,(?P<old>\d+))? \+\d+(?:,(?P<new>\d+))? @@")


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


def _parse_hunk_line(line: str) -> HunkLine | None:
    """Parse a line; None if it has no mark. An empty line is a kept empty line, because many tools strip the space."""
    match line[:1]:
        case "":
            return HunkLine(" ", "")
        case " " | "-" | "+" as mark:
            return HunkLine(mark, line[1:])
        case _:
            return None


def _strip_blank_end(lines: list[HunkLine]) -> list[HunkLine]:
    """Drop empty lines at the end of a hunk: they separate it from the next section."""
    while lines and lines[-1] == HunkLine(" ", ""):
        lines.pop()
    return lines


def parse_patch(text: str) -> tuple[Operation, ...]:
    """Return the operations in order. Raises `ToolError` for text that is not a patch."""
    lines = text.replace("\r\n", "\n").strip("\n").split("\n")
    start = next((at for at, line in enumerate(lines) if line.strip() == _BEGIN), None)
    operations = parse_unified(lines) if start is None else _parse_envelope(lines, start=start + 1)
    if not operations:
        raise ToolError(f"the patch names no file; start it with {_BEGIN!r}, or pass a unified diff")
    return operations


def _parse_envelope(lines: list[str], *, start: int) -> tuple[Operation, ...]:
    """Parse from the line after the start marker."""
    return _EnvelopeParser(lines, start).read()


class _EnvelopeParser:
    """Parses line by line. A section ends at a line that starts with ``***``."""

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
        raise ToolError(f"the patch does not end with {_END!r}, so it may be cut off; send it whole, or in parts")

    def _operation(self, line: str) -> Operation:
        if line.startswith(_ADD):
            return self._add(line[len(_ADD) :].strip())
        if line.startswith(_DELETE):
            return DeleteFile(line[len(_DELETE) :].strip())
        if line.startswith(_UPDATE):
            return self._update(line[len(_UPDATE) :].strip())
        raise self._error(
            line, "expected '*** Add File: …', '*** Update File: …', '*** Delete File: …' or '*** End Patch'"
        )

    def _add(self, path: str) -> AddFile:
        content: list[str] = []
        blank = 0
        while (line := self._peek()) is not None and not line.startswith("*** "):
            self._at += 1
            if not line.strip():
                blank += 1  # content only if more lines of the file follow
            elif line.startswith("+"):
                content += [*[""] * blank, line[1:]]
                blank = 0
            else:
                raise self._error(line, "each line of an added file must start with '+'")
        return AddFile(path, "".join(f"{line}\n" for line in content))

    def _update(self, path: str) -> UpdateFile:
        move_to = None
        if (line := self._peek()) is not None and line.startswith(_MOVE):
            move_to = line[len(_MOVE) :].strip()
            self._at += 1
        hunks = []
        while (line := self._peek()) is not None and not self._starts_section(line):
            hunks.append(self._hunk())
        if not hunks and move_to is None:
            raise ToolError(f"the patch has no hunk for {path!r}")
        return UpdateFile(path, tuple(hunk for hunk in hunks if hunk.lines), move_to)

    def _hunk(self) -> Hunk:
        anchors: list[str] = []
        near = None
        while (line := self._peek()) is not None and line.startswith("@@"):
            if header := _HUNK_HEADER.match(line):
                near = int(header["start"])
            elif anchor := _anchor(line):
                anchors.append(anchor)
            self._at += 1
        lines: list[HunkLine] = []
        at_end = False
        while (line := self._peek()) is not None and not line.startswith("@@") and not self._starts_section(line):
            self._at += 1
            if line.strip() == _END_OF_FILE:
                at_end = True
                break
            lines.append(self._hunk_line(line))
        if anchors and not lines:
            raise ToolError(f"the hunk below '@@ {anchors[-1]}' is empty")
        return Hunk(tuple(_strip_blank_end(lines)), tuple(anchors), near, at_end)

    def _hunk_line(self, line: str) -> HunkLine:
        parsed = _parse_hunk_line(line)
        if parsed is None:
            raise self._error(line, "each line of a hunk must start with ' ', '-' or '+'")
        return parsed

    def _starts_section(self, line: str) -> bool:
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
    """Return the text of an ``@@`` line; empty if the line only separates hunks."""
    return line.removeprefix("@@").strip().removesuffix("@@").strip()


def parse_unified(lines: list[str]) -> tuple[Operation, ...]:
    """Parse a unified diff. Lines without meaning, such as a mail header, are skipped."""
    sections = [_FileSection()]
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith(_GIT_LINE):
            sections.append(_FileSection.of_git(line))
        elif line.startswith(("GIT binary patch", "Binary files ")):
            raise ToolError("the patch has binary content; apply_patch changes only text files")
        elif _is_header(lines, at):
            if sections[-1].named:
                sections.append(_FileSection())
            sections[-1].name(_file_name(line), _file_name(lines[at + 1]))
            at += 1
        elif _HUNK_HEADER.match(line):
            if not sections[-1].named:
                raise ToolError(f"line {at + 1} of the patch, {line[:120]!r}: no file is named before this hunk")
            hunk, at = _read_hunk(lines, at)
            sections[-1].hunks.append(hunk)
            continue
        else:
            sections[-1].read_git_header(line)
        at += 1
    return tuple(operation for section in sections if (operation := section.operation()) is not None)


class _FileSection:
    """One file of a unified diff while its lines are parsed."""

    def __init__(self) -> None:
        self.named = False
        self.hunks: list[Hunk] = []
        self._old = self._new = ""
        self._moved_from: str | None = None
        self._created = self._deleted = self._executable = False

    @classmethod
    def of_git(cls, line: str) -> _FileSection:
        """Read both names from git's first line; an empty file has no others."""
        section = cls()
        names = line[len(_GIT_LINE) :]
        half = len(names) // 2
        one, two = names[:half], names[half + 1 :]
        if one.removeprefix("a/") == two.removeprefix("b/"):
            section._old, section._new = one, two
        return section

    def name(self, old: str, new: str) -> None:
        self.named = True
        self._old, self._new = old, new

    def read_git_header(self, line: str) -> None:
        """Read an extended header line of git."""
        if line.startswith(("new file mode ", "deleted file mode ")):
            self._created, self._deleted = line.startswith("new"), line.startswith("deleted")
            self._executable = line.endswith("755")
        elif line.startswith("rename from "):
            self._moved_from = _unquoted(line.removeprefix("rename from "))
        elif line.startswith("rename to "):
            self._new = _unquoted(line.removeprefix("rename to "))
        elif line.startswith(("copy from ", "old mode ")):
            raise ToolError(f"{line!r}: apply_patch cannot copy files or change their mode; use bash")

    def operation(self) -> Operation | None:
        old, new = _without_prefixes(self._old, self._new)
        if self._moved_from is not None:
            return UpdateFile(self._moved_from, tuple(self.hunks), new)
        if not new:
            return None
        if old == _NOTHING or self._created:
            return AddFile(new, self._added_text(), self._executable)
        if new == _NOTHING or self._deleted:
            return DeleteFile(old)
        return UpdateFile(new, tuple(self.hunks)) if self.hunks else None

    def _added_text(self) -> str:
        texts = [line.text for hunk in self.hunks for line in hunk.lines if line.mark == "+"]
        bare = any(hunk.final_newline is False for hunk in self.hunks)
        return "\n".join(texts) + ("" if bare or not texts else "\n")


def _read_hunk(lines: list[str], at: int) -> tuple[Hunk, int]:
    """Return the hunk with its header at ``at``, and the position after it. Counts only resolve ambiguous lines."""
    header = _HUNK_HEADER.match(lines[at])
    assert header is not None
    wanted_old, wanted_new = int(header["old"] or 1), int(header["new"] or 1)
    body: list[HunkLine] = []
    bare: set[str] = set()
    at += 1
    while at < len(lines) and not _ends_hunk(lines, at):
        line = lines[at]
        if line.startswith("\\"):
            bare |= {body[-1].mark} if body else set()
        elif (parsed := _parse_hunk_line(line)) is None:
            break
        else:
            complete = _count(body, " -") >= wanted_old and _count(body, " +") >= wanted_new
            if complete and line in ("", "-- "):  # a separator, or the signature of a mailed patch
                break
            body.append(parsed)
        at += 1
    final = None if not bare else not (bare & {" ", "+"})
    return Hunk(tuple(_strip_blank_end(body)), near=int(header["start"]), final_newline=final), at


def _count(body: list[HunkLine], marks: str) -> int:
    return sum(line.mark in marks for line in body)


def _ends_hunk(lines: list[str], at: int) -> bool:
    line = lines[at]
    return line.startswith(("@@ ", _GIT_LINE)) or _is_header(lines, at)


def _is_header(lines: list[str], at: int) -> bool:
    """Check for two lines that name a file and a hunk after them. A removed ``-- text`` looks like the first line."""
    return (
        lines[at].startswith("--- ")
        and at + 1 < len(lines)
        and lines[at + 1].startswith("+++ ")
        and (at + 2 >= len(lines) or lines[at + 2].startswith("@@ "))
    )


def _file_name(line: str) -> str:
    return _unquoted(line[4:].partition("\t")[0].rstrip())


def _unquoted(name: str) -> str:
    """Decode a name that git has quoted like a C string."""
    if len(name) < 2 or name[0] != '"' or name[-1] != '"':
        return name
    plain, _ = codecs.escape_decode(name[1:-1].encode())
    return str(plain, "utf-8", "replace")


def _without_prefixes(old: str, new: str) -> tuple[str, str]:
    """Strip ``a/`` and ``b/`` where both are present."""
    if old.startswith("a/") and new.startswith("b/"):
        return old[2:], new[2:]
    if old == _NOTHING and new.startswith("b/"):
        return old, new[2:]
    if new == _NOTHING and old.startswith("a/"):
        return old[2:], new
    return old, new
