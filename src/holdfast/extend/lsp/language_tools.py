"""The tools that ask language servers: `diagnostics`, `definition`, `references` and `symbols`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
from msgspec import Meta

from holdfast.errors import ToolError
from holdfast.extend.lsp.diagnostic_diff import FileProblem, list_problems
from holdfast.extend.lsp.file_edits import to_path, to_uri
from holdfast.extend.lsp.language_server import LanguageServer
from holdfast.extend.lsp.message_framing import LanguageServerError
from holdfast.extend.lsp.protocol_types import (
    DocumentSymbol,
    Location,
    LocationLink,
    Position,
    WorkspaceSymbol,
    kind_name,
)
from holdfast.extend.lsp.server_pool import LanguageServers, read_document
from holdfast.extend.lsp.text_positions import PositionedText, find_symbol
from holdfast.schema.approvals import Effect, Subject
from holdfast.tools.files.file_access import display_path, resolve_path
from holdfast.tools.files.file_changes import clean_text
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan

_MAX_LINES = 100
_MAX_LINE_CHARS = 300
_MAX_DEPTH = 6

PathField = Annotated[str, Meta(description="The file; relative to the workspace, or absolute.")]
LineField = Annotated[int, Meta(ge=1, description="The line of the symbol, counted from 1.")]
SymbolField = Annotated[str, Meta(min_length=1, description="The name as it stands in that line.")]


class SymbolPlace(NamedTuple):
    """Where a symbol stands, for a server that can answer about it."""

    server: LanguageServer
    path: Path
    position: Position

    @property
    def params(self) -> dict[str, Any]:
        return {
            "textDocument": {"uri": to_uri(str(self.path))},
            "position": {"line": self.position.line, "character": self.position.character},
        }


async def ready_servers(
    servers: LanguageServers, path: Path, context: ToolContext, *, capability: str = ""
) -> list[LanguageServer]:
    """Return the servers of a file that are ready and have a capability, with all files as they are on disk.

    Raises `ToolError` if there is none.
    """
    name = display_path(path, context.workspace)
    found = await servers.servers_for(path, context.settings, context.environment)
    if not found:
        raise ToolError(f"no language server serves {name!r}; use grep instead")
    results = await asyncio.gather(*(_wait_ready(server, context) for server in found), return_exceptions=True)
    problems = [result for result in results if isinstance(result, BaseException)]
    for problem in problems:
        if not isinstance(problem, ToolError):
            raise problem
    ready = [server for server, result in zip(found, results, strict=True) if result is None]
    if not ready:
        raise problems[0]
    able = [server for server in ready if not capability or getattr(server.capabilities, capability)]
    if not able:
        raise ToolError(f"no language server of {name!r} can do that ({', '.join(server.name for server in ready)})")
    text = await servers.read_text(path)
    for server in able:
        await servers.sync_open_documents(server)
        server.open_document(path, text)
    return able


async def _wait_ready(server: LanguageServer, context: ToolContext) -> None:
    seconds = float(context.settings.tools.lsp_timeout)
    try:
        async with asyncio.timeout(seconds):
            await server.wait_ready()
    except TimeoutError:
        raise LanguageServerError(f"{server.name} is still starting after {seconds:g} s; try again later") from None


async def find_place(
    servers: LanguageServers, context: ToolContext, *, path: Path, line: int, symbol: str, capability: str
) -> SymbolPlace:
    """Find a symbol and a server for it. Raises `ToolError` if the symbol is not in the line."""
    server = (await ready_servers(servers, path, context, capability=capability))[0]
    text = PositionedText(await servers.read_text(path), server.encoding)
    position = find_symbol(text, line - 1, symbol)
    if position is None:
        name = display_path(path, context.workspace)
        near = [number + 1 for number in range(text.line_count) if symbol in text.line(number)][:5]
        hint = f"; it is in line {', '.join(map(str, near))}" if near else "; view the file"
        raise ToolError(f"line {line} of {name!r} does not contain {symbol!r}{hint}")
    return SymbolPlace(server, path, position)


class _ReadingTool:
    """What the tools share: they read, and they name the file in their plan."""

    name: ClassVar[str] = ""
    effect: ClassVar[Effect] = "reads"
    parallel: ClassVar[bool] = True

    def __init__(self, servers: LanguageServers) -> None:
        self._servers = servers

    async def plan(self, arguments: Any, context: ToolContext) -> ToolPlan:
        given = getattr(arguments, "path", None)
        if not given:
            title = clean_text(context, getattr(arguments, "query", None) or "open files")
            return ToolPlan(Subject(self.name, self.effect, title, cwd=str(context.workspace)))
        path = await asyncio.to_thread(resolve_path, given, context.workspace)
        title = clean_text(context, display_path(path, context.workspace))
        if symbol := getattr(arguments, "symbol", ""):
            title = clean_text(context, f"{symbol} in {title}")
        return ToolPlan(Subject(self.name, self.effect, title, cwd=str(context.workspace), paths=(str(path),)))


class DiagnosticsArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str | None, Meta(description="The file; without it, all files that were read or edited.")] = None


class DiagnosticsTool(_ReadingTool):
    name: ClassVar[str] = "diagnostics"
    description: ClassVar[str] = (
        "List the errors and warnings that language servers find in a file, or in all files that were read or edited. "
        "The results of edits already name the problems that an edit causes."
    )
    arguments: ClassVar[type[DiagnosticsArguments]] = DiagnosticsArguments

    async def run(self, arguments: DiagnosticsArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        if plan.subject.paths:
            path = Path(plan.subject.paths[0])
            found = await ready_servers(self._servers, path, context)
            text = await self._servers.read_text(path)
            problems = [problem for server in found for problem in await server.problems(path, text)]
            return _problem_output(problems, [server.name for server in found], context)
        found = [server for server in self._servers.all_servers() if server.state == "ready"]
        if not found:
            raise ToolError("no language server runs yet; name a file")
        problems = []
        for server in found:
            await self._servers.sync_open_documents(server)
            for path in server.documents:
                problems += await server.problems(path, await self._servers.read_text(path))
        return _problem_output(problems, [server.name for server in found], context)


def _problem_output(problems: Sequence[FileProblem], servers: Iterable[str], context: ToolContext) -> ToolOutput:
    names = " and ".join(dict.fromkeys(servers))
    if not problems:
        return ToolOutput(f"{names}: no errors or warnings", display={"problems": 0})
    text = "\n".join([f"{names}: {len(problems):,} problems", *list_problems(problems, _MAX_LINES)])
    return ToolOutput(clean_text(context, text), display={"problems": len(problems)})


class SymbolArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: PathField
    line: LineField
    symbol: SymbolField


class _LocationTool(_ReadingTool):
    """A tool that asks for the places of a symbol."""

    arguments: ClassVar[type[SymbolArguments]] = SymbolArguments
    request: ClassVar[str] = ""
    capability: ClassVar[str] = ""
    further_params: ClassVar[Mapping[str, Any]] = {}

    async def run(self, arguments: SymbolArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        place = await find_place(
            self._servers,
            context,
            path=Path(plan.subject.paths[0]),
            line=arguments.line,
            symbol=arguments.symbol,
            capability=self.capability,
        )
        found = await place.server.ask(self.request, {**place.params, **self.further_params}, Any)
        return await _location_output(_locations(found), place.server, context, what=arguments.symbol)


class DefinitionTool(_LocationTool):
    name: ClassVar[str] = "definition"
    description: ClassVar[str] = (
        "Find where a symbol is defined, by the language server: exact, also across files and for names that occur "
        "often."
    )
    request: ClassVar[str] = "textDocument/definition"
    capability: ClassVar[str] = "definition_provider"


class ReferencesTool(_LocationTool):
    name: ClassVar[str] = "references"
    description: ClassVar[str] = (
        "List all uses of a symbol, by the language server: only real references, not other things with the same name."
    )
    request: ClassVar[str] = "textDocument/references"
    capability: ClassVar[str] = "references_provider"
    further_params: ClassVar[Mapping[str, Any]] = {"context": {"includeDeclaration": True}}


class SymbolsArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str | None, Meta(description="A file, to list what it defines.")] = None
    query: Annotated[str | None, Meta(description="A part of a name, to search in the whole project.")] = None


class SymbolsTool(_ReadingTool):
    name: ClassVar[str] = "symbols"
    description: ClassVar[str] = (
        "List the classes, functions and variables of a file with their lines, or find symbols of the whole project by "
        "a part of their name."
    )
    arguments: ClassVar[type[SymbolsArguments]] = SymbolsArguments

    async def run(self, arguments: SymbolsArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        if arguments.query:
            return await self._search(arguments.query, context, plan)
        if not plan.subject.paths:
            raise ToolError("pass a path to list the symbols of a file, or a query to search the project")
        path = Path(plan.subject.paths[0])
        found = await ready_servers(self._servers, path, context, capability="document_symbol_provider")
        params = {"textDocument": {"uri": to_uri(str(path))}}
        symbols = await found[0].ask("textDocument/documentSymbol", params, tuple[DocumentSymbol, ...] | None)
        lines = _outline(symbols or (), depth=0)
        return _lines_output(lines, context, empty=f"{found[0].name} finds no symbols in this file")

    async def _search(self, query: str, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        if plan.subject.paths:
            path = Path(plan.subject.paths[0])
            able = await ready_servers(self._servers, path, context, capability="workspace_symbol_provider")
        else:
            able = [
                server
                for server in self._servers.all_servers()
                if server.state == "ready" and server.capabilities.workspace_symbol_provider
            ]
        if not able:
            raise ToolError("no language server that can search runs yet; pass the path of a file of the language too")
        lines = []
        for server in able:
            params = {"query": query}
            symbols = await server.ask("workspace/symbol", params, tuple[WorkspaceSymbol, ...] | None)
            lines += [_symbol_line(symbol, context) for symbol in symbols or ()]
        return _lines_output(lines, context, empty=f"no symbol matches {query!r}")


def _symbol_line(symbol: WorkspaceSymbol, context: ToolContext) -> str:
    path = to_path(symbol.location.uri) or symbol.location.uri
    line = f":{symbol.location.range.start.line + 1}" if symbol.location.range else ""
    inside = f" in {symbol.container_name}" if symbol.container_name else ""
    return f"{display_path(Path(path), context.workspace)}{line}: {kind_name(symbol.kind)} {symbol.name}{inside}"


def _outline(symbols: Sequence[DocumentSymbol], *, depth: int) -> list[str]:
    lines = []
    for symbol in symbols:
        place = symbol.selection_range or (symbol.location.range if symbol.location else None)
        number = f"{place.start.line + 1:>6}" if place else " " * 6
        lines.append(f"{number}  {'  ' * depth}{kind_name(symbol.kind)} {symbol.name}")
        if symbol.children and depth < _MAX_DEPTH:
            lines += _outline(symbol.children, depth=depth + 1)
    return lines


def _lines_output(lines: Sequence[str], context: ToolContext, *, empty: str) -> ToolOutput:
    more = len(lines) - 4 * _MAX_LINES
    shown = [line[:_MAX_LINE_CHARS] for line in lines[: 4 * _MAX_LINES]]
    text = "\n".join([*shown, *([f"[… and {more:,} more]"] if more > 0 else [])]) or empty
    return ToolOutput(clean_text(context, text), display={"count": len(lines)})


def _locations(found: Any) -> list[Location]:
    """Read one of the forms in which servers return locations. Raises `LanguageServerError`."""
    items = [] if found is None else found if isinstance(found, list) else [found]
    locations = []
    try:
        for item in items:
            if isinstance(item, dict) and "targetUri" in item:
                link = msgspec.convert(item, LocationLink)
                locations.append(Location(link.target_uri, link.target_selection_range))
            else:
                locations.append(msgspec.convert(item, Location))
    except msgspec.ValidationError as error:
        raise LanguageServerError(f"the language server sent an answer that is not valid: {error}") from None
    return locations


async def _location_output(
    locations: list[Location], server: LanguageServer, context: ToolContext, *, what: str
) -> ToolOutput:
    if not locations:
        return ToolOutput(clean_text(context, f"{server.name} finds nothing for {what!r}"), display={"count": 0})
    lines = await asyncio.to_thread(_location_lines, locations, server, context)
    return _lines_output(lines, context, empty="")


def _location_lines(locations: list[Location], server: LanguageServer, context: ToolContext) -> list[str]:
    """Lines as grep prints them. The text of files outside the workspace is not shown: reading them needs approval."""
    texts: dict[str, PositionedText | None] = {}
    lines = []
    for location in locations[: 4 * _MAX_LINES]:
        path = to_path(location.uri)
        if path is None:
            continue
        if path not in texts:
            texts[path] = _read_inside(Path(path), server, context)
        text, start = texts[path], location.range.start
        column = text.column(start) if text else start.character + 1
        shown = f": {text.line(start.line).strip()}" if text else ""
        lines.append(f"{display_path(Path(path), context.workspace)}:{start.line + 1}:{column}{shown}")
    more = len(locations) - 4 * _MAX_LINES
    return [*dict.fromkeys(lines), *([f"[… and {more:,} more]"] if more > 0 else [])]


def _read_inside(path: Path, server: LanguageServer, context: ToolContext) -> PositionedText | None:
    try:
        if resolve_path(str(path), context.workspace) != path or not path.is_relative_to(context.workspace):
            return None
        return PositionedText(read_document(path), server.encoding)
    except ToolError:
        return None
