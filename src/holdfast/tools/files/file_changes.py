"""Drafts of file changes, shared by all tools that write files: load, draft, plan, check, write, record.

A draft is made twice: for the plan that is approved, and again when the call runs. It fails if the session has not read
the file, or if the file has changed since it was read or approved.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from holdfast.config.redaction import MARK
from holdfast.errors import HoldfastError, ToolError
from holdfast.schema.approvals import Subject
from holdfast.schema.base import repair_text
from holdfast.tasks import finish_before_cancel
from holdfast.tools.files.editor_files import suits_editor, unsaved_content, unsaved_error, write_through_editor
from holdfast.tools.files.file_access import (
    ABSENT,
    MAX_FILE_BYTES,
    content_hash,
    display_path,
    missing_file_error,
    read_file,
    resolve_path,
)
from holdfast.tools.files.file_transaction import NOTHING_CHANGED, FileConflict, FileWrite, write_files
from holdfast.tools.protocol import ToolContext, ToolPlan
from holdfast.tools.text.changed_lines import changed_lines
from holdfast.tools.text.text_diff import TextDiff, binary_diff, unified_diff
from holdfast.tools.text.text_file import TextFile, decode_text

_UNSEEN = "unseen"
"""The planned hash of a file that was not looked at before the approval."""


class LoadedFile(msgspec.Struct, frozen=True):
    """A file and its current content."""

    path: Path
    name: str
    """The path for display."""
    data: bytes | None
    """None if the file does not exist."""
    hash: str
    saved_hash: str | None = None
    """The hash of the content on the disk, if `data` is the text of the user's editor and not saved."""

    def text(self) -> TextFile:
        """Decode the content. Raises `ToolError` if it is binary."""
        found = decode_text(self.data or b"")
        if found is None:
            raise binary_file_error(self.name, self.data or b"")
        return found


def binary_file_error(name: str, data: bytes) -> ToolError:
    """Return the error for a file that is not text. All file tools use the same words."""
    return ToolError(
        f"{name!r} is a binary file (size: {len(data):,}); the file tools read and change only text; use bash",
        code="binary",
    )


class FileDraft(msgspec.Struct, frozen=True):
    """A file and its planned content."""

    found: LoadedFile
    new: bytes | None
    diff: TextDiff
    mode: int | None = None
    notes: tuple[str, ...] = ()


async def load_file(text: str, context: ToolContext) -> LoadedFile:
    """Resolve a path from the model and read the file, if it exists; as the user's editor has it, if that can write.

    Raises `ToolError` if the editor has changes that are not saved, and cannot write.
    """
    found = await asyncio.to_thread(_load_file, text, context.workspace)
    unsaved = await find_unsaved(found, context)
    if unsaved is None:
        return found
    if found.data is None or context.editor is None or not context.editor.can_write:
        raise unsaved_error(found.name)
    return unsaved


async def find_unsaved(found: LoadedFile, context: ToolContext) -> LoadedFile | None:
    """Return the file as the user's editor has it, if it has changes that are not saved."""
    if context.editor is None:
        return None
    file = await asyncio.to_thread(decode_text, found.data or b"")
    texts = () if file is None else await context.editor.unsaved(found.path, file.text)
    if file is None or not texts:
        return None
    data = unsaved_content(file, texts, name=found.name)
    return LoadedFile(found.path, found.name, data, content_hash(data), found.hash)


async def load_saved_file(text: str, context: ToolContext) -> LoadedFile:
    """Load a file as it is on the disk. Raises `ToolError` if the user's editor has changes that are not saved."""
    found = await asyncio.to_thread(_load_file, text, context.workspace)
    if await find_unsaved(found, context) is not None:
        raise unsaved_error(found.name)
    return found


def _load_file(text: str, workspace: Path) -> LoadedFile:
    path = resolve_path(text, workspace)
    data = read_file(path)
    return LoadedFile(path, display_path(path, workspace), data, content_hash(data))


async def load_known_file(text: str, context: ToolContext) -> LoadedFile:
    """Load a file that must exist and that this session must have read."""
    found = await load_file(text, context)
    if found.data is None:
        raise await asyncio.to_thread(missing_file_error, found.path, context.workspace)
    await require_read(found, context)
    return found


