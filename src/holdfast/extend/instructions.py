"""Instruction files: the person's own, then the project's from the repository root down to the directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from holdfast.files import repository_root
from holdfast.schema.base import repair_text

NAMES = ("AGENTS.md", "CLAUDE.md", ".github/copilot-instructions.md")
RULES_FOLDER = ".cursor/rules"
RULES_SUFFIXES = (".md", ".mdc")
MAX_FILE = 256 * 1024


def read_instructions(directory: Path, *, user_file: Path | None) -> tuple[tuple[str, str], ...]:
    """(path, text) of every instruction file, in a fixed order; the same content under two names counts once."""
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
        for name in NAMES:
            yield folder / name
        rules = folder / RULES_FOLDER
        if rules.is_dir():
            yield from sorted(path for path in rules.iterdir() if path.suffix in RULES_SUFFIXES)


def _read(path: Path) -> str | None:
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return repair_text(file.read(MAX_FILE).decode("utf-8", "replace"))
    except OSError:
        return None  # an unreadable instruction file must not stop a run
