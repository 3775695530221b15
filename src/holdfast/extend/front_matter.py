"""Reads Markdown files with YAML front matter: skills, commands and agents.

A file is read again only if it changed. The YAML library is imported when the first file with front matter is read.
Every function blocks.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.schema.base import repair_text

MAX_FILE_BYTES = 256 * 1024
_MAX_FRONT_MATTER = 16 * 1024
_MAX_FILES = 256
"""Files of one folder."""
_MAX_DEPTH = 4
_FENCE = re.compile(r"^---[ \t]*\r?$", re.MULTILINE)
_PLAIN_VALUE = re.compile(r"""^([A-Za-z_][\w-]*):[ \t]+(?![\s'"|>&*!\[{])(.*:(?:[ \t].*)?|.*[ \t]#.*)$""", re.MULTILINE)
"""A value that is not quoted and contains a colon or a number sign, which YAML does not take for text."""


class UnusableFile(Exception):
    """Why a file cannot be used, for a person."""


class SourceFolder(NamedTuple):
    """A folder that is searched for files."""

    path: Path
    origin: str
    """``user``, or ``project``: then a link that leaves the repository is not followed."""
    inside: Path | None = None
    """The resolved repository, for a folder of a project."""
    product: str = "holdfast"
    """Whose folder it is."""


class MarkdownFile(NamedTuple):
    fields: Mapping[str, Any]
    """Texts, lists and tables of texts."""
    body: str


class MarkdownFiles:
    """Reads files and keeps what was read until a file changes."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Path, Path | None], tuple[tuple[int, ...], MarkdownFile | UnusableFile]] = {}

    def read(self, path: Path, *, inside: Path | None) -> MarkdownFile:
        """Raises `UnusableFile` with the reason for a person."""
        try:
            found = path.stat()
        except OSError as error:
            raise UnusableFile(f"cannot be read: {error.strerror}") from None
        stamp = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
        kept = self._kept.get((path, inside))
        if kept is None or kept[0] != stamp:
            try:
                kept = stamp, _read(path, inside=inside)
            except UnusableFile as why:
                kept = stamp, why
            self._kept[path, inside] = kept
        if isinstance(kept[1], UnusableFile):
            raise kept[1]
        return kept[1]


def find_files(folder: Path, *, suffix: str = ".md") -> Iterator[Path]:
    """The files in a folder and below it, sorted. Links to folders are not entered."""
    if not folder.is_dir():
        return
    found: list[Path] = []
    top = str(folder).count(os.sep)
    for parent, folders, files in os.walk(folder):
        depth = parent.count(os.sep) - top
        folders[:] = sorted(name for name in folders if not name.startswith(".")) if depth < _MAX_DEPTH else []
        found += [Path(parent, name) for name in files if name.endswith(suffix) and not name.startswith(".")]
        if len(found) >= _MAX_FILES:
            break
    yield from sorted(found)[:_MAX_FILES]


def text_field(fields: Mapping[str, Any], name: str) -> str:
    """A field as a line of text. A list, as in ``argument-hint: [issue]``, is written as it was.

    Only texts in it are used: YAML can make a short file a list of lists without end.
    """
    value = fields.get(name, "")
    if isinstance(value, list):
        value = f"[{', '.join(item for item in value if isinstance(item, str))}]"
    return " ".join(value.split()) if isinstance(value, str) else ""


def list_field(fields: Mapping[str, Any], *names: str) -> tuple[str, ...] | None:
    """A list of names: a YAML list, or text with commas or spaces. A comma in parentheses does not separate."""
    value = next((fields[name] for name in names if name in fields), None)
    if isinstance(value, str):
        value = re.findall(r"(?:[^\s,(]|\([^)]*\))+", value)
    if not isinstance(value, list):
        return None
    return tuple(item.strip() for item in value if isinstance(item, str) and item.strip())


def _read(path: Path, *, inside: Path | None) -> MarkdownFile:
    try:
        if inside is not None and not path.resolve(strict=True).is_relative_to(inside):
            raise UnusableFile("is a link out of the repository")
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UnusableFile("is not a file")
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, RuntimeError) as error:
        raise UnusableFile(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_FILE_BYTES:
        raise UnusableFile(f"is larger than {MAX_FILE_BYTES >> 10} KiB")
    text = repair_text(data.decode("utf-8-sig", "replace"))
    return split_front_matter(text)


def split_front_matter(text: str) -> MarkdownFile:
    """Raises `UnusableFile` if the front matter is not closed or not YAML."""
    opening = _FENCE.match(text)
    if opening is None:
        return MarkdownFile({}, text)
    closing = _FENCE.search(text, opening.end())
    if closing is None or closing.start() > _MAX_FRONT_MATTER:
        raise UnusableFile("the front matter has no closing line '---'")
    return MarkdownFile(_parse(text[opening.end() : closing.start()]), text[closing.end() :].lstrip("\r\n"))


def _parse(front_matter: str) -> Mapping[str, Any]:
    import yaml

    def load(text: str) -> Any:
        # Only texts, lists and tables: no types that YAML guesses ("no" stays a word), and no objects.
        return yaml.load(text, Loader=yaml.BaseLoader)

    try:
        try:
            fields = load(front_matter)
        except yaml.YAMLError:
            quoted = _PLAIN_VALUE.sub(_quote, front_matter)
            if quoted == front_matter:
                raise
            fields = load(quoted)
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UnusableFile(f"the front matter is not YAML{line}: {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise UnusableFile("the front matter is not YAML") from None
    if fields in (None, ""):
        return {}
    if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
        raise UnusableFile("the front matter must have lines of the form 'key: value'")
    return fields


def _quote(found: re.Match[str]) -> str:
    name, value = found.groups()
    escaped = value.rstrip("\r").replace("'", "''")
    return f"{name}: '{escaped}'"
