"""`glob`: files by name, newest first."""

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
_MOST_BYTES = 64 * 1024 * 1024
_TIMEOUT = 60.0
_MAGIC = re.compile(r"[*?\[{]")


class GlobArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[str, Meta(description="For example 'src/**/*.py' or '*.{ts,tsx}'; a name alone: at any depth.")]
    path: Annotated[str, Meta(description="Directory to search, relative to the workspace or absolute.")] = "."
    limit: Annotated[int, Meta(ge=1, le=2_000, description="How many names to show.")] = DEFAULT_LIMIT


class GlobTool:
    name: ClassVar[str] = "glob"
    description: ClassVar[str] = (
        "Find files by name, newest first, without what .gitignore and .holdfastignore leave out."
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
        place = await asyncio.to_thread(resolve_scope, path, context, plan)
        if not place.is_dir:
            raise ToolError(f"{display_path(place.path, context.workspace)!r} is a file; glob searches directories")
        names, cut = await _names(place, context)
        found = await run_in_thread(lambda stopped: _matching(place, names, wanted, stopped))
        shown = [place.name(name, context.workspace) for name in found[: arguments.limit]]
        return ToolOutput(clean_text(context, _answer(shown, total=len(found), cut=cut, pattern=pattern)))


def split_pattern(arguments: GlobArguments) -> tuple[str, str]:
    """An absolute pattern says itself where to search."""
    pattern = os.path.expanduser(arguments.pattern)
    if not os.path.isabs(pattern):
        return arguments.path, arguments.pattern
    parts = pattern.split("/")
    first = next((at for at, part in enumerate(parts) if _MAGIC.search(part)), len(parts) - 1)
    return "/".join(parts[:first]) or "/", "/".join(parts[first:])


async def _names(place: SearchScope, context: ToolContext) -> tuple[Iterable[str], bool]:
    """All files below the place, and whether some are missing because there are far too many."""
    command = await asyncio.to_thread(ripgrep_command, context.environment, place.root)
    if command is None:
        return await run_in_thread(lambda stopped: _walked(place, stopped)), False
    ran = await run_search(
        [*command, "--files", "--null", "--", f"./{place.start}"],
        cwd=place.root,
        environment=context.environment,
        most_bytes=_MOST_BYTES,
        timeout=_TIMEOUT,
    )
    if ran.code == 2 and not ran.output:
        raise ToolError(clean_text(context, f"the search failed: {ran.errors.strip()[:1_000]}"))
    names = os.fsdecode(ran.output).split("\0")
    return (name.removeprefix("./") for name in names[:-1]), ran.cut is not None


def _walked(place: SearchScope, stopped: Callable[[], bool]) -> list[str]:
    entries = walk_tree(place.root, place.start, IgnoreRules(place.root, open_path=place.start), stopped=stopped)
    return [entry.relative for entry in entries if not entry.is_dir and not entry.is_link]


def _matching(
    place: SearchScope, names: Iterable[str], wanted: re.Pattern[str], stopped: Callable[[], bool]
) -> list[str]:
    prefix = f"{place.start}/" if place.start else ""
    ignore = IgnoreRules(place.root, open_path=place.start)
    found = []
    for name in names:
        if stopped():
            break
        if wanted.fullmatch(name.removeprefix(prefix)) and not ignore.ignored(name, is_dir=False):
            found.append(name)
    return newest_first(place.root, found)


def _answer(shown: list[str], *, total: int, cut: bool, pattern: str) -> str:
    if not shown:
        return f"no file matches {pattern!r}" + (" in the part that was searched" if cut else "")
    notes = []
    if total > len(shown):
        notes.append(f"the newest {len(shown):,} of {total:,} files; narrow the pattern or raise the limit")
    if cut:
        notes.append("the directory is too large to be searched whole; give a path below it")
    return "\n".join([*shown, *(f"({note})" for note in notes)])
