"""Fuzzy search for file names in a workspace, for completion."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from holdfast.tools.search.ignore_rules import IgnoreRules, walk_tree

_MAX_FILES = 100_000
_MAX_AGE_SECONDS = 5.0


class FileNames:
    """The file names of one workspace. The list is read again when it is older than a few seconds."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._names: list[str] = []
        self._listed_at: float | None = None

    async def find(self, query: str, *, limit: int) -> tuple[str, ...]:
        """Return the matching names, best first."""
        return await asyncio.to_thread(self._find, query, limit)

    def _find(self, query: str, limit: int) -> tuple[str, ...]:
        now = time.monotonic()
        if self._listed_at is None or now - self._listed_at > _MAX_AGE_SECONDS:
            self._names, self._listed_at = _list_files(self._directory), now
        return best_matches(query, self._names, limit=limit)


def best_matches(query: str, names: list[str], *, limit: int) -> tuple[str, ...]:
    """Return the names that contain the characters of the query in order, best first.

    Matches are better in the last path component, at its start, and where the characters are close together.
    """
    wanted = query.lower().replace(" ", "")
    if not wanted:
        return tuple(sorted(names, key=lambda name: (name.count("/"), name))[:limit])
    scored = [(score, name) for name in names if (score := _score(wanted, name.lower())) is not None]
    return tuple(name for _, name in sorted(scored)[:limit])


def _score(wanted: str, name: str) -> tuple[int, int, int] | None:
    """Return a score (smaller is better): gaps, distance from the end, length. None if the name does not match."""
    start = name.rfind("/") + 1
    if (place := name.find(wanted, start)) >= 0:
        return (0 if place == start else 1, len(name) - start, len(name))
    if (place := name.find(wanted)) >= 0:
        return (2, len(name) - place, len(name))
    gaps, at = 3, len(name)
    for character in reversed(wanted):
        found = name.rfind(character, 0, at)
        if found < 0:
            return None
        gaps += at - found - 1 if at != len(name) else 0
        at = found
    return (gaps, len(name) - at, len(name))


def _list_files(directory: Path) -> list[str]:
    names: list[str] = []
    for entry in walk_tree(directory, "", IgnoreRules(directory)):
        if not entry.is_dir:
            names.append(entry.relative)
            if len(names) >= _MAX_FILES:
                break
    return names
