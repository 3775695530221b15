"""Reads instruction files: the user's own, then the project's, from the repository root down to the directory."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from holdfast.config.env_files import is_env_file
from holdfast.files import Repository, repository_root
from holdfast.schema.base import Value, repair_text

_NAMES = ("AGENTS.md", "CLAUDE.md", ".github/copilot-instructions.md")
_RULES_FOLDER = ".cursor/rules"
_RULES_SUFFIXES = (".md", ".mdc")
_FOREIGN_FOLDERS = frozenset(
    {"node_modules", "bower_components", "site-packages", "dist-packages", "vendor", "third_party", ".git"}
)
MAX_FILE_BYTES = 256 * 1024
_MAX_IMPORT_DEPTH = 5
_MAX_IMPORTS = 20
_IMPORTED_SUFFIXES = (".md", ".mdc", ".txt")
"""Of files outside the repository."""
_CODE = r"(?ms)^(```+|~~~+).*?^\1[^\n]*$|`[^`\n]*`"  # compiled when used
_IMPORT = r"(?m)(?:^|(?<=[\s(]))@([\w.~/][^\s`'\"<>]*)"


class InstructionFiles(Value, frozen=True):
    read: tuple[str, ...]
    ignored: tuple[str, ...]
    """Links that leave the repository."""


def find_instructions(directory: Path) -> InstructionFiles:
    """The instruction files of a project, without their text."""
    root, real_root = Repository.of(directory)
    read: list[str] = []
    ignored: list[str] = []
    for path in _candidates(directory, None, root):
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError):
            continue
        (read if real.is_relative_to(real_root) else ignored).append(str(path))
    return InstructionFiles(tuple(read), tuple(ignored))


def read_instructions(
    directory: Path, *, user_file: Path | None, trusted: bool = False, repository: Repository | None = None
) -> tuple[tuple[str, str], ...]:
    """Return the path and text of each instruction file, in a fixed order. A repeated text is returned once.

    A file that another one imports (``@path`` in its text) comes after it. These files are read before a directory is
    trusted. A file of the project that is a link to something outside the repository is not read: its text would be
    sent to the model. Only the user's file, and files of a trusted project, import files outside the repository.
    """
    repository = repository or Repository.of(directory)
    reader = _InstructionReader(repository.real_root, trusted=trusted)
    for path in _candidates(directory, user_file, repository.root):
        reader.add(path, inside=None if path == user_file else repository.real_root)
    return tuple(reader.found)


def entered_instructions(
    directory: Path, folders: Iterable[Path], *, trusted: bool = False
) -> tuple[tuple[str, str], ...]:
    """Return the path and text of the instruction files in folders below the directory, the outer ones first.

    As for `read_instructions`, links that leave the repository are not followed. Folders that ignore rules exclude, and
    folders of dependencies, are left out: their files are not the project's.
    """
    from holdfast.tools.search.ignore_rules import IgnoreRules  # not above: only runs enter folders

    root = repository_root(directory).resolve()
    rules = IgnoreRules(root)
    found: list[tuple[str, str]] = []
    for folder in sorted(folders):
        relative = folder.relative_to(root).as_posix()
        if _FOREIGN_FOLDERS & set(folder.relative_to(root).parts) or rules.ignored(relative, is_dir=True):
            continue
        reader = _InstructionReader(root, trusted=trusted)
        for name in _NAMES:
            reader.add(folder / name, inside=root)
        found += reader.found
    return tuple(found)


class _InstructionReader:
    """Reads files and what they import, each once."""

    def __init__(self, root: Path, *, trusted: bool) -> None:
        self._root = root
        self._trusted = trusted
        self._texts: set[str] = set()
        self._paths: set[Path] = set()
        self._imports = 0
        self.found: list[tuple[str, str]] = []

    def add(self, path: Path, *, inside: Path | None, depth: int = 0) -> None:
        """``inside``: the directory that the file must be in, also behind links. None: it is the user's own."""
        text = _read(path, inside=inside)
        if text is None or not text.strip() or text in self._texts:
            return
        self._texts.add(text)
        self._paths.add(path.resolve())
        self.found.append((str(path), text))
        if depth < _MAX_IMPORT_DEPTH:
            for imported in imported_paths(text):
                self._import(path, imported, is_users=inside is None, depth=depth + 1)

    def _import(self, importer: Path, written: str, *, is_users: bool, depth: int) -> None:
        path = Path(os.path.expanduser(written))
        path = Path(os.path.normpath(path if path.is_absolute() else importer.parent / path))
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError):
            return  # a mention of something else
        if real in self._paths or not real.is_file() or is_env_file(real.name):
            return
        is_inside = real.is_relative_to(self._root)
        may_leave = (is_users or self._trusted) and real.suffix in _IMPORTED_SUFFIXES
        if self._imports < _MAX_IMPORTS and (is_inside or may_leave):
            self._imports += 1
            self.add(path, inside=None if is_users or not is_inside else self._root, depth=depth)


def imported_paths(text: str) -> list[str]:
    """The paths that a text names as ``@path``. Code is not read for them."""
    return [path.rstrip(".,;:)") for path in re.findall(_IMPORT, re.sub(_CODE, " ", text))]


def _candidates(directory: Path, user_file: Path | None, root: Path) -> Iterator[Path]:
    """Yield the files that exist. Most that are looked for do not."""
    if user_file is not None and os.path.lexists(user_file):
        yield user_file
    below = [directory, *directory.parents]
    for folder in reversed(below[: below.index(root) + 1]):
        for name in _NAMES:
            if os.path.lexists(os.path.join(folder, name)):
                yield folder / name
        if os.path.isdir(os.path.join(folder, _RULES_FOLDER)):
            rules = folder / _RULES_FOLDER
            yield from sorted(path for path in rules.iterdir() if path.suffix in _RULES_SUFFIXES)


def _read(path: Path, *, inside: Path | None) -> str | None:
    if not os.path.lexists(path):
        return None  # most files that are looked for do not exist
    from holdfast.tools.files.held_directory import open_without_links  # not above: only runs read them

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