async def require_read(found: LoadedFile, context: ToolContext) -> None:
    """Check that the session has read the current content. Contents are compared, not time stamps."""
    if found.data is None:
        return
    known = await context.files.last_read(found.path)
    if known is None and await asyncio.to_thread(decode_text, found.data) is None:
        raise binary_file_error(found.name, found.data)
    if known is None:
        raise ToolError(
            f"{found.name!r} exists, but you have not read it; view it before you change it",
            code="not_read",
        )
    if known != found.hash:
        raise ToolError(
            f"{found.name!r} has changed since you last read it; view it again before you change it",
            code="file_changed",
        )


def make_draft(
    found: LoadedFile, new: bytes | None, *, mode: int | None = None, notes: Sequence[str] = ()
) -> FileDraft:
    """Draft a new content; None deletes the file. Raises `ToolError` if the content is too large."""
    if new is not None and len(new) > MAX_FILE_BYTES:
        raise ToolError(f"{found.name!r} would have {len(new):,} bytes; the limit is {MAX_FILE_BYTES:,}")
    return FileDraft(found, new, diff_contents(found.name, found.data, new), mode, tuple(notes))


def refuse_masks(old: str, new: str) -> None:
    """Raise `ToolError` if a new text has more masks than the old one: they would replace real values."""
    if new.count(MARK) > old.count(MARK):
        raise ToolError(
            f"the new text contains {MARK!r}, which stands for a secret that you cannot see; writing it would destroy "
            "the real value. Change other parts of the file with edit and leave the lines with secrets out, or ask the "
            "user to change them",
            code="masked_text",
        )


def refuse_masked_search(text: str, wanted: str) -> None:
    """Raise `ToolError` if a text to find contains a mask, unless the file really has it."""
    if MARK in wanted and wanted not in text:
        raise ToolError(
            f"old_text contains {MARK!r}, which stands for a secret that you cannot see; "
            "use an old_text without the part that is masked",
            code="masked_text",
        )


def diff_contents(name: str, old: bytes | None, new: bytes | None) -> TextDiff:
    """Return the diff of two contents; None means that the file does not exist."""
    before = None if old is None else decode_text(old)
    after = None if new is None else decode_text(new)
    if (before is None and old is not None) or (after is None and new is not None):
        return binary_diff(name, old, new)
    return unified_diff(name, before.text if before else None, after.text if after else None)


def show_changes(draft: FileDraft, context: ToolContext) -> str:
    """Return the changed lines of an edited file as `view` numbers them; empty for a new, deleted or binary file."""
    before = decode_text(draft.found.data) if draft.found.data is not None else None
    after = decode_text(draft.new) if draft.new is not None else None
    if before is None or after is None:
        return ""
    # The whole texts are masked, because a secret can have several lines.
    return changed_lines(clean_text(context, before.text), clean_text(context, after.text))


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


async def hidden_paths(texts: Iterable[str], context: ToolContext) -> dict[str, Path]:
    """Return the paths outside the workspace that the session has not read, by how the model wrote them.

    Before such a path is approved, nothing about it is told: not whether it exists, what it is, or what is beside it.
    """
    found = {}
    for text in texts:
        path = await asyncio.to_thread(resolve_path, text, context.workspace)
        if not path.is_relative_to(context.workspace) and await context.files.last_read(path) is None:
            found[text] = path
    return found


async def plan_unseen(
    tool: str, texts: Sequence[str], context: ToolContext, *, diff: str, url: str | None = None
) -> ToolPlan:
    """Plan a write without looking at the files. What `run` finds is told after the approval."""
    paths = [await asyncio.to_thread(resolve_path, text, context.workspace) for text in texts]
    shown = await asyncio.to_thread(_unresolved, texts, context.workspace)
    title = clean_text(context, ", ".join(f"{url} → {path}" if url else path for path in shown))
    named = tuple(str(path) for path in paths)
    subject = Subject(tool=tool, effect="writes", title=title, cwd=str(context.workspace), paths=named, url=url)
    display = {"diff": clean_text(context, diff), "files": [{"path": clean_text(context, path)} for path in shown]}
    return ToolPlan(subject, display=display, expected=dict.fromkeys(named, _UNSEEN))


