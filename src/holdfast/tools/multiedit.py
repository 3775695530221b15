"""`multiedit`: several replacements in one file, all or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from holdfast.errors import ToolError
from holdfast.schema.approvals import Effect
from holdfast.tools.edit import edit_output, load_new_file
from holdfast.tools.files.file_changes import (
    FileDraft,
    LoadedFile,
    load_known_file,
    make_draft,
    plan_writes,
    redacted_errors,
    write_drafts,
)
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan
from holdfast.tools.text.text_file import TextFile, encode_text
from holdfast.tools.text.text_replacement import replace_text


class SingleEdit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    old_text: Annotated[str, Meta(description="The text to replace, exactly.")]
    new_text: Annotated[str, Meta(description="What stands there afterwards.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence; else there must be exactly one.")] = False


class MultiEditArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="Relative to the workspace, or absolute.")]
    edits: Annotated[
        tuple[SingleEdit, ...],
        Meta(min_length=1, max_length=200, description="Done in this order, each on the result of the one before."),
    ]


class MultiEditTool:
    name: ClassVar[str] = "multiedit"
    description: ClassVar[str] = (
        "Make several replacements in one file that you have viewed; if one cannot be made, none is. "
        "Rules as for edit; an empty old_text in the first one creates the file."
    )
    arguments: ClassVar[type[MultiEditArguments]] = MultiEditArguments
    effect: ClassVar[Effect] = "writes"
    parallel: ClassVar[bool] = False

    async def plan(self, arguments: MultiEditArguments, context: ToolContext) -> ToolPlan:
        with redacted_errors(context):
            drafted = await _draft(arguments, context)
            return plan_writes(self.name, [drafted], context, title=drafted.found.name)

    async def run(self, arguments: MultiEditArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        with redacted_errors(context):
            drafted = await _draft(arguments, context)
            notes = await write_drafts([drafted], context, plan)
        return edit_output(drafted, context, notes)


async def _draft(arguments: MultiEditArguments, context: ToolContext) -> FileDraft:
    first, *rest = arguments.edits
    if first.old_text:
        found = await load_known_file(arguments.path, context)
        return await asyncio.to_thread(_edited, found, None, arguments.edits, first=1)
    found = await load_new_file(arguments.path, context)
    return await asyncio.to_thread(_edited, found, TextFile(first.new_text), rest, first=2)


def _edited(found: LoadedFile, start: TextFile | None, edits: Sequence[SingleEdit], *, first: int) -> FileDraft:
    file = start or found.text()
    text = file.text
    notes = []
    last = first + len(edits) - 1
    for number, edit in enumerate(edits, start=first):
        try:
            edited = replace_text(text, old=edit.old_text, new=edit.new_text, replace_all=edit.replace_all)
        except ToolError as error:
            raise ToolError(
                f"{found.name!r}: edit {number} of {last} cannot be made, so none was: {error.message}",
                code=error.error_code,
                detail={"edit": number},
            ) from error
        if edited.note:
            notes.append(f"edit {number}: {edited.note}")
        text = edited.text
    return make_draft(found, encode_text(text, file.encoding), notes=[f"{last} edits", *notes])
