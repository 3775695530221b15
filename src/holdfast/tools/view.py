"""`view`: read a text file with line numbers, or an image."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from holdfast.errors import ToolError
from holdfast.schema.approvals import Effect, Subject
from holdfast.schema.messages import File
from holdfast.tools.files.file_access import content_hash, display_path, missing_file_error, read_file, resolve_path
from holdfast.tools.files.file_changes import LoadedFile, clean_text, find_unsaved
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan
from holdfast.tools.text.text_file import TextFile, TextLine, split_lines

DEFAULT_LINES = 2_000
MAX_LINE_CHARS = 2_000
MAX_CHARS = 100_000
MAX_IMAGE_BYTES = 5 * 1024 * 1024

_UNSAVED = "this is the text in the user's editor, with changes that are not saved"
_SAVE_FIRST = "the file differs, so ask the user to save it before you change it"
_IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


class ViewArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="Relative to the workspace, or absolute.")]
    offset: Annotated[int, Meta(ge=1, description="Number of the first line to show, counted from 1.")] = 1
    limit: Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of lines to show.")] = DEFAULT_LINES


class ViewTool:
    name: ClassVar[str] = "view"
    description: ClassVar[str] = (
        "Read a text file with line numbers, or an image. You must view a file before you change it. "
        "A long file is shown in parts: continue with offset."
    )
    arguments: ClassVar[type[ViewArguments]] = ViewArguments
    effect: ClassVar[Effect] = "reads"
    parallel: ClassVar[bool] = True

    async def plan(self, arguments: ViewArguments, context: ToolContext) -> ToolPlan:
        path = await asyncio.to_thread(resolve_path, arguments.path, context.workspace)
        title = clean_text(context, display_path(path, context.workspace))
        return ToolPlan(Subject(self.name, self.effect, title, cwd=str(context.workspace), paths=(str(path),)))

    async def run(self, arguments: ViewArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        (path,) = plan.subject.paths
        if context.editor is None:
            found, output = await asyncio.to_thread(_load_and_show, arguments, context, plan)
        else:
            found, output = await _read_with_editor(arguments, context, plan, can_write=context.editor.can_write)
        await context.files.record_read(Path(path), found.hash)
        return output


async def _read_with_editor(
    arguments: ViewArguments, context: ToolContext, plan: ToolPlan, *, can_write: bool
) -> tuple[LoadedFile, ToolOutput]:
    """Read the file as the user's editor has it. Its hash is that of what an edit would change."""
    found = await asyncio.to_thread(_load, arguments, context, plan)
    unsaved = None if image_type(found.data or b"") else await find_unsaved(found, context)
    if unsaved is None:
        return found, await asyncio.to_thread(_show, found, arguments, context)
    notes = [_UNSAVED] if can_write else [_UNSAVED, _SAVE_FIRST]
    return unsaved if can_write else found, await asyncio.to_thread(_show, unsaved, arguments, context, notes)


def _load_and_show(arguments: ViewArguments, context: ToolContext, plan: ToolPlan) -> tuple[LoadedFile, ToolOutput]:
    found = _load(arguments, context, plan)
    return found, _show(found, arguments, context)


def _load(arguments: ViewArguments, context: ToolContext, plan: ToolPlan) -> LoadedFile:
    path = resolve_path(arguments.path, context.workspace)
    name = display_path(path, context.workspace)
    if plan.subject.paths != (str(path),):
        raise ToolError(f"{arguments.path!r} now leads to another file than in the plan; try again")
    data = read_file(path)
    if data is None:
        raise missing_file_error(path, context.workspace)
    return LoadedFile(path, name, data, content_hash(data))


def _show(found: LoadedFile, arguments: ViewArguments, context: ToolContext, notes: Sequence[str] = ()) -> ToolOutput:
    display = {"path": clean_text(context, found.name)}
    if media_type := image_type(found.data or b""):
        image = _image(found.name, media_type, found.data or b"", context)
        return ToolOutput(f"{image.name}: an image ({media_type})", files=(image,), display=display)
    file = found.text()
    # The whole text is masked, because a secret can have several lines, and lines are cut.
    masked = msgspec.structs.replace(file, text=clean_text(context, file.text))
    shown = _with_notes(_shown(masked, arguments), list(notes))
    return ToolOutput(clean_text(context, shown), display=display)


def image_type(data: bytes) -> str | None:
    """Detect the image type by content, not by name."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for magic, media_type in _IMAGES.items() if data.startswith(magic)), None)


def _image(name: str, media_type: str, data: bytes, context: ToolContext) -> File:
    if not context.can_see_images:
        raise ToolError(f"{name!r} is an image ({media_type}), but the model of this run does not accept images")
    if len(data) > MAX_IMAGE_BYTES:
        raise ToolError(
            f"{name!r} is an image of {len(data):,} bytes; the limit is {MAX_IMAGE_BYTES:,}; make it smaller"
        )
    return File(name=clean_text(context, name), media_type=media_type, data=base64.b64encode(data).decode())


def _shown(found: TextFile, arguments: ViewArguments) -> str:
    lines = split_lines(found.text)
    notes = [found.note()] if found.note() else []
    if not lines:
        return _with_notes("", ["the file is empty", *notes])
    first = arguments.offset - 1
    if first >= len(lines):
        raise ToolError(f"offset {arguments.offset} is past the end; the file has {len(lines):,} lines")
    shown = _numbered(lines[first : first + arguments.limit], first=arguments.offset)
    last = first + len(shown)
    if last < len(lines):
        notes.append(f"lines {first + 1} to {last} of {len(lines):,}; continue with offset {last + 1}")
    elif not lines[-1].end:
        notes.append("no newline at the end of the file")
    return _with_notes("\n".join(shown), notes)


def _numbered(lines: list[TextLine], *, first: int) -> list[str]:
    """Number the lines that fit into `MAX_CHARS`, at least one."""
    shown: list[str] = []
    size = 0
    for number, line in enumerate(lines, start=first):
        text = f"{number:>6}\t{_cut(line.text)}"
        size += len(text) + 1
        if size > MAX_CHARS and shown:
            break
        shown.append(text)
    return shown


def _cut(text: str) -> str:
    more = len(text) - MAX_LINE_CHARS
    return f"{text[:MAX_LINE_CHARS]}… [+{more:,} characters]" if more > 0 else text


def _with_notes(body: str, notes: list[str]) -> str:
    suffix = f"({'; '.join(notes)})" if notes else ""
    return f"{body}\n{suffix}" if body and suffix else body or suffix