def _unresolved(texts: Sequence[str], workspace: Path) -> list[str]:
    """The absolute paths without links resolved: where a link outside leads is not told either."""
    return [os.path.abspath(workspace / os.path.expanduser(text)) for text in texts]


def proposed_diff(path: str, *, old: str, new: str) -> str:
    """The texts of a call as a diff, for a file that was not looked at."""
    removed = "".join(f"-{line}\n" for line in old.splitlines())
    added = "".join(f"+{line}\n" for line in new.splitlines())
    return f"--- {path}\n+++ {path}\n{removed}{added}"


def display_drafts(drafts: Sequence[FileDraft], context: ToolContext) -> dict[str, Any]:
    """Return the diff and the changed files for clients to display."""
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
    """Write all drafts or none. Returns notes for the model. A cancel is raised after the write."""
    now = {str(one.found.path): one.found.hash for one in drafts}
    for path, planned in plan.expected.items():
        if now.get(path) != planned and not (planned == _UNSEEN and path in now):
            raise FileConflict(
                f"{path!r} changed after this call was planned; view it again\n{NOTHING_CHANGED}",
                detail={"path": path},
            )
    if now.keys() != plan.expected.keys():
        raise FileConflict(f"a path now leads to another file than in the plan; try again\n{NOTHING_CHANGED}")
    return await finish_before_cancel(_write_drafts(drafts, context))


async def _write_drafts(drafts: Sequence[FileDraft], context: ToolContext) -> tuple[str, ...]:
    announced: list[FileDraft] = []
    try:
        for one in drafts:
            await context.files.before_write(one.found.path, one.found.data, new=one.new)
            announced.append(one)
        written, notes = await _write_contents(drafts, context)
    except HoldfastError:
        for one in announced:
            await context.files.drop_write(one.found.path)
        raise
    for one in written:
        await context.files.after_write(one.found.path, one.new, diff=clean_text(context, one.diff.text))
    return notes


async def _write_contents(
    drafts: Sequence[FileDraft], context: ToolContext
) -> tuple[Sequence[FileDraft], tuple[str, ...]]:
    """Write one file through the user's editor if it does that, else all files ourselves. Returns what was written."""
    changes, first = [_change(one) for one in drafts], drafts[0]
    editor = context.editor if len(drafts) == 1 else None
    if editor is not None and editor.can_write and await asyncio.to_thread(suits_editor, changes[0]):
        done = await write_through_editor(changes[0], editor, is_unsaved=first.found.saved_hash is not None)
        return [make_draft(first.found, done.content, notes=first.notes)], done.notes
    for one in drafts:
        if one.found.saved_hash is not None:
            raise unsaved_error(one.found.name)
    return drafts, await asyncio.to_thread(write_files, changes)


@contextmanager
def redacted_errors(context: ToolContext) -> Iterator[None]:
    """Redact the messages of errors, which can quote the file."""
    try:
        yield
    except ToolError as error:
        _set_message(error, clean_text(context, error.message))
        raise


@contextmanager
def nothing_changed_on_error(context: ToolContext) -> Iterator[None]:
    """Redact the messages of errors, and add that nothing was changed. For code that writes nothing."""
    try:
        yield
    except ToolError as error:
        _set_message(error, f"{clean_text(context, error.message)}\n{NOTHING_CHANGED}")
        raise


def _set_message(error: ToolError, message: str) -> None:
    error.message = message
    error.args = (message,)


def clean_text(context: ToolContext, text: str) -> str:
    """Repair invalid characters and remove known secrets. Every text that leaves a tool passes through this."""
    return context.redact(repair_text(text))


def _change(one: FileDraft) -> FileWrite:
    return FileWrite(one.found.path, one.found.saved_hash or one.found.hash, one.new, one.mode)


def _kind(one: FileDraft) -> str:
    if one.found.hash == ABSENT:
        return "created"
    return "deleted" if one.new is None else "modified"
