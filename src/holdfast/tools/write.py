"""`write`: a whole file, new or instead of the one that is there."""

from __future__ import annotations

import asyncio
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from holdfast.errors import ToolError
from holdfast.schema.approvals import Effect
from holdfast.tools.edit import done
from holdfast.tools.files import text_encoding
from holdfast.tools.files.file_changes import Draft, Found, carry_out, check_read, draft, look, plan_for, told
from holdfast.tools.protocol import Context, Output, Plan


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="Relative to the workspace, or absolute.")]
    content: Annotated[str, Meta(description="The whole content of the file.")]


class Write:
    name: ClassVar[str] = "write"
    description: ClassVar[str] = (
        "Create a file, or replace all of one that you have viewed. Missing directories are made. "
        "For a small change use edit."
    )
    arguments: ClassVar[type[Arguments]] = Arguments
    effect: ClassVar[Effect] = "writes"
    parallel: ClassVar[bool] = False

    async def plan(self, arguments: Arguments, context: Context) -> Plan:
        drafted = await _draft(arguments, context)
        return plan_for(self.name, [drafted], context, title=drafted.found.name)

    async def run(self, arguments: Arguments, context: Context, plan: Plan) -> Output:
        drafted = await _draft(arguments, context)
        if drafted.new == drafted.found.data:
            return Output(told(context, f"{drafted.found.name}: it has this content already; nothing was written"))
        return done(drafted, context, await carry_out([drafted], context, plan))


async def _draft(arguments: Arguments, context: Context) -> Draft:
    found = await look(arguments.path, context)
    await check_read(found, context)
    return await asyncio.to_thread(_replaced, found, arguments.content)


def _replaced(found: Found, content: str) -> Draft:
    """The new text in the old one's encoding and line endings, which the model does not see."""
    old = text_encoding.decode(found.data) if found.data else None
    if old is None:
        return draft(found, text_encoding.encode(content, "utf-8"))
    notes = []
    if old.crlf and "\r" not in content:
        content = content.replace("\n", "\r\n")
        notes.append("the file's CRLF line endings were kept")
    try:
        data = text_encoding.encode(content, old.encoding)
    except ToolError:
        data = text_encoding.encode(content, "utf-8")
        notes.append("it is UTF-8 now, because its old encoding could not hold the new text")
    return draft(found, data, notes=notes)
