"""`edit`: one exact replacement in a file, or a new file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from holdfast.errors import ToolError
from holdfast.schema.approvals import Effect
from holdfast.tools.files import text_encoding, text_replace
from holdfast.tools.files.file_changes import (
    Draft,
    Found,
    carry_out,
    check_read,
    clean_errors,
    display_of,
    draft,
    look,
    look_existing,
    plan_for,
    told,
)
from holdfast.tools.protocol import Context, Output, Plan


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="Relative to the workspace, or absolute.")]
    old_text: Annotated[str, Meta(description="The text to replace, exactly; empty to create the file.")]
    new_text: Annotated[str, Meta(description="What stands there afterwards.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence; else there must be exactly one.")] = False


class Edit:
    name: ClassVar[str] = "edit"
    description: ClassVar[str] = (
        "Replace a text in a file that you have viewed. Copy old_text exactly, without line numbers, with enough lines "
        "around it to be unique. An empty old_text creates a new file."
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
    if not arguments.old_text:
        return await asyncio.to_thread(new_file, await look_new(arguments.path, context), arguments.new_text)
    found = await look_existing(arguments.path, context)
    return await asyncio.to_thread(_replaced, found, arguments)


async def look_new(path: str, context: Context) -> Found:
    """A place for a new file: nothing is there, or an empty file that this session knows."""
    found = await look(path, context)
    if found.data:
        raise ToolError(
            f"{found.name!r} exists already; give the old_text to replace, or use write to replace all of it",
            code="file_exists",
        )
    await check_read(found, context)
    return found


def new_file(found: Found, text: str) -> Draft:
    return draft(found, text_encoding.encode(text, "utf-8"))


def _replaced(found: Found, arguments: Arguments) -> Draft:
    file = found.text()
    try:
        edited = text_replace.replace(
            file.text, old=arguments.old_text, new=arguments.new_text, replace_all=arguments.replace_all
        )
    except ToolError as error:
        raise ToolError(f"{found.name!r}: {error.message}", code=error.error_code) from error
    count = f"{len(edited.at)} places" if len(edited.at) > 1 else f"line {edited.at[0]}"
    return draft(found, text_encoding.encode(edited.text, file.encoding), notes=[f"replaced at {count}", edited.note])


def done(drafted: Draft, context: Context, notes: Sequence[str]) -> Output:
    """What the model is told of one written file."""
    verb = "created" if drafted.found.data is None else "changed"
    said = "; ".join(note for note in (*drafted.notes, *notes) if note)
    text = f"{drafted.found.name}: {verb} ({drafted.diff.counts} lines){f'; {said}' if said else ''}"
    return Output(told(context, text), display=display_of([drafted], context))
