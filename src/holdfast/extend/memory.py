"""Memory: what the user asked to remember, for all projects and for each one, in Markdown files with an entry per line.

The files are the user's own: they are in Holdfast's configuration directory, not in the project, and may be edited by
hand. They are told to the model like instruction files. Every function blocks.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from holdfast.digests import sha256_hex
from holdfast.errors import BadRequest
from holdfast.files import FileTooLarge, NotRegularFile, Repository, read_limited, write_atomic
from holdfast.schema.base import repair_text

MemoryScope = Literal["project", "user"]

MAX_MEMORY_BYTES = 32 * 1024
"""Of one file. All of it is sent to the model with every session."""
_ENTRY = re.compile(r"^- (.*)$", re.MULTILINE)
_MAX_NAME = 40


class MemoryFiles(NamedTuple):
    user: Path
    project: Path

    def of(self, scope: MemoryScope) -> Path:
        return self.user if scope == "user" else self.project


def memory_files(memory_dir: Path, directory: Path) -> MemoryFiles:
    """Return the files for a directory. All directories of a repository share the file of its root."""
    return memory_files_of(memory_dir, Repository.of(directory).real_root)


@lru_cache(maxsize=64)
def memory_files_of(memory_dir: Path, root: Path) -> MemoryFiles:
    """``root``: that of a repository, without links."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", root.name).strip("-.")[:_MAX_NAME] or "project"
    digest = sha256_hex(str(root).encode("utf-8", "surrogateescape"))[:12]
    return MemoryFiles(memory_dir / "user.md", memory_dir / f"{name}-{digest}.md")


def read_memory_text(file: Path) -> str:
    """Return the text of a file; empty if there is none. Raises `BadRequest` if it cannot be read."""
    try:
        return repair_text(read_limited(file, limit=MAX_MEMORY_BYTES).decode("utf-8", "replace"))
    except FileNotFoundError:
        return ""
    except FileTooLarge:
        raise BadRequest(f"{str(file)!r} is larger than {MAX_MEMORY_BYTES >> 10} KiB; shorten it") from None
    except (IsADirectoryError, NotRegularFile):
        raise BadRequest(f"{str(file)!r} is not a file; move it away") from None
    except OSError as error:
        raise BadRequest(f"cannot read {str(file)!r}: {error.strerror}") from None


def memory_entries(text: str) -> tuple[str, ...]:
    """Return the entries of a file: its list items."""
    return tuple(entry.strip() for entry in _ENTRY.findall(text))


def add_entry(file: Path, text: str, *, heading: str) -> None:
    """Add an entry at the end. One that is there already is not added again."""
    entry = " ".join(text.split())
    if not entry:
        raise BadRequest("there is nothing to remember; write it behind the command")
    before = read_memory_text(file)
    if entry in memory_entries(before):
        return
    head = before.rstrip("\n") if before.strip() else f"# {heading}\n"
    _write(file, f"{head}\n- {entry}\n")


def remove_entry(file: Path, number: int) -> None:
    """Remove the entry with this number; the first one is 1."""
    text = read_memory_text(file)
    found = list(_ENTRY.finditer(text))
    if not 0 < number <= len(found):
        known = f"there are {len(found)}" if found else "there are none"
        raise BadRequest(f"there is no entry {number}; {known}")
    entry = found[number - 1]
    _write(file, text[: entry.start()] + text[entry.end() :].removeprefix("\n"))


def _write(file: Path, text: str) -> None:
    data = text.encode()
    if len(data) > MAX_MEMORY_BYTES:
        raise BadRequest(f"the memory is full ({MAX_MEMORY_BYTES >> 10} KiB); remove entries that are out of date")
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomic(file, data, follow_links=True)
    except OSError as error:
        raise BadRequest(f"cannot write {str(file)!r}: {error.strerror}") from None
