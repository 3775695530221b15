"""`multiedit`: several replacements in one file, all or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from holdfast.errors import ToolError
from holdfast.schema.approvals import Effect
from holdfast.tools.edit import done, look_new
from holdfast.tools.files import text_encoding, text_replace
from holdfast.tools.files.file_changes import Draft, Found, carry_out, clean_errors, draft, look_existing, plan_for
from holdfast.tools.protocol import Context, Output, Plan


class OneEdit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    old_text: Annotated[str, Meta(description="The text to replace, exactly.")]
    new_text: Annotated[str, Meta(description="What stands there afterwards.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence; else there must be exactly one.")] = False


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="Relative to the workspace, or absolute.")]
    edits: Annotated[
        tuple[OneEdit, ...],
        Meta(min_length=1, max_length=200, description="Done in this order, each on the result of the one before."),
    ]


class MultiEdit:
    name: ClassVar[str] = "multiedit"
    description: ClassVar[str] = (
        "Make several replacements in one file that you have viewed; if one cannot be made, none is. "
        "Rules as for edit; an empty old_text in the first one creates the file."
    )
    arguments: ClassVar[type[Arguments]] = Arguments
    effect: ClassVar[Effect] = "writes"
    parallel: ClassVar[bool] = False

    async def plan(self, arguments: Arguments, context: Context) -> Plan:
        with clean_errors(context):
            drafted = await _draft(arguments, context)
            return plan_for(self.name, [drafted], context, title=drafted.found.name)

    async def run(self, arguments: Arguments, context: Context, plan: Plan) -> Output:
        with clean_errors(context):
            drafted = await _draft(arguments, context)
            notes = await carry_out([drafted], context, plan)
        return done(drafted, context, notes)


async def _draft(arguments: Arguments, context: Context) -> Draft:
    first, *rest = arguments.edits
    if first.old_text:
        found = await look_existing(arguments.path, context)
        return await asyncio.to_thread(_edited, found, None, arguments.edits, first=1)
    found = await look_new(arguments.path, context)
    return await asyncio.to_thread(_edited, found, text_encoding.TextFile(first.new_text), rest, first=2)


def _edited(found: Found, start: text_encoding.TextFile | None, edits: Sequence[OneEdit], *, first: int) -> Draft:
    file = start or found.text()
    text = file.text
    notes = []
    last = first + len(edits) - 1
    for number, edit in enumerate(edits, start=first):
        try:
            edited = text_replace.replace(text, old=edit.old_text, new=edit.new_text, replace_all=edit.replace_all)
        except ToolError as error:
            raise ToolError(
                f"{found.name!r}: edit {number} of {last} cannot be made, so none was: {error.message}",
                code=error.error_code,
                detail={"edit": number},
            ) from error
        if edited.note:
            notes.append(f"edit {number}: {edited.note}")
        text = edited.text
    return draft(found, text_encoding.encode(text, file.encoding), notes=[f"{last} edits", *notes])
