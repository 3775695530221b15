"""`glob`: find files by name, newest first."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterable
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from holdfast.errors import ToolError
from holdfast.schema.approvals import Effect
from holdfast.tools.files.file_access import display_path
from holdfast.tools.files.file_changes import clean_text
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan
from holdfast.tools.search.glob_pattern import compile_glob
from holdfast.tools.search.ignore_rules import IgnoreRules, walk_tree
from holdfast.tools.search.ripgrep import ripgrep_command, run_search
from holdfast.tools.search.search_scope import SearchScope, newest_first, resolve_scope, run_in_thread, search_plan

DEFAULT_LIMIT = 200
_MAX_BYTES = 64 * 1024 * 1024
_TIMEOUT = 60.0
_MAGIC = re.compile(r"[*?\[{]")


class GlobArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[
        str, Meta(description="For example 'src/**/*.py' or '*.{ts,tsx}'. A pattern without '/' matches at any depth.")
    ]
    path: Annotated[str, Meta(description="Directory to search, relative to the workspace or absolute.")] = "."
    limit: Annotated[int, Meta(ge=1, le=2_000, description="Maximum number of files to show.")] = DEFAULT_LIMIT


class GlobTool:
    name: ClassVar[str] = "glob"
    description: ClassVar[str] = (
        "Find files by name, newest first. Files that .gitignore or .holdfastignore exclude are omitted."
    )
    arguments: ClassVar[type[GlobArguments]] = GlobArguments
    effect: ClassVar[Effect] = "reads"
    parallel: ClassVar[bool] = True

    async def plan(self, arguments: GlobArguments, context: ToolContext) -> ToolPlan:
        path, pattern = split_pattern(arguments)
        title = pattern if path == "." else f"{pattern} in {path}"
        return await search_plan(self.name, path, context, title=title)

    async def run(self, arguments: GlobArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        path, pattern = split_pattern(arguments)
        wanted = compile_glob(pattern)
        scope = await asyncio.to_thread(resolve_scope, path, context, plan)
        if not scope.is_dir:
            raise ToolError(
                f"{display_path(scope.path, context.workspace)!r} is a file; glob searches only directories"
            )
        names, truncated = await _names(scope, context)
        found = await run_in_thread(lambda stopped: _matching(scope, names, wanted, stopped))
        shown = [scope.name(name, context.workspace) for name in found[: arguments.limit]]
        return ToolOutput(clean_text(context, _answer(shown, total=len(found), truncated=truncated, pattern=pattern)))


def split_pattern(arguments: GlobArguments) -> tuple[str, str]:
    """Return the directory to search and the pattern in it. An absolute pattern names its own directory."""
    pattern = os.path.expanduser(arguments.pattern)
    if not os.path.isabs(pattern):
        return arguments.path, arguments.pattern
    parts = pattern.split("/")
    first = next((at for at, part in enumerate(parts) if _MAGIC.search(part)), len(parts) - 1)
    return "/".join(parts[:first]) or "/", "/".join(parts[first:])


async def _names(scope: SearchScope, context: ToolContext) -> tuple[Iterable[str], bool]:
    """Return all files in the scope, and whether the list is incomplete."""
    command = await asyncio.to_thread(ripgrep_command, context.environment, scope.root, workspace=context.workspace)
    if command is None:
        return await run_in_thread(lambda stopped: _walk(scope, stopped)), False
    ran = await run_search(
        [*command, "--files", "--null", "--", f"./{scope.start}"],
        cwd=scope.root,
        environment=context.environment,
        max_bytes=_MAX_BYTES,
        timeout=_TIMEOUT,
    )
    if ran.code == 2 and not ran.output:
        raise ToolError(clean_text(context, f"the search failed: {ran.errors.strip()[:1_000]}"))
    names = os.fsdecode(ran.output).split("\0")
    return (name.removeprefix("./") for name in names[:-1]), ran.stopped is not None


def _walk(scope: SearchScope, stopped: Callable[[], bool]) -> list[str]:
    entries = walk_tree(scope.root, scope.start, IgnoreRules(scope.root, open_path=scope.start), stopped=stopped)
    return [entry.relative for entry in entries if not entry.is_dir and not entry.is_link]


def _matching(
    scope: SearchScope, names: Iterable[str], wanted: re.Pattern[str], stopped: Callable[[], bool]
) -> list[str]:
    prefix = f"{scope.start}/" if scope.start else ""
    ignore = IgnoreRules(scope.root, open_path=scope.start)
    found = []
    for name in names:
        if stopped():
            break
        if wanted.fullmatch(name.removeprefix(prefix)) and not ignore.ignored(name, is_dir=False):
            found.append(name)
    return newest_first(scope.root, found)


def _answer(shown: list[str], *, total: int, truncated: bool, pattern: str) -> str:
    if not shown:
        return f"no file matches {pattern!r}" + (" in the part that was searched" if truncated else "")
    notes = []
    if total > len(shown):
        notes.append(f"the newest {len(shown):,} of {total:,} files; narrow the pattern or raise the limit")
    if truncated:
        notes.append("the directory is too large to be searched completely; pass a subdirectory as path")
    return "\n".join([*shown, *(f"({note})" for note in notes)])
