"""Unified diffs as operations on files. Pure."""

from __future__ import annotations

import codecs

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

_NOTHING = "/dev/null"
_GIT_LINE = "diff --git "


def parse_unified(lines: list[str]) -> tuple[Operation, ...]:
    """`ToolError` for binary patches and hunks of no file. Lines that say nothing of a file are skipped."""
    sections = [_Section()]
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith(_GIT_LINE):
            sections.append(_Section.of_git(line))
        elif line.startswith(("GIT binary patch", "Binary files ")):
            raise ToolError("the patch has binary content; apply_patch changes text only")
        elif _is_header(lines, at):
            if sections[-1].named:
                sections.append(_Section())
            sections[-1].name(_file_name(line), _file_name(lines[at + 1]))
            at += 1
        elif HUNK_HEADER.match(line):
            if not sections[-1].named:
                raise ToolError(f"line {at + 1} of the patch, {line[:120]!r}: no file was named before this hunk")
            hunk, at = _read_hunk(lines, at)
            sections[-1].hunks.append(hunk)
            continue
        else:
            sections[-1].extended(line)
        at += 1
    return tuple(operation for section in sections if (operation := section.operation()) is not None)


class _Section:
    """What is known of one file while its lines are read."""

    def __init__(self) -> None:
        self.named = False
        self.hunks: list[Hunk] = []
        self._old = self._new = ""
        self._moved_from: str | None = None
        self._created = self._deleted = self._executable = False

    @classmethod
    def of_git(cls, line: str) -> _Section:
        """Git's first line has both names, which is all there is for empty files."""
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

    def extended(self, line: str) -> None:
        """Git's own lines between the names and the hunks."""
        if line.startswith(("new file mode ", "deleted file mode ")):
            self._created, self._deleted = line.startswith("new"), line.startswith("deleted")
            self._executable = line.endswith("755")
        elif line.startswith("rename from "):
            self._moved_from = _unquoted(line.removeprefix("rename from "))
        elif line.startswith("rename to "):
            self._new = _unquoted(line.removeprefix("rename to "))
        elif line.startswith(("copy from ", "old mode ")):
            raise ToolError(f"{line!r}: apply_patch neither copies files nor changes their mode; use bash")

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
    """The hunk whose header stands at ``at``, and where it ends. Counts only decide what could be either."""
    header = HUNK_HEADER.match(lines[at])
    assert header is not None
    wanted_old, wanted_new = int(header["old"] or 1), int(header["new"] or 1)
    body: list[HunkLine] = []
    bare: set[str] = set()
    at += 1
    while at < len(lines) and not _ends_hunk(lines, at):
        line = lines[at]
        if line.startswith("\\"):
            bare |= {body[-1].mark} if body else set()
        elif (parsed := hunk_line(line)) is None:
            break
        else:
            complete = _count(body, " -") >= wanted_old and _count(body, " +") >= wanted_new
            if complete and line in ("", "-- "):  # layout, or the signature of a mailed patch
                break
            body.append(parsed)
        at += 1
    final = None if not bare else not (bare & {" ", "+"})
    return Hunk(tuple(without_stray_end(body)), near=int(header["start"]), final_newline=final), at


def _count(body: list[HunkLine], marks: str) -> int:
    return sum(line.mark in marks for line in body)


def _ends_hunk(lines: list[str], at: int) -> bool:
    line = lines[at]
    return line.startswith(("@@ ", _GIT_LINE)) or _is_header(lines, at)


def _is_header(lines: list[str], at: int) -> bool:
    """Two lines that name a file, with a hunk after them: a removed ``-- text`` looks like the first of them."""
    return (
        lines[at].startswith("--- ")
        and at + 1 < len(lines)
        and lines[at + 1].startswith("+++ ")
        and (at + 2 >= len(lines) or lines[at + 2].startswith("@@ "))
    )


def _file_name(line: str) -> str:
    return _unquoted(line[4:].partition("\t")[0].rstrip())


def _unquoted(name: str) -> str:
    """Git quotes names with unusual characters as C does."""
    if len(name) < 2 or name[0] != '"' or name[-1] != '"':
        return name
    plain, _ = codecs.escape_decode(name[1:-1].encode())
    return str(plain, "utf-8", "replace")


def _without_prefixes(old: str, new: str) -> tuple[str, str]:
    """``a/`` and ``b/`` are no directories where both stand."""
    if old.startswith("a/") and new.startswith("b/"):
        return old[2:], new[2:]
    if old == _NOTHING and new.startswith("b/"):
        return old, new[2:]
    if new == _NOTHING and old.startswith("a/"):
        return old[2:], new
    return old, new
