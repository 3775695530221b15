"""Ignore rules of `.gitignore` and `.holdfastignore`, and walks of a directory tree that follow them. Blocking.

Both files have git's syntax. They are separate layers: a file is ignored if either layer ignores it, and a ``!``
pattern re-includes only what its own layer excludes. Files above the root do not count, so a project below a directory
named ``build`` still has files. No git repository is needed. A nested repository starts with no rules, as in git.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from holdfast.errors import ToolError
from holdfast.tools.files.file_access import read_file
from holdfast.tools.files.file_transaction import TEMP_PREFIX
from holdfast.tools.search.glob_pattern import translate

GIT_IGNORE_FILE = ".gitignore"
OWN_IGNORE_FILE = ".holdfastignore"
ALWAYS_IGNORED = frozenset({".git", ".hg", ".svn", ".jj"})
_MAX_BYTES = 1024 * 1024


class IgnoreRule(msgspec.Struct, frozen=True):
    expression: re.Pattern[str]
    negated: bool
    directories_only: bool


class IgnoreFile(msgspec.Struct, frozen=True):
    """One ignore file."""

    rules: tuple[IgnoreRule, ...] = ()

    def verdict(self, relative: str, *, is_dir: bool) -> bool | None:
        """Return whether a path below the file's directory is ignored; None if no pattern matches. The last wins."""
        for rule in reversed(self.rules):
            if (is_dir or not rule.directories_only) and rule.expression.fullmatch(relative):
                return not rule.negated
        return None


def parse_ignore_file(text: str) -> IgnoreFile:
    """Parse git's syntax. Invalid lines are skipped, as in git."""
    parsed = (_rule(line) for line in text.removeprefix("\ufeff").split("\n"))
    return IgnoreFile(tuple(rule for rule in parsed if rule is not None))


def _rule(line: str) -> IgnoreRule | None:
    line = _without_trailing_spaces(line.removesuffix("\r"))
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    line = line[1:] if negated else line
    directories_only = line.endswith("/")
    line = line.removesuffix("/")
    anchored = "/" in line
    line = line.removeprefix("/")
    if not line:
        return None
    try:
        expression = re.compile(translate(line if anchored else f"**/{line}"), re.DOTALL)
    except re.error:
        return None
    return IgnoreRule(expression, negated, directories_only)


def _without_trailing_spaces(line: str) -> str:
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    return line


class _Level(msgspec.Struct, frozen=True):
    """The ignore files of one directory."""

    git: IgnoreFile
    own: IgnoreFile
    repository: bool


class IgnoreRules:
    """The rules below one root. Paths are relative to it, with ``/`` between names."""

    def __init__(self, root: Path, *, open_path: str = "") -> None:
        """``open_path`` was named explicitly, so it is searched even if a rule ignores it."""
        self._root = root
        self._open = {"", *_ancestors(open_path), open_path}
        self._levels: dict[str, _Level] = {}
        self._directories: dict[str, bool] = {}

    def ignored(self, relative: str, *, is_dir: bool) -> bool:
        """Return whether a path or one of its parents is ignored."""
        if relative in self._open:
            return False
        parent = relative.rpartition("/")[0]
        if parent and self._directory_ignored(parent):
            return True
        return self.entry_ignored(relative, is_dir=is_dir)

    def entry_ignored(self, relative: str, *, is_dir: bool) -> bool:
        """Return whether a path is ignored whose parents are not."""
        name = relative.rpartition("/")[2]
        if name in ALWAYS_IGNORED or (name.startswith(TEMP_PREFIX) and name.endswith(".tmp")):
            return True
        git: bool | None = None
        own: bool | None = None
        inside_repository = False
        for directory in _ancestors(relative):
            level = self._level(directory)
            below = relative[len(directory) + 1 :] if directory else relative
            if git is None and not inside_repository:
                git = level.git.verdict(below, is_dir=is_dir)
            if own is None:
                own = level.own.verdict(below, is_dir=is_dir)
            inside_repository = inside_repository or level.repository
        return bool(git) or bool(own)

    def _directory_ignored(self, relative: str) -> bool:
        known = self._directories.get(relative)
        if known is None:
            known = self._directories[relative] = self.ignored(relative, is_dir=True)
        return known

    def _level(self, directory: str) -> _Level:
        level = self._levels.get(directory)
        if level is None:
            path = self._root / directory
            level = self._levels[directory] = _Level(
                _read_ignore_file(path / GIT_IGNORE_FILE),
                _read_ignore_file(path / OWN_IGNORE_FILE),
                os.path.lexists(path / ".git"),
            )
        return level


def _ancestors(relative: str) -> Iterable[str]:
    """Yield the parent directories, nearest first; the root is the empty string."""
    while relative:
        relative = relative.rpartition("/")[0]
        yield relative


def _read_ignore_file(path: Path) -> IgnoreFile:
    try:
        data = read_file(path, limit=_MAX_BYTES)
    except ToolError:  # a directory, pipe or symlink, or too large: no rules, as in git
        return IgnoreFile()
    return parse_ignore_file(data.decode("utf-8", "replace")) if data else IgnoreFile()


class TreeEntry(msgspec.Struct, frozen=True):
    relative: str
    """Path relative to the root, with ``/`` between names."""
    is_dir: bool
    is_link: bool = False
    readable: bool = True
    """False for a directory that cannot be listed."""

    @property
    def name(self) -> str:
        return self.relative.rpartition("/")[2]


def walk_tree(
    root: Path,
    start: str,
    ignore: IgnoreRules,
    *,
    depth: int | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[TreeEntry]:
    """Yield the entries below ``start``, breadth first and sorted by name. Symlinks are not followed."""
    waiting = deque([(start, 1)])
    while waiting and not stopped():
        directory, level = waiting.popleft()
        entries = _entries(root, directory)
        if entries is None:
            if directory != start:
                yield TreeEntry(directory, is_dir=True, readable=False)
            continue
        for entry in entries:
            relative = f"{directory}/{entry.name}" if directory else entry.name
            is_link = entry.is_symlink()
            is_dir = entry.is_dir(follow_symlinks=False)
            if ignore.entry_ignored(relative, is_dir=is_dir):
                continue
            yield TreeEntry(relative, is_dir=is_dir, is_link=is_link)
            if is_dir and (depth is None or level < depth):
                waiting.append((relative, level + 1))


def _entries(root: Path, directory: str) -> list[os.DirEntry[str]] | None:
    try:
        with os.scandir(root / directory) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError:
        return None
