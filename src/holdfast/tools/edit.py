"""`edit`: replace a text in a file, or create a file."""

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
    hidden_paths,
    load_file,
    load_known_file,
    make_draft,
    nothing_changed_on_error,
    plan_unseen,
    plan_writes,
    proposed_diff,
    redacted_errors,
    refuse_masked_search,
    refuse_masks,
    require_read,
    show_changes,
    write_drafts,
)
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan
from holdfast.tools.text.text_file import encode_text
from holdfast.tools.text.text_replacement import replace_text


class EditArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="Relative to the workspace, or absolute.")]
    old_text: Annotated[str, Meta(description="The exact text to replace; empty to create the file.")]
    new_text: Annotated[str, Meta(description="The text to insert instead.")]
    replace_all: Annotated[
        bool, Meta(description="Replace every occurrence. Otherwise old_text must occur exactly once.")
    ] = False


class EditTool:
    name: ClassVar[str] = "edit"
    description: ClassVar[str] = (
        "Replace text in a file that you have viewed. Copy old_text exactly, without line numbers, and include enough "
        "lines to make it unique. An empty old_text creates a new file."
    )
    arguments: ClassVar[type[EditArguments]] = EditArguments
    effect: ClassVar[Effect] = "writes"
    parallel: ClassVar[bool] = False

    async def plan(self, arguments: EditArguments, context: ToolContext) -> ToolPlan:
        with nothing_changed_on_error(context):
            if await hidden_paths([arguments.path], context):
                diff = proposed_diff(arguments.path, old=arguments.old_text, new=arguments.new_text)
                return await plan_unseen(self.name, [arguments.path], context, diff=diff)
            draft = await _load_draft(arguments, context)
            return plan_writes(self.name, [draft], context, title=draft.found.name)

    async def run(self, arguments: EditArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        with nothing_changed_on_error(context):
            draft = await _load_draft(arguments, context)
        with redacted_errors(context):
            notes = await write_drafts([draft], context, plan)
        return await edit_output(draft, context, notes)


async def _load_draft(arguments: EditArguments, context: ToolContext) -> FileDraft:
    if not arguments.old_text:
        refuse_masks("", arguments.new_text)
        return await asyncio.to_thread(draft_new_file, await load_new_file(arguments.path, context), arguments.new_text)
    found = await load_known_file(arguments.path, context)
    return await asyncio.to_thread(_make_draft, found, arguments)


async def load_new_file(path: str, context: ToolContext) -> LoadedFile:
    """Load a path for a new file: it must not exist, or be an empty file that the session has read."""
    found = await load_file(path, context)
    if found.data:
        raise ToolError(
            f"{found.name!r} already exists; pass the old_text to replace, or use write to replace the whole file",
            code="file_exists",
        )
    await require_read(found, context)
    return found


def draft_new_file(found: LoadedFile, text: str) -> FileDraft:
    return make_draft(found, encode_text(text, "utf-8"))


def _make_draft(found: LoadedFile, arguments: EditArguments) -> FileDraft:
    file = found.text()
    try:
        refuse_masked_search(file.text, arguments.old_text)
        refuse_masks(arguments.old_text, arguments.new_text)
        edited = replace_text(
            file.text, old=arguments.old_text, new=arguments.new_text, replace_all=arguments.replace_all
        )
        new = encode_text(edited.text, file.encoding)
    except ToolError as error:
        raise ToolError(f"{found.name!r}: {error.message}", code=error.error_code) from error
    count = f"{len(edited.at)} places" if len(edited.at) > 1 else f"line {edited.at[0]}"
    return make_draft(found, new, notes=[f"replaced at {count}", edited.note])


def write_output(draft: FileDraft, context: ToolContext, notes: Sequence[str]) -> ToolOutput:
    """Return the result of a write to one file."""
    verb = "created" if draft.found.data is None else "changed"
    details = "; ".join(note for note in (*draft.notes, *notes) if note)
    text = f"{draft.found.name}: {verb} ({draft.diff.counts} lines){f'; {details}' if details else ''}"
    return ToolOutput(clean_text(context, text), display=display_drafts([draft], context))


async def edit_output(draft: FileDraft, context: ToolContext, notes: Sequence[str]) -> ToolOutput:
    """Return the result of an edit of one file, with the changed lines."""
    output = write_output(draft, context, notes)
    shown = await asyncio.to_thread(show_changes, draft, context)
    return msgspec.structs.replace(output, text=f"{output.text}\n{shown}") if shown else output
