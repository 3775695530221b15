"""`edit`: one exact replacement in a file, or a new file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from holdfast.errors import ToolError
from holdfast.schema.approvals import Effect
from holdfast.tools.files.file_changes import (
    FileDraft,
    LoadedFile,
    clean_text,
    display_drafts,
    load_file,
    load_known_file,
    make_draft,
    plan_writes,
    redacted_errors,
    require_read,
    write_drafts,
)
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan
from holdfast.tools.text.text_file import encode_text
from holdfast.tools.text.text_replacement import replace_text


class EditArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="Relative to the workspace, or absolute.")]
    old_text: Annotated[str, Meta(description="The text to replace, exactly; empty to create the file.")]
    new_text: Annotated[str, Meta(description="What stands there afterwards.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence; else there must be exactly one.")] = False


class EditTool:
    name: ClassVar[str] = "edit"
    description: ClassVar[str] = (
        "Replace a text in a file that you have viewed. Copy old_text exactly, without line numbers, with enough lines "
        "around it to be unique. An empty old_text creates a new file."
    )
    arguments: ClassVar[type[EditArguments]] = EditArguments
    effect: ClassVar[Effect] = "writes"
    parallel: ClassVar[bool] = False

    async def plan(self, arguments: EditArguments, context: ToolContext) -> ToolPlan:
        with redacted_errors(context):
            drafted = await _draft(arguments, context)
            return plan_writes(self.name, [drafted], context, title=drafted.found.name)

    async def run(self, arguments: EditArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        with redacted_errors(context):
            drafted = await _draft(arguments, context)
            notes = await write_drafts([drafted], context, plan)
        return edit_output(drafted, context, notes)


async def _draft(arguments: EditArguments, context: ToolContext) -> FileDraft:
    if not arguments.old_text:
        return await asyncio.to_thread(draft_new_file, await load_new_file(arguments.path, context), arguments.new_text)
    found = await load_known_file(arguments.path, context)
    return await asyncio.to_thread(_replaced, found, arguments)


async def load_new_file(path: str, context: ToolContext) -> LoadedFile:
    """A place for a new file: nothing is there, or an empty file that this session knows."""
    found = await load_file(path, context)
    if found.data:
        raise ToolError(
            f"{found.name!r} exists already; give the old_text to replace, or use write to replace all of it",
            code="file_exists",
        )
    await require_read(found, context)
    return found


def draft_new_file(found: LoadedFile, text: str) -> FileDraft:
    return make_draft(found, encode_text(text, "utf-8"))


def _replaced(found: LoadedFile, arguments: EditArguments) -> FileDraft:
    file = found.text()
    try:
        edited = replace_text(
            file.text, old=arguments.old_text, new=arguments.new_text, replace_all=arguments.replace_all
        )
    except ToolError as error:
        raise ToolError(f"{found.name!r}: {error.message}", code=error.error_code) from error
    count = f"{len(edited.at)} places" if len(edited.at) > 1 else f"line {edited.at[0]}"
    return make_draft(found, encode_text(edited.text, file.encoding), notes=[f"replaced at {count}", edited.note])


def edit_output(drafted: FileDraft, context: ToolContext, notes: Sequence[str]) -> ToolOutput:
    """What the model is told of one written file."""
    verb = "created" if drafted.found.data is None else "changed"
    said = "; ".join(note for note in (*drafted.notes, *notes) if note)
    text = f"{drafted.found.name}: {verb} ({drafted.diff.counts} lines){f'; {said}' if said else ''}"
    return ToolOutput(clean_text(context, text), display=display_drafts([drafted], context))
