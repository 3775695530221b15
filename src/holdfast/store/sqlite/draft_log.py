"""The draft log: a file beside the database to which the text of open messages is appended.

The store collects the first text of an answer for `COLLECT_SECONDS`, so that a short one, which is stored by then,
wakes no thread. A thread appends what was streamed within `APPEND_SECONDS`, in one write that waits for no disk: it
survives a killed process. Every `SYNC_SECONDS` it is flushed to the disk, for a power failure, by a thread of its own:
a slow disk must not delay what is appended meanwhile. The cost does not grow with the length of a message. When no
message is open the file is emptied. The next start reads what is left in it.

A record is one line of JSON. A line that is cut off or damaged is left out; the offsets of the lines after it show the
gap. If the disk is full, the thread tries again with everything since the last good line.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import msgspec

from holdfast.files import write_atomic
from holdfast.schema.base import LateDecoder, encode
from holdfast.store.open_drafts import DraftPiece, joined_pieces

COLLECT_SECONDS = 0.01
APPEND_SECONDS = 0.02
_FIRST_SECONDS = APPEND_SECONDS - COLLECT_SECONDS
SYNC_SECONDS = 0.5
_RETRY_SECONDS = 0.5
_COMPACT_BYTES = 4 << 20
"""A file of this size is rewritten with the open messages only, and again when it is twice as long as they were."""

_logger = logging.getLogger(__name__)
_piece = LateDecoder(DraftPiece)


class _Clear:
    """No message is open: everything so far may be forgotten."""


class _Replace:
    """Rewrite the file with these pieces."""

    def __init__(self, pieces: tuple[DraftPiece, ...]) -> None:
        self.pieces = pieces


_Work: TypeAlias = DraftPiece | _Clear | _Replace | None


def log_path(database: Path) -> Path:
    return database.with_name(f"{database.name}.drafts")


def read_pieces(path: Path) -> tuple[DraftPiece, ...]:
    """Read the records of the last server, without damaged ones."""
    pieces: list[DraftPiece] = []
    damaged = 0
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            for line in file:
                try:
                    pieces.append(_piece.decode(line))
                except msgspec.MsgspecError:
                    damaged += 1
    except FileNotFoundError:
        return ()
    except OSError as error:
        _logger.warning("the draft log %s cannot be read: %s; the text of open messages may be shorter", path, error)
    if damaged:
        _logger.warning("the draft log %s has %d damaged records; they are left out", path, damaged)
    return tuple(pieces)


class DraftLog:
    """Appends pieces in the background. `append` and `clear` return at once and never fail."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queue: queue.SimpleQueue[_Work] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._appended = 0
        """Code points in the file, about its size."""
        self._rewrite_at = _COMPACT_BYTES
        self.has_pieces = _size_of(path) > 0
        """Whether there may be something to forget."""

    def append(self, piece: DraftPiece) -> None:
        self._appended += len(piece.text)
        self.has_pieces = True
        self._submit(piece)

    @property
    def is_long(self) -> bool:
        return self._appended > self._rewrite_at

    def replace(self, pieces: Iterable[DraftPiece]) -> None:
        """Keep only these pieces."""
        kept = tuple(pieces)
        self._appended = sum(len(piece.text) for piece in kept)
        self._rewrite_at = max(_COMPACT_BYTES, 2 * self._appended)
        self._submit(_Replace(kept))

    def clear(self) -> None:
        """Forget everything: no message is open."""
        if self.has_pieces:
            self._appended, self._rewrite_at, self.has_pieces = 0, _COMPACT_BYTES, False
            self._submit(_Clear())

    def close(self) -> None:
        """Write what is waiting. Blocks until done."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()

    def _submit(self, work: _Work) -> None:
        self._queue.put(work)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="store-drafts", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        writer = _Writer(self._path)
        running = True
        while running:
            try:
                work = self._queue.get(timeout=writer.seconds_to_sync())
            except queue.Empty:
                writer.sync()
                continue
            if work is not None:
                time.sleep(writer.delay)
            while True:
                if work is None:
                    running = False
                    break
                writer.take(work)
                try:
                    work = self._queue.get_nowait()
                except queue.Empty:
                    break
            del work  # the next one may come late
            writer.write()
        writer.end()


class _Flusher:
    """Flushes the file to the disk in a thread, which starts with the first flush."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queue: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def flush(self, file: int) -> None:
        """Return at once. The file may be closed meanwhile."""
        try:
            self._queue.put(os.dup(file))
        except OSError as error:
            self._warn(error)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="store-draft-sync", daemon=True)
            self._thread.start()

    def close(self) -> None:
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (file := self._queue.get()) is not None:
            try:
                os.fdatasync(file)
            except OSError as error:
                self._warn(error)
            finally:
                os.close(file)

    def _warn(self, error: OSError) -> None:
        _logger.warning("the draft log %s cannot be flushed: %s", self._path, error)


class _Writer:
    """The file, as the thread sees it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._size = _size_of(path)
        """The end of the last good record."""
        self._pieces: list[DraftPiece] = []
        """Taken, but not written."""
        self._unsynced_since: float | None = None
        self._failed = False
        self._must_clear = False
        self._flusher = _Flusher(path)

    @property
    def delay(self) -> float:
        """How long to collect pieces before the next write. The first ones have waited for `COLLECT_SECONDS`."""
        if self._failed:
            return _RETRY_SECONDS
        return APPEND_SECONDS if self._size else _FIRST_SECONDS

    def take(self, work: DraftPiece | _Clear | _Replace) -> None:
        match work:
            case _Clear():
                self._pieces.clear()
                self._must_clear = True
            case _Replace():
                self._replace(work.pieces)
            case _:
                self._pieces.append(work)

    def write(self) -> None:
        try:
            if self._must_clear and self._size:
                os.ftruncate(self._open(), 0)
                self._size, self._unsynced_since = 0, None
            self._must_clear = False
            if self._pieces:
                self._append(self._open(), _lines(self._pieces))
                self._pieces.clear()
            self._failed = False
        except OSError as error:
            if not self._failed:
                _logger.warning("the draft log %s cannot be written: %s; retrying", self._path, error)
            self._failed = True
        if self._unsynced_since is not None and self.seconds_to_sync() == 0:
            self.sync()

    def _append(self, file: int, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(file, view) :]
        except OSError:
            with suppress(OSError):
                os.ftruncate(file, self._size)  # no record is left half written
            raise
        self._size += len(data)
        if self._unsynced_since is None:
            self._unsynced_since = time.monotonic()

    def _replace(self, pieces: tuple[DraftPiece, ...]) -> None:
        try:
            write_atomic(self._path, _lines(pieces), mode=0o600)
        except OSError as error:
            _logger.warning("the draft log %s cannot be rewritten: %s; it stays as it is", self._path, error)
            return
        self._pieces.clear()
        self.close()
        self._unsynced_since = None

    def _open(self) -> int:
        if self._file is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o600)
            self._size = os.fstat(self._file).st_size
        return self._file

    def seconds_to_sync(self) -> float | None:
        """Return how long the last write may wait for its flush; None if nothing waits."""
        if self._unsynced_since is None:
            return None
        return max(self._unsynced_since + SYNC_SECONDS - time.monotonic(), 0)

    def sync(self) -> None:
        self._unsynced_since = None
        if self._file is not None:
            self._flusher.flush(self._file)

    def end(self) -> None:
        self.close()
        self._flusher.close()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _size_of(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _lines(pieces: Iterable[DraftPiece]) -> bytes:
    return b"".join(encode(piece) + b"\n" for piece in joined_pieces(pieces))
