"""Chooses the language servers of a file: configured ones, and those of the catalogue that are installed. Blocking.

The table is `server_catalogue.json`. Of the servers of one group, such as the type checkers of Python, the first that
is installed serves. A server works in the nearest directory above the file that has one of its root files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from holdfast.config.settings import LanguageServerSettings, Settings
from holdfast.schema.base import Value
from holdfast.tools.project_programs import find_project_program
from holdfast.tools.search.glob_pattern import compile_glob

_MAX_ENTRIES = 3_000
"""Directory entries that are looked at to find out which kinds of files a workspace has."""
_PLAIN_ENDING = re.compile(r"\.[\w.]+")
_SKIPPED = frozenset({"node_modules", "target", "build", "dist", "vendor", "venv", "__pycache__"})


class CatalogueServer(Value, frozen=True):
    """One entry of the catalogue."""

    name: str
    command: tuple[str, ...]
    """``{private}`` stands for a directory that the server may write."""
    files: tuple[str, ...]
    language: str
    """The protocol's id of the language."""
    languages: dict[str, str] = {}
    """Ids of other languages by extension."""
    roots: tuple[str, ...] = ()
    """Files that show the root of a project."""
    group: str = ""
    options: dict[str, Any] = {}
    """Initialization options."""
    settings: dict[str, Any] = {}
    """Answers to requests for the configuration."""
    runs_project_code: bool = False
    """Such as build scripts or plugins. Without a sandbox it then runs only if it is configured."""


class ServerDefinition(Value, frozen=True):
    """A server as the catalogue and the configuration define it."""

    entry: CatalogueServer
    is_configured: bool
    env: Mapping[str, str] = {}

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def source(self) -> str:
        return f"lsp.{self.name}" if self.is_configured else "the catalogue"

    def language_of(self, path: Path) -> str:
        return self.entry.languages.get(path.suffix.lower(), self.entry.language)


class ChosenServer(Value, frozen=True):
    """A server that can serve a file, and how it is started."""

    definition: ServerDefinition
    root: Path
    argv: tuple[str, ...]
    """Empty if the program of a configured server is not installed."""


CATALOGUE: tuple[CatalogueServer, ...] = msgspec.json.decode(
    Path(__file__).with_name("server_catalogue.json").read_bytes(), type=tuple[CatalogueServer, ...]
)


def define_servers(settings: Settings) -> tuple[ServerDefinition, ...]:
    """Return the servers that may be used, configured ones first."""
    if settings.tools.lsp == "off":
        return ()
    known = {entry.name: entry for entry in CATALOGUE}
    configured = [
        _configured(name, own, known.get(name))
        for name, own in settings.lsp.items()
        if own.enabled and (own.command or name in known)
    ]
    if settings.tools.lsp == "configured":
        return tuple(configured)
    return (*configured, *(ServerDefinition(entry, False) for entry in CATALOGUE if entry.name not in settings.lsp))


def _configured(name: str, own: LanguageServerSettings, known: CatalogueServer | None) -> ServerDefinition:
    base = known or CatalogueServer(name, own.command, own.files, name)
    entry = msgspec.structs.replace(
        base,
        command=own.command or base.command,
        files=own.files or base.files,
        roots=own.roots or base.roots,
        language=own.language or base.language,
        options={**base.options, **own.options},
        settings=_merge(base.settings, own.settings),
    )
    return ServerDefinition(entry, True, dict(own.env))


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def choose_servers(
    path: Path, workspace: Path, settings: Settings, environment: Mapping[str, str]
) -> tuple[ChosenServer, ...]:
    """Return the servers of a file. A configured one that is not installed has no ``argv``."""
    if not path.is_relative_to(workspace):
        return ()
    relative = path.relative_to(workspace).as_posix()
    directories = [directory for directory in path.parents if directory.is_relative_to(workspace)]
    found: list[ChosenServer] = []
    groups: set[str] = set()
    for definition in define_servers(settings):
        entry = definition.entry
        if (entry.group and entry.group in groups) or not _matches(entry.files, relative):
            continue
        program = find_project_program(entry.command[0], directories, environment)
        if program is None and not definition.is_configured:
            continue
        if entry.group:
            groups.add(entry.group)
        argv = (program, *entry.command[1:]) if program else ()
        found.append(ChosenServer(definition, find_root(directories, entry.roots, workspace), argv))
    return tuple(found)


def find_root(directories: list[Path], roots: tuple[str, ...], workspace: Path) -> Path:
    """Return the nearest directory with a root file, or the workspace."""
    for directory in directories:
        if any(_has_root_file(directory, name) for name in roots):
            return directory
    return workspace


def _has_root_file(directory: Path, name: str) -> bool:
    return any(directory.glob(name)) if "*" in name else (directory / name).exists()


def usable_servers(workspace: Path, settings: Settings, environment: Mapping[str, str]) -> tuple[ServerDefinition, ...]:
    """Return the servers that are installed and for a kind of file that the workspace has."""
    groups: set[str] = set()
    installed: list[ServerDefinition] = []
    for definition in define_servers(settings):
        entry = definition.entry
        if entry.group in groups or not find_project_program(entry.command[0], [workspace], environment):
            continue
        groups |= {entry.group} - {""}
        installed.append(definition)
    wanted = [frozenset(file.rpartition("/")[2] for file in one.entry.files) for one in installed]
    present = _present_patterns(workspace, wanted) if wanted else frozenset()
    return tuple(one for one, patterns in zip(installed, wanted, strict=True) if patterns & present)


def _present_patterns(workspace: Path, wanted: list[frozenset[str]]) -> frozenset[str]:
    """Return patterns that match the name of a file: at least one of each set that has one."""
    patterns = frozenset[str]().union(*wanted)
    endings = {pattern[1:]: pattern for pattern in patterns if _PLAIN_ENDING.fullmatch(pattern.removeprefix("*"))}
    others = patterns - set(endings.values())
    found: set[str] = set()
    for name in _file_names(workspace):
        if pattern := endings.get(os.path.splitext(name)[1]):
            found.add(pattern)
        found |= {pattern for pattern in others if fnmatchcase(name, pattern)}
        if all(one & found for one in wanted):
            break
    return frozenset(found)


def _file_names(workspace: Path) -> Iterator[str]:
    """The names of the first files, without hidden directories and those of built or installed files."""
    return islice(_walk(workspace), _MAX_ENTRIES)


def _walk(workspace: Path) -> Iterator[str]:
    for _, directories, files in os.walk(workspace):
        directories[:] = sorted(name for name in directories if name not in _SKIPPED and not name.startswith("."))
        yield from files


def _matches(patterns: tuple[str, ...], relative: str) -> bool:
    return any(_matches_one(pattern, relative) for pattern in patterns)


def _matches_one(pattern: str, relative: str) -> bool:
    ending = pattern.removeprefix("*")
    if ending != pattern and _PLAIN_ENDING.fullmatch(ending):  # nearly all patterns
        return relative.endswith(ending)
    return compile_glob(pattern).fullmatch(relative) is not None
