"""Chooses the formatter of a file: a configured one, or one that the project uses. Blocking: call it in a thread.

A project uses a formatter if one of its configuration files is in the file's directory or above it, up to the
workspace. The table is `formatter_catalogue.json`; the first entry that fits wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from holdfast.config.settings import FormatterSettings, Settings
from holdfast.errors import ToolError
from holdfast.files import FileTooLarge, read_limited
from holdfast.schema.base import Value
from holdfast.tools.project_programs import find_project_program
from holdfast.tools.search.glob_pattern import compile_glob

_MAX_MARKER_BYTES = 1024 * 1024


class FormatterMarker(Value, frozen=True):
    """A file that shows that a project uses a formatter."""

    file: str
    contains: str = ""


class CatalogueFormatter(Value, frozen=True):
    name: str
    files: tuple[str, ...]
    command: tuple[str, ...]
    """Reads the text from stdin and writes it to stdout. ``{file}`` is the path, ``{extension}`` its extension."""
    markers: tuple[FormatterMarker, ...] = ()


class Formatter(Value, frozen=True):
    """A formatter and how it is started for one file."""

    name: str
    argv: tuple[str, ...]
    is_configured: bool
    """Whether the user configured it. One that was found formats only files that were formatted before."""


CATALOGUE: tuple[CatalogueFormatter, ...] = msgspec.json.decode(
    Path(__file__).with_name("formatter_catalogue.json").read_bytes(), type=tuple[CatalogueFormatter, ...]
)


def choose_formatter(
    path: Path, workspace: Path, settings: Settings, environment: Mapping[str, str]
) -> Formatter | None:
    """Return the formatter of a file, or None. Raises `ToolError` if a configured one is not installed."""
    if settings.tools.format == "off" or not path.is_relative_to(workspace):
        return None
    relative = path.relative_to(workspace).as_posix()
    directories = [directory for directory in path.parents if directory.is_relative_to(workspace)]
    for name, configured in settings.formatters.items():
        command = configured.command or _catalogue_command(name)
        files = configured.files or _catalogue_files(name)
        if configured.enabled and command and _matches(files, relative):
            return _formatter(name, command, path, directories, environment, is_configured=True)
    if settings.tools.format == "configured":
        return None
    for known in CATALOGUE:
        if _is_turned_off(settings.formatters.get(known.name)) or not _matches(known.files, relative):
            continue
        if any(_has_marker(directory, marker) for directory in directories for marker in known.markers):
            return _formatter(known.name, known.command, path, directories, environment, is_configured=False)
    return None


def _formatter(
    name: str,
    command: tuple[str, ...],
    path: Path,
    directories: list[Path],
    environment: Mapping[str, str],
    *,
    is_configured: bool,
) -> Formatter | None:
    program = find_project_program(command[0], directories, environment)
    if program is None:
        if is_configured:
            raise ToolError(f"the formatter {name!r} is configured, but {command[0]!r} is not installed")
        return None
    values = {"{file}": str(path), "{extension}": path.suffix.removeprefix(".")}
    arguments = []
    for word in command[1:]:
        for placeholder, value in values.items():
            word = word.replace(placeholder, value)
        arguments.append(word)
    return Formatter(name, (program, *arguments), is_configured)


def _matches(patterns: Iterable[str], relative: str) -> bool:
    return any(compile_glob(pattern).fullmatch(relative) for pattern in patterns)


def _has_marker(directory: Path, marker: FormatterMarker) -> bool:
    file = directory / marker.file
    if not marker.contains:
        return file.is_file()
    try:
        data = read_limited(file, limit=_MAX_MARKER_BYTES)
    except (OSError, FileTooLarge):
        return False
    return marker.contains.encode() in data


def _is_turned_off(configured: FormatterSettings | None) -> bool:
    return configured is not None and not configured.enabled


def _catalogue_command(name: str) -> tuple[str, ...]:
    return next((known.command for known in CATALOGUE if known.name == name), ())


def _catalogue_files(name: str) -> tuple[str, ...]:
    return next((known.files for known in CATALOGUE if known.name == name), ())
