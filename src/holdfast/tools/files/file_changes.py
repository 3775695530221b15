"""What all tools that write files share: look, draft, show, check again, write, tell.

A draft is made from the file as it is, twice: for the plan that a person approves, and again when it is carried out.
It is refused if the session has not read the file, or if the file is not what was read or approved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from holdfast.errors import HoldfastError, ToolError
from holdfast.schema.approvals import Subject
from holdfast.schema.base import repair_text
from holdfast.tasks import finish_before_cancel
from holdfast.tools.files import tool_paths
from holdfast.tools.files.file_content import ABSENT, MAX_FILE_BYTES, content_hash, read_file
from holdfast.tools.files.file_transaction import FileChange, FileConflict, apply_changes
from holdfast.tools.protocol import ToolContext, ToolPlan
from holdfast.tools.text import text_diff, text_encoding


class LoadedFile(msgspec.Struct, frozen=True):
    """A file as it is now."""

    path: Path
    name: str
    """As people are shown it."""
    data: bytes | None
    """None: it does not exist."""
    hash: str

    def text(self) -> text_encoding.TextFile:
        """`ToolError` for content that is no text."""
        found = text_encoding.decode_text(self.data or b"")
        if found is None:
            raise ToolError(f"{self.name!r} is a binary file; only text can be edited", code="binary")
        return found


class FileDraft(msgspec.Struct, frozen=True):
    """What a file shall become."""

    found: LoadedFile
    new: bytes | None
    diff: text_diff.TextDiff
    mode: int | None = None
    notes: tuple[str, ...] = ()


async def load_file(text: str, context: ToolContext) -> LoadedFile:
    """Resolve a path as the model gave it, and read what is there."""
    return await asyncio.to_thread(_load_file, text, context.workspace)


def _load_file(text: str, workspace: Path) -> LoadedFile:
    path = tool_paths.resolve_path(text, workspace)
    data = read_file(path)
    return LoadedFile(path, tool_paths.display_path(path, workspace), data, content_hash(data))


async def load_known_file(text: str, context: ToolContext) -> LoadedFile:
    """The same for a file that must be there and that this session must know."""
    found = await load_file(text, context)
    if found.data is None:
        raise await asyncio.to_thread(tool_paths.missing_file_error, found.path, context.workspace)
    await require_read(found, context)
    return found


async def require_read(found: LoadedFile, context: ToolContext) -> None:
    """Read before write: by content, not by time stamps. A file that does not exist hides nothing."""
    if found.data is None:
        return
    known = await context.files.last_read(found.path)
    if known is None:
        raise ToolError(
            f"{found.name!r} exists, but this session has not read it; view it before you change it", code="not_read"
        )
    if known != found.hash:
        raise ToolError(
            f"{found.name!r} changed since this session last read it; view it again before you change it",
            code="file_changed",
        )


def make_draft(
    found: LoadedFile, new: bytes | None, *, mode: int | None = None, notes: Sequence[str] = ()
) -> FileDraft:
    """`ToolError` if the new content is too large."""
    if new is not None and len(new) > MAX_FILE_BYTES:
        raise ToolError(f"{found.name!r} would have {len(new):,} bytes; at most {MAX_FILE_BYTES:,} can be written")
    return FileDraft(found, new, diff_contents(found.name, found.data, new), mode, tuple(notes))


def diff_contents(name: str, old: bytes | None, new: bytes | None) -> text_diff.TextDiff:
    """Of two contents; None means no file."""
    before = None if old is None else text_encoding.decode_text(old)
    after = None if new is None else text_encoding.decode_text(new)
    if (before is None and old is not None) or (after is None and new is not None):
        return text_diff.binary_diff(name, old, new)
    return text_diff.unified_diff(name, before.text if before else None, after.text if after else None)


def plan_writes(tool: str, drafts: Sequence[FileDraft], context: ToolContext, *, title: str) -> ToolPlan:
    subject = Subject(
        tool=tool,
        effect="writes",
        title=clean_text(context, title),
        cwd=str(context.workspace),
        paths=tuple(str(one.found.path) for one in drafts),
    )
    expected = {str(one.found.path): one.found.hash for one in drafts}
    return ToolPlan(subject, display=display_drafts(drafts, context), expected=expected)


def display_drafts(drafts: Sequence[FileDraft], context: ToolContext) -> dict[str, Any]:
    """What people are shown beside the text."""
    files = [
        {
            "path": clean_text(context, one.found.name),
            "change": _kind(one),
            "added": one.diff.added,
            "removed": one.diff.removed,
        }
        for one in drafts
    ]
    return {"diff": clean_text(context, "".join(one.diff.text for one in drafts)), "files": files}


async def write_drafts(drafts: Sequence[FileDraft], context: ToolContext, plan: ToolPlan) -> tuple[str, ...]:
    """Write all of them or none; answers what the model should know besides. A cancel waits for the end of it."""
    now = {str(one.found.path): one.found.hash for one in drafts}
    for path, planned in plan.expected.items():
        if now.get(path) != planned:
            raise FileConflict(
                f"{path!r} changed between the plan and its approval; nothing was written. View it again.",
                detail={"path": path},
            )
    if now.keys() != plan.expected.keys():
        raise FileConflict("a path leads elsewhere than when this was planned; nothing was written. Try again.")
    return await finish_before_cancel(_write_drafts(drafts, context))


async def _write_drafts(drafts: Sequence[FileDraft], context: ToolContext) -> tuple[str, ...]:
    announced: list[FileDraft] = []
    try:
        for one in drafts:
            await context.files.before_write(one.found.path, one.found.data, new=one.new)
            announced.append(one)
        notes = await asyncio.to_thread(apply_changes, [_change(one) for one in drafts])
    except HoldfastError:
        for one in announced:
            await context.files.drop_write(one.found.path)
        raise
    for one in drafts:
        await context.files.after_write(one.found.path, one.new, diff=clean_text(context, one.diff.text))
    return notes


@contextmanager
def cleaned_errors(context: ToolContext) -> Iterator[None]:
    """A refusal quotes the file, so it is a text that leaves the tool."""
    try:
        yield
    except ToolError as error:
        error.message = clean_text(context, error.message)
        error.args = (error.message,)
        raise


def clean_text(context: ToolContext, text: str) -> str:
    """A text as it may leave a tool: encodable, and without secrets."""
    return context.redact(repair_text(text))


def _change(one: FileDraft) -> FileChange:
    return FileChange(one.found.path, one.found.hash, one.new, one.mode)


def _kind(one: FileDraft) -> str:
    if one.found.hash == ABSENT:
        return "created"
    return "deleted" if one.new is None else "modified"
