"""Reads instruction files: the user's own, then the project's, from the repository root down to the directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from holdfast.files import repository_root
from holdfast.schema.base import repair_text

_NAMES = ("AGENTS.md", "CLAUDE.md", ".github/copilot-instructions.md")
_RULES_FOLDER = ".cursor/rules"
_RULES_SUFFIXES = (".md", ".mdc")
MAX_FILE_BYTES = 256 * 1024


def read_instructions(directory: Path, *, user_file: Path | None) -> tuple[tuple[str, str], ...]:
    """Return the path and text of each instruction file, in a fixed order. A repeated text is returned once."""
    found: list[tuple[str, str]] = []
    seen: set[str] = set()
    for path in _candidates(directory, user_file):
        text = _read(path)
        if text is not None and text.strip() and text not in seen:
            seen.add(text)
            found.append((str(path), text))
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


def _read(path: Path) -> str | None:
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return repair_text(file.read(MAX_FILE_BYTES).decode("utf-8", "replace"))
    except OSError:
        return None  # an unreadable file must not end the run
