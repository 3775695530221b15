"""`ls`: list a directory as a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from holdfast.errors import ToolError
from holdfast.schema.approvals import Effect
from holdfast.tools.files.file_access import display_path
from holdfast.tools.files.file_changes import clean_text
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan
from holdfast.tools.search.ignore_rules import IgnoreRules, TreeEntry, walk_tree
from holdfast.tools.search.search_scope import SearchScope, resolve_scope, run_in_thread, search_plan

MAX_ENTRIES = 1_000
DEFAULT_DEPTH = 3


class LsArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="Directory, relative to the workspace or absolute.")] = "."
    depth: Annotated[int, Meta(ge=1, le=20, description="Number of levels to show.")] = DEFAULT_DEPTH


class LsTool:
    name: ClassVar[str] = "ls"
    description: ClassVar[str] = (
        "List a directory as a tree. Files that .gitignore or .holdfastignore exclude are omitted."
    )
    arguments: ClassVar[type[LsArguments]] = LsArguments
    effect: ClassVar[Effect] = "reads"
    parallel: ClassVar[bool] = True

    async def plan(self, arguments: LsArguments, context: ToolContext) -> ToolPlan:
        return await search_plan(self.name, arguments.path, context, title=arguments.path)

    async def run(self, arguments: LsArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        text = await run_in_thread(lambda stopped: _listing(arguments, context, plan, stopped))
        return ToolOutput(clean_text(context, text))


def _listing(arguments: LsArguments, context: ToolContext, plan: ToolPlan, stopped: Callable[[], bool]) -> str:
    scope = resolve_scope(arguments.path, context, plan)
    if not scope.is_dir:
        raise ToolError(f"{display_path(scope.path, context.workspace)!r} is a file; use view to read it")
    tree = _DirectoryTree(scope, arguments.depth, stopped)
    lines = [f"{display_path(scope.path, context.workspace)}/", *tree.lines(scope.start, indent="  ")]
    if tree.truncated:
        lines.append(f"(only the first {MAX_ENTRIES:,} entries, upper levels first; list a subdirectory for more)")
    elif len(lines) == 1:
        lines.append("  (empty, or all entries are ignored)")
    return "\n".join(lines)


class _DirectoryTree:
    """Entries by directory. The walk is breadth first, so that a large directory does not hide its siblings."""

    def __init__(self, scope: SearchScope, depth: int, stopped: Callable[[], bool]) -> None:
        self.truncated = False
        self._children: dict[str, list[TreeEntry]] = {}
        self._unreadable: set[str] = set()
        self._depth = depth
        count = 0
        for entry in walk_tree(
            scope.root, scope.start, IgnoreRules(scope.root, open_path=scope.start), depth=depth, stopped=stopped
        ):
            if not entry.readable:
                self._unreadable.add(entry.relative)
                continue
            count += 1
            if count > MAX_ENTRIES:
                self.truncated = True
                break
            self._children.setdefault(entry.relative.rpartition("/")[0], []).append(entry)

    def lines(self, directory: str, *, indent: str) -> Iterator[str]:
        for entry in self._children.get(directory, ()):
            yield f"{indent}{entry.name}{self._suffix(entry)}"
            yield from self.lines(entry.relative, indent=f"{indent}  ")

    def _suffix(self, entry: TreeEntry) -> str:
        if entry.is_link:
            return " (symlink)"
        if not entry.is_dir:
            return ""
        return "/ (cannot be read)" if entry.relative in self._unreadable else "/"
