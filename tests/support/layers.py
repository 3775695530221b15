"""The rules of docs/architecture.md as data, and functions that list what breaks them in a source tree.

Imports are read from the syntax tree: at the top of a module, in a function, under `TYPE_CHECKING`, or as a literal
passed to `import_module`.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = "holdfast"
"""The package itself: its version, and the public names of the interface for programs, which it imports lazily."""

BASE = frozenset({"schema", "digests", "directories", "errors", "files", "ids", "late_modules", "locations", "tasks"})
"""What every package may import."""
_CORE = BASE | {"config", "store", "events", "models", "tools", "approvals"}
_FACE = BASE | {"client"}

MAY_IMPORT: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(BASE, BASE),
    "config": BASE,
    "store": BASE,
    "events": BASE | {"store"},
    "models": BASE | {"config"},
    "tools": BASE | {"config"},
    "approvals": BASE | {"store", "events"},
    "agent": _CORE,
    "runs": _CORE | {"agent"},
    "workspace": _CORE | {"agent", "runs", "extend"},
    "services": _CORE | {"agent", "runs", "workspace", "extend"},
    "extend": BASE | {"config", "tools"},
    "server": _CORE | {"agent", "runs", "workspace", "services", "extend"},
    "crush": _CORE | {"agent", "runs", "workspace", "services", "extend", "server"},
    "fleet": _CORE | {"agent", "runs", "workspace", "services", "extend", "server"},
    "client": BASE,
    "sdk": _FACE,
    "sync": frozenset({"sdk"}),
    "cli": _FACE | {"tui", "acp", "selftest"},
    "tui": _FACE,
    "web": _FACE,
    "acp": _FACE,
    "testing": BASE | {"models"},
    "selftest": _FACE | {"testing"},
    "__main__": frozenset({"cli"}),
}
"""What each package may import besides itself and the version."""

COMPOSITION_ROOT = "app"
"""Wires the server together, so it may import everything; nothing imports it but the two commands below."""

STARTS_THE_SERVER = frozenset({"serve", "demo", "restore", "store"})
"""The modules of `cli` that may import the composition root: they work without a server, or are one."""

PURE = (
    "acp/editor_offers.py",
    "acp/editor_questions.py",
    "acp/editor_servers.py",
    "acp/prompt_content.py",
    "acp/session_settings.py",
    "acp/session_updates.py",
    "acp/tool_updates.py",
    "runs/lane/decisions.py",
    "agent/request_messages.py",
    "agent/message_builder.py",
    "client/view_fold.py",
    "extend/lsp/diagnostic_diff.py",
    "extend/lsp/message_framing.py",
    "extend/lsp/text_positions.py",
    "tools/dialects/call_translation.py",
    "tools/dialects/argument_repair.py",
    "tools/text/text_replacement.py",
    "tools/text/terminal_text.py",
    "tui/state.py",
    "crush/diff_contents.py",
    "crush/event_translation.py",
    "fleet/lease_rules.py",
    "fleet/request_places.py",
)
"""Modules without I/O, clock or framework: what they decide follows from what they are given."""

_PURE_LIBRARIES = frozenset(
    {
        *{"__future__", "abc", "bisect", "collections", "copy", "dataclasses", "datetime", "difflib", "enum"},
        *{"functools", "hashlib", "heapq", "itertools", "json", "math", "operator", "re", "string", "textwrap"},
        *{"types", "typing", "unicodedata", "msgspec", "ast", "codecs", "posixpath", "shlex"},
        "_thread",  # a lock around `msgspec`, which is not safe while it makes a decoder
    }
)
ROLE_NAMES = frozenset({"__init__", "__main__", "protocol", "retry", "state"})
"""Names of modules that play the same role in their packages, so that several packages may use them."""

SUBJECT_PACKAGES = (
    ("schema",),
    ("schema", "api"),
    ("server", "routes"),
    ("cli", "commands"),
    ("store", "sqlite"),
    ("store", "postgres"),
)
"""Packages whose modules are named after the subject they serve: `sessions` may be in each of them."""

_IMPURE_BUILTINS = frozenset({"open", "print", "input", "exec", "eval", "__import__", "breakpoint"})
_CLOCKS = frozenset({"now", "utcnow", "today"})


@dataclass(frozen=True, slots=True)
class Import:
    """One import: the dotted name, and the line of the import."""

    name: str
    line: int

    @property
    def package(self) -> str | None:
        """The package of ours that is imported; None for a library."""
        parts = self.name.split(".")
        if parts[0] != ROOT:
            return None
        return parts[1] if len(parts) > 1 else ROOT


def broken_layers(source: Path) -> Iterator[str]:
    """Each import below `source` (the package's directory) that its row does not allow, as a sentence."""
    parts = {path.stem if path.suffix == ".py" else path.name for path in source.iterdir()}
    for path in sorted(source.rglob("*.py")):
        module = _dotted(path, source)
        package = module.split(".")[1] if "." in module else ROOT
        if package == COMPOSITION_ROOT:
            continue
        if package != ROOT and package not in MAY_IMPORT:
            yield f"{module}: {package!r} has no row in the table; say what it may import"
            continue
        allowed = {ROOT, package} | (MAY_IMPORT[package] if package != ROOT else BASE | {"sdk"})
        if package == "cli" and module.rpartition(".")[2] in STARTS_THE_SERVER:
            allowed |= {COMPOSITION_ROOT}
        for found in imports_of(path, source):
            if found.package is None or found.package in allowed:
                continue
            if found.package in parts | MAY_IMPORT.keys() | {COMPOSITION_ROOT}:
                yield f"{module}:{found.line}: {package!r} may not import {found.name!r}"


def repeated_module_names(source: Path) -> Iterator[str]:
    """Each bare module name that unrelated packages share, as a sentence."""
    named: dict[str, list[str]] = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        if path.stem not in ROLE_NAMES and path.relative_to(source).parent.parts not in SUBJECT_PACKAGES:
            named[path.stem].append(_dotted(path, source))
    for name, modules in sorted(named.items()):
        if len(modules) > 1:
            yield f"{name!r} is the name of {' and '.join(modules)}; rename all but one"


def repeated_class_names(source: Path) -> Iterator[str]:
    """Each public class name that several modules define, as a sentence."""
    named: dict[str, list[str]] = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        for node in _parse(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                named[node.name].append(_dotted(path, source))
    for name, modules in sorted(named.items()):
        if len(modules) > 1:
            yield f"class {name!r} is defined in {' and '.join(modules)}; rename all but one"


def import_cycles(source: Path) -> Iterator[str]:
    """Each group of modules that import each other, directly or through others, as a sentence."""
    graph: dict[str, set[str]] = {}
    for path in sorted(source.rglob("*.py")):
        module = _dotted(path, source)
        graph[module] = {found.name for found in imports_of(path, source) if _module_file(found.name, source)}
        graph[module].discard(module)
    for group in _strongly_connected(graph):
        if len(group) > 1:
            yield f"import cycle: {' - '.join(sorted(group))}"


def _strongly_connected(graph: Mapping[str, set[str]]) -> Iterator[set[str]]:
    """Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(node: str) -> Iterator[set[str]]:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(graph.get(node, ())):
            if target not in index:
                yield from visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            place = stack.index(node)
            group = set(stack[place:])
            del stack[place:]
            yield group

    for node in sorted(graph):
        if node not in index:
            yield from visit(node)


def impurities(path: Path, source: Path) -> Iterator[str]:
    """What makes a module depend on more than its arguments; modules of ours that it imports must be pure as well."""
    seen, waiting = {path}, [path]
    while waiting:
        module = waiting.pop()
        yield from _own_impurities(module, source)
        for found in imports_of(module, source):
            if (target := _module_file(found.name, source)) and target not in seen:
                seen.add(target)
                waiting.append(target)


def _own_impurities(path: Path, source: Path) -> Iterator[str]:
    where = path.relative_to(source)
    for found in imports_of(path, source):
        if found.package is None and found.name.split(".")[0] not in _PURE_LIBRARIES:
            yield f"{where}:{found.line}: imports {found.name!r}"
    for node in ast.walk(_parse(path)):
        match node:
            case ast.AsyncFunctionDef(name=name):
                yield f"{where}:{node.lineno}: {name!r} is async"
            case ast.Call(func=ast.Name(id=name)) if name in _IMPURE_BUILTINS:
                yield f"{where}:{node.lineno}: calls {name!r}"
            case ast.Call(func=ast.Attribute(attr=name)) if name in _CLOCKS:
                yield f"{where}:{node.lineno}: reads a clock with {name!r}"


def imports_of(path: Path, source: Path) -> Iterator[Import]:
    """Every import in a file; of `from x import y`, `x.y` where that is a module of ours, else `x`."""
    for node in _imports_and_calls(path.read_text(encoding="utf-8")):
        match node:
            case ast.Import(names=names):
                yield from (Import(alias.name, node.lineno) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = ".".join([*_parents(path, source, level=level), *([module] if module else [])])
                for alias in names:
                    inner = f"{base}.{alias.name}"
                    yield Import(inner if base == ROOT or _module_file(inner, source) else base, node.lineno)
            case ast.Call(args=[ast.Constant(value=str(name)), *_]) if _called(node) in {"import_module", "__import__"}:
                yield Import(name, node.lineno)


def _called(call: ast.Call) -> str | None:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return None


def _parents(path: Path, source: Path, *, level: int) -> list[str]:
    """The package that a relative import of this level starts from; nothing for an absolute one."""
    if not level:
        return []
    package = [ROOT, *path.relative_to(source).parent.parts]
    return package[: len(package) - (level - 1)]


def _dotted(path: Path, source: Path) -> str:
    parts = [ROOT, *path.relative_to(source).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _module_file(name: str, source: Path) -> Path | None:
    root, *parts = name.split(".")
    if root != ROOT or not parts:
        return None
    base = source.joinpath(*parts)
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def _parse(path: Path) -> ast.Module:
    return _parse_text(path.read_text(encoding="utf-8"))


@cache
def _parse_text(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def _imports_and_calls(text: str) -> tuple[ast.AST, ...]:
    kinds = (ast.Import, ast.ImportFrom, ast.Call)
    return tuple(node for node in ast.walk(_parse_text(text)) if isinstance(node, kinds))
