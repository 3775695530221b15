"""Walking a tree with its ignore rules, in an order that does not depend on the disk. Blocking: use it in a thread."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from holdfast.tools.search.ignore_rules import IgnoreRules


class TreeEntry(msgspec.Struct, frozen=True):
    relative: str
    """From the root of the ignore rules, with ``/`` between names."""
    is_dir: bool
    is_link: bool = False
    readable: bool = True
    """False for a directory that could not be looked into."""

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
    """What lies below ``start``, breadth first, names in order; symlinks are told but not followed."""
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
