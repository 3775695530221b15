"""`apply_patch`: change several files with one patch, all or none."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, ClassVar, assert_never

import msgspec
from msgspec import Meta

from holdfast.errors import ToolError
from holdfast.schema.approvals import Effect
from holdfast.tools.files.file_access import (
    content_hash,
    display_path,
    missing_file_error,
    mode_of,
    read_file,
    resolve_path,
)
from holdfast.tools.files.file_changes import (
    FileDraft,
    LoadedFile,
    binary_file_error,
    clean_text,
    display_drafts,
    hidden_paths,
    load_saved_file,
    make_draft,
    nothing_changed_on_error,
    plan_unseen,
    plan_writes,
    redacted_errors,
    refuse_masks,
    require_read,
    show_changes,
    write_drafts,
)
from holdfast.tools.patch.hunks import apply_hunks
from holdfast.tools.patch.patch_parser import AddFile, DeleteFile, Operation, UpdateFile, parse_patch
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan
from holdfast.tools.text.text_file import decode_text, encode_text

_MAX_FILES = 200
_MAX_CHARS_SHOWN = 8_000
"""Characters of changed lines after which further files are only named."""


class ApplyPatchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    patch: Annotated[str, Meta(description="Text from '*** Begin Patch' to '*** End Patch', or a unified diff.")]


class ApplyPatchTool:
    name: ClassVar[str] = "apply_patch"
    description: ClassVar[str] = (
        "Change several files at once, all or none. Sections between '*** Begin Patch' and '*** End Patch': "
        "'*** Add File: path' with lines '+text'; '*** Delete File: path'; '*** Update File: path' (then "
        "'*** Move to: path' to rename) with hunks: '@@ a line above' if needed, then lines that start with ' ' "
        "(keep), '-' (remove) or '+' (add). A unified diff is accepted too. View the files first."
    )
    arguments: ClassVar[type[ApplyPatchArguments]] = ApplyPatchArguments
    effect: ClassVar[Effect] = "writes"
    parallel: ClassVar[bool] = False

    async def plan(self, arguments: ApplyPatchArguments, context: ToolContext) -> ToolPlan:
        with nothing_changed_on_error(context):
            named = await asyncio.to_thread(_named_paths, arguments.patch)
            if await hidden_paths(named, context):
                return await plan_unseen(self.name, named, context, diff=arguments.patch)
            drafts = await _load_drafts(arguments, context)
            return plan_writes(self.name, drafts, context, title=", ".join(one.found.name for one in drafts))

    async def run(self, arguments: ApplyPatchArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        with nothing_changed_on_error(context):
            drafts = await _load_drafts(arguments, context)
        with redacted_errors(context):
            notes = await write_drafts(drafts, context, plan)
        text = await asyncio.to_thread(_describe_all, drafts, context)
        return ToolOutput(clean_text(context, "\n".join([*text, *notes])), display=display_drafts(drafts, context))


async def _load_drafts(arguments: ApplyPatchArguments, context: ToolContext) -> list[FileDraft]:
    if context.editor is not None:
        for path in await asyncio.to_thread(_named_paths, arguments.patch):
            await load_saved_file(path, context)
    tree = await asyncio.to_thread(_apply_operations, arguments.patch, context.workspace)
    for found in tree.found.values():
        await require_read(found, context)
    return await asyncio.to_thread(tree.drafts)


def _named_paths(patch: str) -> list[str]:
    """The paths of a patch as it names them."""
    paths: dict[str, None] = {}
    for operation in parse_patch(patch)[:_MAX_FILES]:
        paths[operation.path] = None
        if isinstance(operation, UpdateFile) and operation.move_to is not None:
            paths[operation.move_to] = None
    return list(paths)


def _apply_operations(patch: str, workspace: Path) -> _PatchedTree:
    operations = parse_patch(patch)
    if len(operations) > _MAX_FILES:
        raise ToolError(f"the patch changes {len(operations)} files; the limit is {_MAX_FILES}")
    tree = _PatchedTree(workspace)
    for operation in operations:
        try:
            tree.apply(operation)
        except ToolError as error:
            name = "" if error.message.startswith(repr(operation.path)) else f"{operation.path!r}: "
            raise ToolError(f"{name}{error.message}", code=error.error_code) from error
    return tree


class _PatchedTree:
    """The files of a patch, with their current contents and their contents after the operations so far."""

    def __init__(self, workspace: Path) -> None:
        self.found: dict[Path, LoadedFile] = {}
        self._workspace = workspace
        self._contents: dict[Path, bytes | None] = {}
        self._modes: dict[Path, int] = {}
        self._notes: dict[Path, list[str]] = {}

    def apply(self, operation: Operation) -> None:
        path = self._load(operation.path)
        match operation:
            case AddFile():
                self._check_absent(path)
                refuse_masks("", operation.text)
                self._contents[path] = encode_text(operation.text, "utf-8")
                if operation.executable:
                    self._modes[path] = 0o755
            case DeleteFile():
                self._content(path)
                self._contents[path] = None
            case UpdateFile():
                self._update(path, operation)
            case _:
                assert_never(operation)

    def drafts(self) -> list[FileDraft]:
        """Return drafts in the order of the patch, without files that do not change."""
        drafts = [
            make_draft(found, self._contents[path], mode=self._modes.get(path), notes=self._notes.get(path, ()))
            for path, found in self.found.items()
            if self._contents[path] != found.data
        ]
        if not drafts:
            raise ToolError("the patch changes nothing; the files already have the new content")
        return drafts

    def _update(self, path: Path, operation: UpdateFile) -> None:
        file = decode_text(self._content(path))
        if file is None and operation.hunks:
            raise binary_file_error(display_path(path, self._workspace), self._content(path))
        if file is not None and operation.hunks:
            patched = apply_hunks(file.text, operation.hunks)
            refuse_masks(file.text, patched.text)
            self._contents[path] = encode_text(patched.text, file.encoding)
            self._notes.setdefault(path, []).extend(patched.notes)
        if operation.move_to is not None:
            target = self._load(operation.move_to)
            self._check_absent(target)
            self._contents[target], self._contents[path] = self._contents[path], None
            if (mode := self._modes.get(path) or mode_of(path)) is not None:
                self._modes[target] = mode

    def _load(self, text: str) -> Path:
        path = resolve_path(text, self._workspace)
        if path not in self.found:
            data = read_file(path)
            self.found[path] = LoadedFile(path, display_path(path, self._workspace), data, content_hash(data))
            self._contents[path] = data
        return path

    def _content(self, path: Path) -> bytes:
        data = self._contents[path]
        if data is None:
            raise missing_file_error(path, self._workspace)
        return data

    def _check_absent(self, path: Path) -> None:
        if self._contents[path] is not None:
            raise ToolError(f"{display_path(path, self._workspace)!r} already exists; use '*** Update File'")


def _describe_all(drafts: list[FileDraft], context: ToolContext) -> list[str]:
    """Describe the changes of all files, with the changed lines as far as they fit."""
    text: list[str] = []
    shown = 0
    for one in drafts:
        text.append(_describe(one))
        if shown < _MAX_CHARS_SHOWN and (lines := show_changes(one, context)):
            text.append(lines)
            shown += len(lines)
    return text


def _describe(one: FileDraft) -> str:
    sign = "A" if one.found.data is None else "D" if one.new is None else "M"
    notes = f": {'; '.join(one.notes)}" if one.notes else ""
    return f"{sign} {one.found.name} ({one.diff.counts}){notes}"
