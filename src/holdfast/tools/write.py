"""`write`: a whole file, new or instead of the one that is there."""

from __future__ import annotations

import asyncio
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from holdfast.errors import ToolError
from holdfast.schema.approvals import Effect
from holdfast.tools.edit import edit_output
from holdfast.tools.files.file_changes import (
    FileDraft,
    LoadedFile,
    clean_text,
    load_file,
    make_draft,
    plan_writes,
    require_read,
    write_drafts,
)
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan
from holdfast.tools.text.text_file import decode_text, encode_text


class WriteArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="Relative to the workspace, or absolute.")]
    content: Annotated[str, Meta(description="The whole content of the file.")]


class WriteTool:
    name: ClassVar[str] = "write"
    description: ClassVar[str] = (
        "Create a file, or replace all of one that you have viewed. Missing directories are made. "
        "For a small change use edit."
    )
    arguments: ClassVar[type[WriteArguments]] = WriteArguments
    effect: ClassVar[Effect] = "writes"
    parallel: ClassVar[bool] = False

    async def plan(self, arguments: WriteArguments, context: ToolContext) -> ToolPlan:
        drafted = await _draft(arguments, context)
        return plan_writes(self.name, [drafted], context, title=drafted.found.name)

    async def run(self, arguments: WriteArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        drafted = await _draft(arguments, context)
        if drafted.new == drafted.found.data:
            return ToolOutput(
                clean_text(context, f"{drafted.found.name}: it has this content already; nothing was written")
            )
        return edit_output(drafted, context, await write_drafts([drafted], context, plan))


async def _draft(arguments: WriteArguments, context: ToolContext) -> FileDraft:
    found = await load_file(arguments.path, context)
    await require_read(found, context)
    return await asyncio.to_thread(_replaced, found, arguments.content)


def _replaced(found: LoadedFile, content: str) -> FileDraft:
    """The new text in the old one's encoding and line endings, which the model does not see."""
    old = decode_text(found.data) if found.data else None
    if old is None:
        return make_draft(found, encode_text(content, "utf-8"))
    notes = []
    if old.crlf and "\r" not in content:
        content = content.replace("\n", "\r\n")
        notes.append("the file's CRLF line endings were kept")
    try:
        data = encode_text(content, old.encoding)
    except ToolError:
        data = encode_text(content, "utf-8")
        notes.append("it is UTF-8 now, because its old encoding could not hold the new text")
    return make_draft(found, data, notes=notes)
