"""Reads instruction files: the user's own, then the project's, from the repository root down to the directory."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from holdfast.files import repository_root
from holdfast.schema.base import repair_text
from holdfast.tools.files.held_directory import open_without_links
from holdfast.tools.search.ignore_rules import IgnoreRules

_NAMES = ("AGENTS.md", "CLAUDE.md", ".github/copilot-instructions.md")
_RULES_FOLDER = ".cursor/rules"
_RULES_SUFFIXES = (".md", ".mdc")
_FOREIGN_FOLDERS = frozenset(
    {"node_modules", "bower_components", "site-packages", "dist-packages", "vendor", "third_party", ".git"}
)
MAX_FILE_BYTES = 256 * 1024


class InstructionFiles(NamedTuple):
    read: tuple[str, ...]
    ignored: tuple[str, ...]
    """Links that leave the repository."""


def find_instructions(directory: Path) -> InstructionFiles:
    """The instruction files of a project, without their text."""
    root = repository_root(directory).resolve()
    read: list[str] = []
    ignored: list[str] = []
    for path in _candidates(directory, None):
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError):
            continue
        (read if real.is_relative_to(root) else ignored).append(str(path))
    return InstructionFiles(tuple(read), tuple(ignored))


def read_instructions(directory: Path, *, user_file: Path | None) -> tuple[tuple[str, str], ...]:
    """Return the path and text of each instruction file, in a fixed order. A repeated text is returned once.

    These files are read before a directory is trusted. A file of the project that is a link to something outside the
    repository is not read: its text would be sent to the model.
    """
    found: list[tuple[str, str]] = []
    seen: set[str] = set()
    root = repository_root(directory).resolve()
    for path in _candidates(directory, user_file):
        text = _read(path, inside=None if path == user_file else root)
        if text is not None and text.strip() and text not in seen:
            seen.add(text)
            found.append((str(path), text))
    return tuple(found)


def entered_instructions(directory: Path, folders: Iterable[Path]) -> tuple[tuple[str, str], ...]:
    """Return the path and text of the instruction files in folders below the directory, the outer ones first.

    As for `read_instructions`, links that leave the repository are not followed. Folders that ignore rules exclude, and
    folders of dependencies, are left out: their files are not the project's.
    """
    root = repository_root(directory).resolve()
    rules = IgnoreRules(root)
    found: list[tuple[str, str]] = []
    for folder in sorted(folders):
        relative = folder.relative_to(root).as_posix()
        if _FOREIGN_FOLDERS & set(folder.relative_to(root).parts) or rules.ignored(relative, is_dir=True):
            continue
        texts: set[str] = set()
        for name in _NAMES:
            text = _read(folder / name, inside=root)
            if text is not None and text.strip() and text not in texts:
                texts.add(text)
                found.append((str(folder / name), text))
    return tuple(found)


def _candidates(directory: Path, user_file: Path | None) -> Iterator[Path]:
    if user_file is not None:
        yield user_file
    root = repository_root(directory)
    below = [directory, *directory.parents]
    for folder in reversed(below[: below.index(root) + 1]):
        for name in _NAMES:
            yield folder / name
        rules = folder / _RULES_FOLDER
        if rules.is_dir():
            yield from sorted(path for path in rules.iterdir() if path.suffix in _RULES_SUFFIXES)


def _read(path: Path, *, inside: Path | None) -> str | None:
    try:
        real = path.resolve()
        if inside is not None and not real.is_relative_to(inside):
            return None
        with open(open_without_links(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            return repair_text(file.read(MAX_FILE_BYTES).decode("utf-8", "replace"))
    except (OSError, RuntimeError):
        return None  # an unreadable file, or a loop of links, must not end the run
