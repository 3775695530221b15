"""`apply_patch`: changes in several files with one call, all or nothing."""

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
    clean_text,
    display_drafts,
    make_draft,
    plan_writes,
    redacted_errors,
    require_read,
    write_drafts,
)
from holdfast.tools.patch.hunks import apply_hunks
from holdfast.tools.patch.patch_parser import AddFile, DeleteFile, Operation, UpdateFile, parse_patch
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan
from holdfast.tools.text.text_file import decode_text, encode_text

_MOST_FILES = 200


class ApplyPatchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    patch: Annotated[str, Meta(description="From '*** Begin Patch' to '*** End Patch', or a unified diff.")]


class ApplyPatchTool:
    name: ClassVar[str] = "apply_patch"
    description: ClassVar[str] = (
        "Change several files at once, all or none. Sections between '*** Begin Patch' and '*** End Patch': "
        "'*** Add File: path' with lines '+text'; '*** Delete File: path'; '*** Update File: path' (then "
        "'*** Move to: path' to rename) with hunks: '@@ a line above' where needed, then lines starting with ' ' "
        "(stays), '-' (goes) or '+' (comes). A unified diff works too. View the files first."
    )
    arguments: ClassVar[type[ApplyPatchArguments]] = ApplyPatchArguments
    effect: ClassVar[Effect] = "writes"
    parallel: ClassVar[bool] = False

    async def plan(self, arguments: ApplyPatchArguments, context: ToolContext) -> ToolPlan:
        with redacted_errors(context):
            drafts = await _drafts(arguments, context)
            return plan_writes(self.name, drafts, context, title=", ".join(one.found.name for one in drafts))

    async def run(self, arguments: ApplyPatchArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        with redacted_errors(context):
            drafts = await _drafts(arguments, context)
            notes = await write_drafts(drafts, context, plan)
        text = "\n".join([*(_line(one) for one in drafts), *notes])
        return ToolOutput(clean_text(context, text), display=display_drafts(drafts, context))


async def _drafts(arguments: ApplyPatchArguments, context: ToolContext) -> list[FileDraft]:
    tree = await asyncio.to_thread(_patched, arguments.patch, context.workspace)
    for found in tree.found.values():
        await require_read(found, context)
    return await asyncio.to_thread(tree.drafts)


def _patched(patch: str, workspace: Path) -> _PatchedTree:
    operations = parse_patch(patch)
    if len(operations) > _MOST_FILES:
        raise ToolError(f"the patch changes {len(operations)} files; at most {_MOST_FILES} at once")
    tree = _PatchedTree(workspace)
    for operation in operations:
        try:
            tree.apply(operation)
        except ToolError as error:
            raise ToolError(
                f"{operation.path!r}: {error.message} Nothing was changed.", code=error.error_code
            ) from error
    return tree


class _PatchedTree:
    """The touched files as they are, and as they become while the patch is worked through."""

    def __init__(self, workspace: Path) -> None:
        self.found: dict[Path, LoadedFile] = {}
        self._workspace = workspace
        self._now: dict[Path, bytes | None] = {}
        self._modes: dict[Path, int] = {}
        self._notes: dict[Path, list[str]] = {}

    def apply(self, operation: Operation) -> None:
        path = self._load(operation.path)
        match operation:
            case AddFile():
                self._must_be_free(path)
                self._now[path] = encode_text(operation.text, "utf-8")
                if operation.executable:
                    self._modes[path] = 0o755
            case DeleteFile():
                self._content(path)
                self._now[path] = None
            case UpdateFile():
                self._update(path, operation)
            case _:
                assert_never(operation)

    def drafts(self) -> list[FileDraft]:
        """In the patch's order; what ends as it began is left out."""
        drafts = [
            make_draft(found, self._now[path], mode=self._modes.get(path), notes=self._notes.get(path, ()))
            for path, found in self.found.items()
            if self._now[path] != found.data
        ]
        if not drafts:
            raise ToolError("the patch changes nothing: the files are already as it would make them")
        return drafts

    def _update(self, path: Path, operation: UpdateFile) -> None:
        file = decode_text(self._content(path))
        if file is None and operation.hunks:
            raise ToolError("it is a binary file; only text can be patched.", code="binary")
        if file is not None and operation.hunks:
            patched = apply_hunks(file.text, operation.hunks)
            self._now[path] = encode_text(patched.text, file.encoding)
            self._notes.setdefault(path, []).extend(patched.notes)
        if operation.move_to is not None:
            target = self._load(operation.move_to)
            self._must_be_free(target)
            self._now[target], self._now[path] = self._now[path], None
            if (mode := self._modes.get(path) or mode_of(path)) is not None:
                self._modes[target] = mode

    def _load(self, text: str) -> Path:
        path = resolve_path(text, self._workspace)
        if path not in self.found:
            data = read_file(path)
            self.found[path] = LoadedFile(path, display_path(path, self._workspace), data, content_hash(data))
            self._now[path] = data
        return path

    def _content(self, path: Path) -> bytes:
        data = self._now[path]
        if data is None:
            raise missing_file_error(path, self._workspace)
        return data

    def _must_be_free(self, path: Path) -> None:
        if self._now[path] is not None:
            raise ToolError(f"{display_path(path, self._workspace)!r} exists already; use '*** Update File'.")


def _line(one: FileDraft) -> str:
    sign = "A" if one.found.data is None else "D" if one.new is None else "M"
    said = f": {'; '.join(one.notes)}" if one.notes else ""
    return f"{sign} {one.found.name} ({one.diff.counts}){said}"
