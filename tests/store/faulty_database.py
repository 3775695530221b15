"""Database connections that fail on demand, and a small file system."""

import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.store.sqlite import database_file


class Faults:
    """Pass `connect` to `open_store`, and set ``on`` to make statements fail."""

    def __init__(self) -> None:
        self.on: Callable[[str], Exception | None] = lambda _: None

    def connect(self, path: Path, *, read_only: bool) -> sqlite3.Connection:
        faults = self

        class Connection(sqlite3.Connection):
            def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
                error = None if read_only else faults.on(sql)
                if error is not None:
                    raise error
                return super().execute(sql, *args)

        return database_file.connect(path, read_only=read_only, factory=Connection)


def disk_error(message: str = "disk I/O error") -> sqlite3.OperationalError:
    return sqlite3.OperationalError(message)


def failing(start: str, *, times: int = 1) -> Callable[[str], Exception | None]:
    """Make the first statements with this start fail."""
    left = [times]

    def on(sql: str) -> Exception | None:
        if sql.startswith(start) and left[0]:
            left[0] -= 1
            return disk_error()
        return None

    return on


@contextmanager
def small_disk(where: Path, size: str) -> Iterator[Path | None]:
    """Mount a small file system; ``None`` if mounting is not permitted."""
    where.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(where)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False, timeout=10).returncode == 0
    except FileNotFoundError:
        mounted = False
    try:
        yield where if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(where)], check=True, timeout=10)
