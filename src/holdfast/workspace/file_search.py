"""Fuzzy search over a workspace's file names, for completion."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from holdfast.tools.search.ignore_rules import IgnoreRules, walk_tree

MOST_FILES = 100_000
_FRESH_SECONDS = 5.0


class FileNames:
    """The names of one workspace, listed again when they are not fresh any more."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._names: list[str] = []
        self._listed_at: float | None = None

    async def find(self, query: str, *, limit: int) -> tuple[str, ...]:
        """Best matches first."""
        return await asyncio.to_thread(self._find, query, limit)

    def _find(self, query: str, limit: int) -> tuple[str, ...]:
        now = time.monotonic()
        if self._listed_at is None or now - self._listed_at > _FRESH_SECONDS:
            self._names, self._listed_at = _list(self._directory), now
        return best_matches(query, self._names, limit=limit)


def best_matches(query: str, names: list[str], *, limit: int) -> tuple[str, ...]:
    """Names that have the query's characters in order; close together, near the end and at word starts is better."""
    wanted = query.lower().replace(" ", "")
    if not wanted:
        return tuple(sorted(names, key=lambda name: (name.count("/"), name))[:limit])
    scored = [(score, name) for name in names if (score := _score(wanted, name.lower())) is not None]
    return tuple(name for _, name in sorted(scored)[:limit])


def _score(wanted: str, name: str) -> tuple[int, int, int] | None:
    """Smaller is better: gaps, then how far from the end, then length. None where it does not match."""
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


def _list(directory: Path) -> list[str]:
    names: list[str] = []
    for entry in walk_tree(directory, "", IgnoreRules(directory)):
        if not entry.is_dir:
            names.append(entry.relative)
            if len(names) >= MOST_FILES:
                break
    return names
