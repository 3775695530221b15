"""`grep`: find lines by content, newest files first."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from holdfast.errors import ToolError
from holdfast.schema.approvals import Effect
from holdfast.tools.files.file_access import MAX_FILE_BYTES
from holdfast.tools.files.file_changes import clean_text
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan
from holdfast.tools.search import python_search
from holdfast.tools.search.glob_pattern import compile_glob
from holdfast.tools.search.ignore_rules import IgnoreRules
from holdfast.tools.search.ripgrep import SearchOutput, ripgrep_command, run_search
from holdfast.tools.search.search_scope import SearchScope, newest_first, resolve_scope, search_plan

DEFAULT_LIMIT = 100
MAX_LINE_CHARS = 400
MAX_CHARS = 30_000
_MAX_BYTES = 8 * 1024 * 1024
_TIMEOUT = 60.0
_TYPE = "holdfastinclude"


class GrepArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[str, Meta(min_length=1, description="Regular expression that a line must contain.")]
    path: Annotated[str, Meta(description="File or directory, relative to the workspace or absolute.")] = "."
    include: Annotated[
        str | None, Meta(description="Search only files that match this glob, for example '*.{ts,tsx}'.")
    ] = None
    literal: Annotated[bool, Meta(description="Treat the pattern as plain text.")] = False
    ignore_case: bool = False
    context: Annotated[int, Meta(ge=0, le=20, description="Number of lines to show around each match.")] = 0
    output: Annotated[
        Literal["lines", "files", "counts"], Meta(description="Show lines, file names, or the number of lines by file.")
    ] = "lines"
    limit: Annotated[
        int, Meta(ge=1, le=2_000, description="Maximum number of matching lines, or of files, to show.")
    ] = DEFAULT_LIMIT


class GrepTool:
    name: ClassVar[str] = "grep"
    description: ClassVar[str] = (
        "Find lines in files, newest files first. Files that .gitignore or .holdfastignore exclude are omitted."
    )
    arguments: ClassVar[type[GrepArguments]] = GrepArguments
    effect: ClassVar[Effect] = "reads"
    parallel: ClassVar[bool] = True

    async def plan(self, arguments: GrepArguments, context: ToolContext) -> ToolPlan:
        where = "" if arguments.path == "." else f" in {arguments.path}"
        return await search_plan(self.name, arguments.path, context, title=f"{arguments.pattern}{where}")

    async def run(self, arguments: GrepArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        scope = await asyncio.to_thread(resolve_scope, arguments.path, context, plan)
        ripgrep = await asyncio.to_thread(ripgrep_command, context.environment, scope.root, workspace=context.workspace)
        ran = await run_search(
            _plain_command(arguments, scope) if ripgrep is None else [*ripgrep, *_options(arguments, scope)],
            cwd=Path("/") if ripgrep is None else scope.root,
            environment=context.environment,
            max_bytes=_MAX_BYTES,
            timeout=_TIMEOUT,
        )
        dialect = "Python's re syntax, because ripgrep is not installed" if ripgrep is None else ""
        if ran.code not in (0, 1, None) and not ran.output:
            raise ToolError(clean_text(context, _failure(ran, dialect)))
        text = await asyncio.to_thread(_answer, arguments, scope, ran, context.workspace, dialect)
        return ToolOutput(clean_text(context, text))


def _options(arguments: GrepArguments, scope: SearchScope) -> list[str]:
    options = ["--line-number", "--with-filename", "--no-heading", "--null", "--max-columns-preview"]
    options += [
        f"--max-columns={MAX_LINE_CHARS * 4}",
        f"--max-filesize={MAX_FILE_BYTES}",
        f"--context={arguments.context}",
    ]
    options += ["--fixed-strings"] * arguments.literal + ["--ignore-case"] * arguments.ignore_case
    if arguments.include is not None and "/" not in arguments.include:
        # a type and not a glob, because a glob would override the ignore files
        options += [f"--type-add={_TYPE}:{arguments.include}", f"--type={_TYPE}"]
    return [*options, f"--regexp={arguments.pattern}", "--", f"./{scope.start}"]


def _plain_command(arguments: GrepArguments, scope: SearchScope) -> list[str]:
    query = python_search.GrepQuery(
        pattern=arguments.pattern,
        ignore_case=arguments.ignore_case,
        literal=arguments.literal,
        include=arguments.include,
        context=arguments.context,
        width=MAX_LINE_CHARS * 4,
    )
    return python_search.search_command(query, root=scope.root, start=scope.start)


def _failure(ran: SearchOutput, dialect: str) -> str:
    reason = ran.errors.strip()[:1_000] or f"exit code {ran.code}"
    return f"the search failed{f' ({dialect})' if dialect else ''}: {reason}"


class _FoundLine(msgspec.Struct, frozen=True):
    number: int
    matches: bool
    text: str


_Found = dict[str, list[_FoundLine]]


def _parsed(output: bytes) -> _Found:
    """Return the lines by file. An incomplete last line is dropped."""
    found: _Found = {}
    for row in output.split(b"\n")[:-1]:
        name, separator, rest = row.partition(b"\0")
        digits = len(rest) - len(rest.lstrip(b"0123456789"))
        if separator and digits:
            text = rest[digits + 1 :].decode("utf-8", "rescope").rstrip("\r")
            line = _FoundLine(int(rest[:digits]), rest[digits : digits + 1] == b":", _cut(text))
            found.setdefault(os.fsdecode(name).removeprefix("./"), []).append(line)
    return found


_BINARY = re.compile(rb"^(?P<name>[^\0\n]*): binary file matches \(found .*\)$", re.MULTILINE)


def _binary_matches(output: bytes) -> list[str]:
    """Return the files for which ripgrep reports a match without showing it."""
    if b": binary file matches" not in output:
        return []
    return [os.fsdecode(found["name"]).removeprefix("./") for found in _BINARY.finditer(output)]


def _cut(text: str) -> str:
    return f"{text[:MAX_LINE_CHARS]}…" if len(text) > MAX_LINE_CHARS else text


def _answer(arguments: GrepArguments, scope: SearchScope, ran: SearchOutput, workspace: Path, dialect: str) -> str:
    found = _wanted(_parsed(ran.output), arguments, scope)
    total = sum(line.matches for lines in found.values() for line in lines)
    notes = [dialect] if dialect else []
    if ran.stopped is not None:
        why = "it took too long" if ran.stopped == "time" else "it found too much"
        notes.append(f"the search was stopped because {why}; narrow the pattern or the path")
    elif ran.errors and ran.code == 2:
        notes.append(f"some files could not be searched: {ran.errors.strip().splitlines()[0][:200]}")
    if binary := _binary_matches(ran.output):
        shown_names = ", ".join(repr(scope.name(name, workspace)) for name in binary[:5])
        more_names = f" and {len(binary) - 5} more" if len(binary) > 5 else ""
        notes.append(f"{shown_names}{more_names}: binary file with matches; use bash to read it")
    if not total:
        return "\n".join([f"no line matches {arguments.pattern!r}", *(f"({note})" for note in notes)])
    if arguments.output != "lines":
        return "\n".join([*_files(found, arguments, scope, workspace), *(f"({note})" for note in notes)])
    body, shown, files = _body(found, newest_first(scope.root, found), arguments, scope, workspace)
    if shown < total:
        more = " or more" if ran.stopped else ""
        notes.append(f"{shown:,} of {total:,}{more} matching lines, {files} of {len(found)} files, newest first")
    return "\n".join([*body, *(f"({note})" for note in notes)])


def _wanted(found: _Found, arguments: GrepArguments, scope: SearchScope) -> _Found:
    """Remove files that the program does not exclude: by .holdfastignore, or by rules above the searched path."""
    if not scope.is_dir:
        return found
    prefix = f"{scope.start}/" if scope.start else ""
    include = compile_glob(arguments.include) if arguments.include and "/" in arguments.include else None
    ignore = IgnoreRules(scope.root, open_path=scope.start)
    return {
        name: lines
        for name, lines in found.items()
        if not ignore.ignored(name, is_dir=False) and (include is None or include.fullmatch(name.removeprefix(prefix)))
    }


def _files(found: _Found, arguments: GrepArguments, scope: SearchScope, workspace: Path) -> Iterator[str]:
    """Name the files with matches, newest first."""
    order = newest_first(scope.root, found)
    for name in order[: arguments.limit]:
        count = f": {sum(line.matches for line in found[name]):,}" if arguments.output == "counts" else ""
        yield f"{scope.name(name, workspace)}{count}"
    if len(order) > arguments.limit:
        yield f"(the newest {arguments.limit:,} of {len(order):,} files)"


def _body(
    found: _Found, order: Iterable[str], arguments: GrepArguments, scope: SearchScope, workspace: Path
) -> tuple[list[str], int, int]:
    """Return the output lines, the number of matching lines in them, and the number of files."""
    body: list[str] = []
    shown = files = size = 0
    for name in order:
        rows = [scope.name(name, workspace)]
        last = None
        for line in found[name]:
            if shown == arguments.limit or size > MAX_CHARS:
                break
            if arguments.context and last is not None and line.number > last + 1:
                rows.append("  --")
            rows.append(f"  {line.number}{':' if line.matches else '-'} {line.text}")
            last = line.number
            shown += line.matches
            size += len(rows[-1])
        if len(rows) == 1:
            break
        body += rows
        files += 1
    return body, shown, files
