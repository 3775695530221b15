"""`apply_patch`: changes in several files with one call, all or nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, ClassVar, assert_never

import msgspec
from msgspec import Meta

from holdfast.errors import ToolError
from holdfast.schema.approvals import Effect
from holdfast.tools.files import text_encoding, tool_paths
from holdfast.tools.files.file_changes import (
    Draft,
    Found,
    carry_out,
    check_read,
    clean_errors,
    display_of,
    draft,
    plan_for,
    told,
)
from holdfast.tools.files.file_reading import content_hash, mode_of, read_file
from holdfast.tools.patch.hunks import apply_hunks
from holdfast.tools.patch.operations import AddFile, DeleteFile, Operation, UpdateFile
from holdfast.tools.patch.patch_format import parse_patch
from holdfast.tools.protocol import Context, Output, Plan

_MOST_FILES = 200


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    patch: Annotated[str, Meta(description="From '*** Begin Patch' to '*** End Patch', or a unified diff.")]


class ApplyPatch:
    name: ClassVar[str] = "apply_patch"
    description: ClassVar[str] = (
        "Change several files at once, all or none. Sections between '*** Begin Patch' and '*** End Patch': "
        "'*** Add File: path' with lines '+text'; '*** Delete File: path'; '*** Update File: path' (then "
        "'*** Move to: path' to rename) with hunks: '@@ a line above' where needed, then lines starting with ' ' "
        "(stays), '-' (goes) or '+' (comes). A unified diff works too. View the files first."
    )
    arguments: ClassVar[type[Arguments]] = Arguments
    effect: ClassVar[Effect] = "writes"
    parallel: ClassVar[bool] = False

    async def plan(self, arguments: Arguments, context: Context) -> Plan:
        with clean_errors(context):
            drafts = await _drafts(arguments, context)
            return plan_for(self.name, drafts, context, title=", ".join(one.found.name for one in drafts))

    async def run(self, arguments: Arguments, context: Context, plan: Plan) -> Output:
        with clean_errors(context):
            drafts = await _drafts(arguments, context)
            notes = await carry_out(drafts, context, plan)
        text = "\n".join([*(_line(one) for one in drafts), *notes])
        return Output(told(context, text), display=display_of(drafts, context))


async def _drafts(arguments: Arguments, context: Context) -> list[Draft]:
    tree = await asyncio.to_thread(_patched, arguments.patch, context.workspace)
    for found in tree.found.values():
        await check_read(found, context)
    return await asyncio.to_thread(tree.drafts)


def _patched(patch: str, workspace: Path) -> _Tree:
    operations = parse_patch(patch)
    if len(operations) > _MOST_FILES:
        raise ToolError(f"the patch changes {len(operations)} files; at most {_MOST_FILES} at once")
    tree = _Tree(workspace)
    for operation in operations:
        try:
            tree.apply(operation)
        except ToolError as error:
            raise ToolError(
                f"{operation.path!r}: {error.message} Nothing was changed.", code=error.error_code
            ) from error
    return tree


class _Tree:
    """The touched files as they are, and as they become while the patch is worked through."""

    def __init__(self, workspace: Path) -> None:
        self.found: dict[Path, Found] = {}
        self._workspace = workspace
        self._now: dict[Path, bytes | None] = {}
        self._modes: dict[Path, int] = {}
        self._notes: dict[Path, list[str]] = {}

    def apply(self, operation: Operation) -> None:
        path = self._load(operation.path)
        match operation:
            case AddFile():
                self._must_be_free(path)
                self._now[path] = text_encoding.encode(operation.text, "utf-8")
                if operation.executable:
                    self._modes[path] = 0o755
            case DeleteFile():
                self._content(path)
                self._now[path] = None
            case UpdateFile():
                self._update(path, operation)
            case _:
                assert_never(operation)

    def drafts(self) -> list[Draft]:
        """In the patch's order; what ends as it began is left out."""
        drafts = [
            draft(found, self._now[path], mode=self._modes.get(path), notes=self._notes.get(path, ()))
            for path, found in self.found.items()
            if self._now[path] != found.data
        ]
        if not drafts:
            raise ToolError("the patch changes nothing: the files are already as it would make them")
        return drafts

    def _update(self, path: Path, operation: UpdateFile) -> None:
        file = text_encoding.decode(self._content(path))
        if file is None and operation.hunks:
            raise ToolError("it is a binary file; only text can be patched.", code="binary")
        if file is not None and operation.hunks:
            patched = apply_hunks(file.text, operation.hunks)
            self._now[path] = text_encoding.encode(patched.text, file.encoding)
            self._notes.setdefault(path, []).extend(patched.notes)
        if operation.move_to is not None:
            target = self._load(operation.move_to)
            self._must_be_free(target)
            self._now[target], self._now[path] = self._now[path], None
            if (mode := self._modes.get(path) or mode_of(path)) is not None:
                self._modes[target] = mode

    def _load(self, text: str) -> Path:
        path = tool_paths.resolve(text, self._workspace)
        if path not in self.found:
            data = read_file(path)
            self.found[path] = Found(path, tool_paths.shown(path, self._workspace), data, content_hash(data))
            self._now[path] = data
        return path

    def _content(self, path: Path) -> bytes:
        data = self._now[path]
        if data is None:
            raise tool_paths.missing(path, self._workspace)
        return data

    def _must_be_free(self, path: Path) -> None:
        if self._now[path] is not None:
            raise ToolError(f"{tool_paths.shown(path, self._workspace)!r} exists already; use '*** Update File'.")


def _line(one: Draft) -> str:
    sign = "A" if one.found.data is None else "D" if one.new is None else "M"
    said = f": {'; '.join(one.notes)}" if one.notes else ""
    return f"{sign} {one.found.name} ({one.diff.counts}){said}"
