"""A tool call as an editor shows it: title, kind, status, locations, diffs and output. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, assert_never

from holdfast.client.view_values import CallBlock, CallState, ShellBlock
from holdfast.schema.approvals import Approval
from holdfast.schema.base import Value
from holdfast.schema.messages import File

JsonObject: TypeAlias = dict[str, Any]

_KINDS: Mapping[str, str] = {
    **dict.fromkeys(("view", "ls", "skill", "mcp_resource", "job_output", "diagnostics"), "read"),
    **dict.fromkeys(("grep", "glob", "definition", "references", "symbols", "mcp_search"), "search"),
    **dict.fromkeys(("edit", "multiedit", "write", "apply_patch", "rename"), "edit"),
    **dict.fromkeys(("bash", "job_kill"), "execute"),
    **dict.fromkeys(("fetch", "download", "web_search"), "fetch"),
    **dict.fromkeys(("todos", "agent", "ask"), "think"),
}
_VERBS: Mapping[str, str] = {
    "view": "Read",
    "ls": "List",
    "grep": "Search for",
    "glob": "Find",
    "edit": "Edit",
    "multiedit": "Edit",
    "write": "Write",
    "apply_patch": "Patch",
    "bash": "Run",
    "fetch": "Fetch",
    "download": "Download",
    "web_search": "Search the web for",
    "todos": "Update the plan",
    "agent": "Sub-agent:",
    "ask": "Ask",
}
_LONGEST_TITLE = 200
_LONGEST_OUTPUT = 64_000
"""Characters of an output that an editor gets; `holdfast attach` and the other clients show all of it."""
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
)
_HUNK = re.compile(r"^@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


class FileHunk(Value, frozen=True):
    """One hunk of a diff, with the texts of both sides."""

    path: str
    old: str | None
    """``None``: the file is new."""
    new: str
    line: int
    """The first line of the hunk in the new file."""


def call_fields(block: CallBlock, files: tuple[File, ...], *, directory: str) -> JsonObject:
    """Everything of a call except its id."""
    shown = _shown_name(block.name)
    hunks = list(read_diff(block.display.get("diff")))
    found: JsonObject = {
        "title": _title(shown, block.title),
        "kind": tool_kind(shown),
        "status": call_status(block.state),
        "content": _content(block, hunks, files, directory=directory),
        "locations": _locations(block, hunks, directory=directory),
    }
    if block.arguments:
        found["rawInput"] = block.arguments
    if facts := {name: value for name, value in block.display.items() if name not in ("diff", "tool", "title")}:
        found["rawOutput"] = facts
    return found


def shell_fields(block: ShellBlock) -> JsonObject:
    """A command of the user, run from another client."""
    status = "in_progress" if block.open else "failed" if block.exit_code else "completed"
    return {
        "title": _title("bash", block.command),
        "kind": "execute",
        "status": status,
        "content": _text_content(fenced(block.output)) if block.output else [],
        "locations": [],
        "rawInput": {"command": block.command},
    }


def approval_fields(approval: Approval, *, directory: str) -> JsonObject:
    """The call that an approval is about, with what it would do."""
    shown = _shown_name(approval.tool)
    hunks = list(read_diff(approval.display.get("diff")))
    content = [diff_content(hunk, directory=directory) for hunk in hunks]
    if approval.why and approval.why != approval.title:
        content += _text_content(approval.why)
    paths = dict.fromkeys(hunk.path for hunk in hunks)
    return {
        "toolCallId": approval.call_id,
        "title": _title(shown, approval.title),
        "kind": tool_kind(shown),
        "status": "pending",
        "content": content,
        "locations": [{"path": _absolute(path, directory)} for path in paths],
    }


def tool_kind(name: str) -> str:
    return _KINDS.get(name, "other")


def call_status(state: CallState) -> str:
    match state:
        case "writing" | "waiting":
            return "pending"
        case "running":
            return "in_progress"
        case "ok":
            return "completed"
        case "error" | "denied" | "cancelled" | "unknown":
            return "failed"
        case _ as never:
            assert_never(never)


def read_diff(text: object) -> Iterator[FileHunk]:
    """The hunks of a unified diff as our tools write it. What is not a hunk is left out."""
    if not isinstance(text, str):
        return
    old_name = new_name = ""
    lines: list[str] = []
    line = left_old = left_new = 0
    for row in [*text.splitlines(keepends=True), "@@\n"]:
        is_inside = left_old > 0 or left_new > 0 or row.startswith("\\")
        if not is_inside and lines:
            yield _hunk(old_name, new_name, lines, line)
            lines = []
        if is_inside and row[:1] in (" ", "+", "-", "\\"):
            lines.append(row)
            left_old -= row[0] in " -"
            left_new -= row[0] in " +"
        elif found := _HUNK.match(row):
            left_old, left_new = int(found[1] or 1), int(found[3] or 1)
            line = int(found[2]) or 1
        elif row.startswith("--- "):
            old_name = row[4:].rstrip("\r\n")
        elif row.startswith("+++ "):
            new_name = row[4:].rstrip("\r\n")
        elif lines:  # the diff was cut
            yield _hunk(old_name, new_name, lines, line)
            lines, left_old, left_new = [], 0, 0


def diff_content(hunk: FileHunk, *, directory: str) -> JsonObject:
    found: JsonObject = {"type": "diff", "path": _absolute(hunk.path, directory), "newText": hunk.new}
    if hunk.old is not None:
        found["oldText"] = hunk.old
    return found


def fenced(text: str) -> str:
    """Output as a code block, without escape sequences, at most so long."""
    plain = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    if len(plain) > _LONGEST_OUTPUT:
        half = _LONGEST_OUTPUT // 2
        left_out = len(plain) - 2 * half
        plain = f"{plain[:half]}\n… {left_out:,} characters are not shown …\n{plain[-half:]}"
    runs = [len(run) for run in re.findall(r"`+", plain)]
    fence = "`" * max(3, max(runs, default=0) + 1)
    return f"{fence}\n{plain.rstrip()}\n{fence}"


def _shown_name(name: str) -> str:
    return name or "tool"


def _title(name: str, subject: str) -> str:
    verb = _VERBS.get(name, name)
    whole = " ".join(_ESCAPES.sub("", f"{verb} {subject}").split())
    return whole if len(whole) <= _LONGEST_TITLE else f"{whole[: _LONGEST_TITLE - 1]}…"


def _content(block: CallBlock, hunks: list[FileHunk], files: tuple[File, ...], *, directory: str) -> list[JsonObject]:
    found = [diff_content(hunk, directory=directory) for hunk in hunks]
    if block.output.strip() and not (hunks and block.state == "ok"):
        found += _text_content(fenced(block.output))
    for file in files:
        if file.data is not None and file.media_type.startswith("image/"):
            image = {"type": "image", "data": file.data, "mimeType": file.media_type}
            found.append({"type": "content", "content": image})
    return found


def _text_content(text: str) -> list[JsonObject]:
    return [{"type": "content", "content": {"type": "text", "text": text}}]


def _locations(block: CallBlock, hunks: list[FileHunk], *, directory: str) -> list[JsonObject]:
    if hunks:
        first = {hunk.path: hunk.line for hunk in reversed(hunks)}
        return [{"path": _absolute(path, directory), "line": first[path]} for path in reversed(first)]
    path = block.display.get("path") or block.arguments.get("path")
    if not isinstance(path, str) or not path:
        return []
    line = block.arguments.get("offset")
    named: JsonObject = {"path": _absolute(path, directory)}
    return [{**named, "line": line}] if isinstance(line, int) and line > 0 else [named]


def _absolute(path: str, directory: str) -> str:
    return posixpath.normpath(posixpath.join(directory, path))


def _hunk(old_name: str, new_name: str, rows: list[str], line: int) -> FileHunk:
    old: list[str] = []
    new: list[str] = []
    last: list[list[str]] = []
    for row in rows:
        mark, text = row[0], row[1:]
        if mark == "\\":  # the line before has no end
            for side in last:
                side[-1] = side[-1].removesuffix("\n").removesuffix("\r")
            continue
        last = [side for side, marks in ((old, " -"), (new, " +")) if mark in marks]
        for side in last:
            side.append(text)
    name = new_name if new_name != "/dev/null" else old_name
    return FileHunk(
        name[2:] if name.startswith(("a/", "b/")) else name,
        None if old_name == "/dev/null" else "".join(old),
        "".join(new),
        line,
    )
