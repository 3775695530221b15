"""`multiedit`: several replacements in one file, all or none."""

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
    hidden_paths,
    load_known_file,
    make_draft,
    nothing_changed_on_error,
    plan_unseen,
    plan_writes,
    proposed_diff,
    redacted_errors,
    refuse_masked_search,
    refuse_masks,
    write_drafts,
)
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan
from holdfast.tools.text.text_file import TextFile, encode_text
from holdfast.tools.text.text_replacement import replace_text


class SingleEdit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    old_text: Annotated[str, Meta(description="The exact text to replace.")]
    new_text: Annotated[str, Meta(description="The text to insert instead.")]
    replace_all: Annotated[
        bool, Meta(description="Replace every occurrence. Otherwise old_text must occur exactly once.")
    ] = False


class MultiEditArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="Relative to the workspace, or absolute.")]
    edits: Annotated[
        tuple[SingleEdit, ...],
        Meta(
            min_length=1, max_length=200, description="Applied in this order, each to the result of the previous one."
        ),
    ]


class MultiEditTool:
    name: ClassVar[str] = "multiedit"
    description: ClassVar[str] = (
        "Make several replacements in one file that you have viewed, all or none. The rules of edit apply; "
        "an empty old_text in the first edit creates the file."
    )
    arguments: ClassVar[type[MultiEditArguments]] = MultiEditArguments
    effect: ClassVar[Effect] = "writes"
    parallel: ClassVar[bool] = False

    async def plan(self, arguments: MultiEditArguments, context: ToolContext) -> ToolPlan:
        with nothing_changed_on_error(context):
            if await hidden_paths([arguments.path], context):
                diff = "".join(
                    proposed_diff(arguments.path, old=edit.old_text, new=edit.new_text) for edit in arguments.edits
                )
                return await plan_unseen(self.name, [arguments.path], context, diff=diff)
            draft = await _load_draft(arguments, context)
            return plan_writes(self.name, [draft], context, title=draft.found.name)

    async def run(self, arguments: MultiEditArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        with nothing_changed_on_error(context):
            draft = await _load_draft(arguments, context)
        with redacted_errors(context):
            notes = await write_drafts([draft], context, plan)
        return await edit_output(draft, context, notes)


async def _load_draft(arguments: MultiEditArguments, context: ToolContext) -> FileDraft:
    first, *rest = arguments.edits
    if first.old_text:
        found = await load_known_file(arguments.path, context)
        return await asyncio.to_thread(_make_draft, found, None, arguments.edits, first=1)
    refuse_masks("", first.new_text)
    found = await load_new_file(arguments.path, context)
    return await asyncio.to_thread(_make_draft, found, TextFile(first.new_text), rest, first=2)


def _make_draft(found: LoadedFile, start: TextFile | None, edits: Sequence[SingleEdit], *, first: int) -> FileDraft:
    file = start or found.text()
    text = file.text
    notes = []
    last = first + len(edits) - 1
    for number, edit in enumerate(edits, start=first):
        try:
            refuse_masked_search(text, edit.old_text)
            refuse_masks(edit.old_text, edit.new_text)
            edited = replace_text(text, old=edit.old_text, new=edit.new_text, replace_all=edit.replace_all)
        except ToolError as error:
            raise ToolError(
                f"{found.name!r}: edit {number} of {last}: {error.message}",
                code=error.error_code,
                detail={"edit": number},
            ) from error
        if edited.note:
            notes.append(f"edit {number}: {edited.note}")
        text = edited.text
    return make_draft(
        found, encode_text(text, file.encoding), notes=[f"{last} edits" if last > 1 else "1 edit", *notes]
    )
