"""Disk space that is kept for cancels and ends, so that they can be written on a full disk (`R14`).

The space is in a file beside the database. It is released when a commit that may use it finds the disk full. Until the
file can be made again, other commits are refused: so the space is there whenever a prompt is accepted. All functions
block.
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
from pathlib import Path

_logger = logging.getLogger(__name__)

RESERVED_BYTES = 2 << 20
"""Room for the ends of some hundred runs: on a full disk the write-ahead log is checkpointed after each commit."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_FULL_NAMES = frozenset({"SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_TRUNCATE"})


class SpaceReserve:
    def __init__(self, database: Path) -> None:
        self._path = database.with_name(database.name + ".reserve")
        self.held = False
        """Whether the space is reserved, or cannot be reserved for another reason than a full disk."""

    def make(self) -> bool:
        """Reserve the space if it is not reserved. Returns `held`."""
        if not self.held:
            try:
                self._allocate()
            except OSError as error:
                self.held = error.errno not in _FULL
                if self.held:
                    _logger.warning("no space can be reserved at %s: %s", self._path, error)
                else:
                    self._path.unlink(missing_ok=True)
            else:
                self.held = True
        return self.held

    def release(self) -> None:
        if self.held:
            self.held = False
            self.release_earlier()

    def release_earlier(self) -> bool:
        """Release what an earlier server reserved. Returns whether there was something."""
        try:
            self._path.unlink()
        except FileNotFoundError:
            return False
        _logger.warning("the disk is full: the space that is reserved for cancels and ends is released")
        return True

    def _allocate(self) -> None:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            status = os.fstat(descriptor)
            if status.st_size >= RESERVED_BYTES and status.st_blocks * 512 >= RESERVED_BYTES:
                return
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, RESERVED_BYTES)
            else:
                os.pwrite(descriptor, bytes(RESERVED_BYTES), 0)
        finally:
            os.close(descriptor)


def is_disk_full(error: BaseException | None) -> bool:
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorname", None) in _FULL_NAMES
