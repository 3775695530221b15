"""`write`: create a file, or replace its whole content."""

from __future__ import annotations

import asyncio
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from holdfast.errors import ToolError
from holdfast.schema.approvals import Effect
from holdfast.tools.edit import write_output
from holdfast.tools.files.file_changes import (
    FileDraft,
    LoadedFile,
    clean_text,
    hidden_paths,
    load_file,
    make_draft,
    nothing_changed_on_error,
    plan_unseen,
    plan_writes,
    proposed_diff,
    refuse_masks,
    require_read,
    write_drafts,
)
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan
from holdfast.tools.text.text_file import encode_text


class WriteArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="Relative to the workspace, or absolute.")]
    content: Annotated[str, Meta(description="The whole new content.")]


class WriteTool:
    name: ClassVar[str] = "write"
    description: ClassVar[str] = (
        "Create a file, or replace the whole content of a file that you have viewed. Missing directories are created. "
        "For small changes use edit."
    )
    arguments: ClassVar[type[WriteArguments]] = WriteArguments
    effect: ClassVar[Effect] = "writes"
    parallel: ClassVar[bool] = False

    async def plan(self, arguments: WriteArguments, context: ToolContext) -> ToolPlan:
        with nothing_changed_on_error(context):
            if await hidden_paths([arguments.path], context):
                diff = proposed_diff(arguments.path, old="", new=arguments.content)
                return await plan_unseen(self.name, [arguments.path], context, diff=diff)
            draft = await _load_draft(arguments, context)
            return plan_writes(self.name, [draft], context, title=draft.found.name)

    async def run(self, arguments: WriteArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        with nothing_changed_on_error(context):
            draft = await _load_draft(arguments, context)
        if draft.new == draft.found.data:
            return ToolOutput(
                clean_text(context, f"{draft.found.name}: the file already has this content; nothing was written")
            )
        return write_output(draft, context, await write_drafts([draft], context, plan))


async def _load_draft(arguments: WriteArguments, context: ToolContext) -> FileDraft:
    found = await load_file(arguments.path, context)
    await require_read(found, context)
    return await asyncio.to_thread(_make_draft, found, arguments.content)


def _make_draft(found: LoadedFile, content: str) -> FileDraft:
    """Keep the encoding and line endings of the old content, which the model does not see."""
    old = found.text() if found.data else None
    refuse_masks(old.text if old else "", content)
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
        notes.append("the file is UTF-8 now, because its old encoding does not have all characters of the new content")
    return make_draft(found, data, notes=notes)
