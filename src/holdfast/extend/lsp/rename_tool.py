"""`rename`: rename a symbol everywhere, as one change with one approval and one undo.

The language server only proposes the edits. They are turned into a diff, approved, and written all or none like any
edit. The server is asked again when the call runs; if it then proposes something else, nothing is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from holdfast.errors import ToolError
from holdfast.extend.lsp.file_edits import edits_by_path
from holdfast.extend.lsp.language_tools import LineField, PathField, SymbolField, find_place
from holdfast.extend.lsp.message_framing import LanguageServerError
from holdfast.extend.lsp.protocol_types import PositionEncoding, RangeEdit, WorkspaceEdit
from holdfast.extend.lsp.server_pool import LanguageServers
from holdfast.extend.lsp.text_positions import apply_edits
from holdfast.schema.approvals import Effect
from holdfast.tools.files.file_access import resolve_path
from holdfast.tools.files.file_changes import (
    FileDraft,
    clean_text,
    display_drafts,
    load_saved_file,
    make_draft,
    nothing_changed_on_error,
    plan_writes,
    redacted_errors,
    show_changes,
    write_drafts,
)
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan
from holdfast.tools.text.text_file import encode_text

_MAX_SHOWN_CHARS = 8_000
_UNSEEN = "renamed"
"""Recorded as the read content of a file of which the model did not see all changes, so that it must view it again."""


class RenameArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: PathField
    line: LineField
    symbol: SymbolField
    new_name: Annotated[str, Meta(min_length=1, max_length=200, description="The new name.")]


class RenameTool:
    name: ClassVar[str] = "rename"
    description: ClassVar[str] = (
        "Rename a symbol and all its uses in the project, by the language server: one change in all files. "
        "Prefer it to editing each file."
    )
    arguments: ClassVar[type[RenameArguments]] = RenameArguments
    effect: ClassVar[Effect] = "writes"
    parallel: ClassVar[bool] = False

    def __init__(self, servers: LanguageServers) -> None:
        self._servers = servers

    async def plan(self, arguments: RenameArguments, context: ToolContext) -> ToolPlan:
        with nothing_changed_on_error(context):
            return self._plan(arguments, await self._drafts(arguments, context), context)

    async def run(self, arguments: RenameArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        with nothing_changed_on_error(context):
            drafts = await self._drafts(arguments, context)
            if self._plan(arguments, drafts, context).display != plan.display:
                raise ToolError("the language server now proposes another change than the one in the plan; try again")
        seen = {draft.found.path: await context.files.last_read(draft.found.path) for draft in drafts}
        with redacted_errors(context):
            notes = await write_drafts(drafts, context, plan)
        return await self._output(arguments, drafts, context, seen=seen, notes=notes)

    def _plan(self, arguments: RenameArguments, drafts: Sequence[FileDraft], context: ToolContext) -> ToolPlan:
        title = f"{arguments.symbol} → {arguments.new_name} in {_count(len(drafts))}"
        return plan_writes(self.name, drafts, context, title=title)

    async def _drafts(self, arguments: RenameArguments, context: ToolContext) -> list[FileDraft]:
        path = await asyncio.to_thread(resolve_path, arguments.path, context.workspace)
        place = await find_place(
            self._servers,
            context,
            path=path,
            line=arguments.line,
            symbol=arguments.symbol,
            capability="rename_provider",
        )
        params = {**place.params, "newName": arguments.new_name}
        edit: WorkspaceEdit | None = await place.server.ask("textDocument/rename", params, WorkspaceEdit | None)
        changes = edits_by_path(edit) if edit is not None else {}
        drafts = [
            await _draft(Path(changed), edits, place.server.encoding, context)
            for changed, edits in sorted(changes.items())
        ]
        drafts = [draft for draft in drafts if draft.new != draft.found.data]
        if not drafts:
            raise ToolError(f"{place.server.name} cannot rename {arguments.symbol!r}: it proposes no change")
        return drafts

    async def _output(
        self,
        arguments: RenameArguments,
        drafts: Sequence[FileDraft],
        context: ToolContext,
        *,
        seen: dict[Path, str | None],
        notes: Sequence[str],
    ) -> ToolOutput:
        parts = [f"renamed {arguments.symbol} to {arguments.new_name} in {_count(len(drafts))}"]
        left = _MAX_SHOWN_CHARS
        for draft in drafts:
            shown = await asyncio.to_thread(show_changes, draft, context)
            was_read = seen[draft.found.path] == draft.found.hash
            if not was_read or len(shown) > left:
                await context.files.record_read(draft.found.path, _UNSEEN)
            line = f"{draft.found.name} ({draft.diff.counts} lines)"
            if len(shown) > left:
                parts.append(f"{line}; view it before you edit it")
                continue
            left -= len(shown)
            parts.append(f"{line}:\n{shown}")
        text = "\n".join([*parts, *(note for note in notes if note)])
        return ToolOutput(clean_text(context, text), display=display_drafts(drafts, context))


async def _draft(path: Path, edits: Sequence[RangeEdit], encoding: PositionEncoding, context: ToolContext) -> FileDraft:
    if not path.is_relative_to(context.workspace):
        raise LanguageServerError(
            f"the language server wants to change {str(path)!r}, which is outside the workspace; rename it with edits"
        )
    found = await load_saved_file(str(path), context)
    if found.path != path:
        raise LanguageServerError(f"{found.name!r} is reached through a symlink; rename it with edits")
    if found.data is None:
        raise LanguageServerError(f"the language server wants to change {found.name!r}, which does not exist")
    text = found.text()
    new = await asyncio.to_thread(apply_edits, text.text, edits, encoding)
    return make_draft(found, encode_text(new, text.encoding))


def _count(files: int) -> str:
    return "1 file" if files == 1 else f"{files:,} files"
