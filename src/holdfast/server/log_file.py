"""The server's log: written by a thread, rotated, and without secrets.

`logging.handlers` can do this too, but it takes longer to import than a hundredth of the server's start.
"""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import TypeAlias

from holdfast.config import Redactor

_MAX_BYTES = 5 << 20
_OLD_FILES = 3
_FLUSH_SECONDS = 2.0
_Lines: TypeAlias = "queue.SimpleQueue[str | threading.Event | None]"
"""Lines to write. An event is set when those before it are written; None is the end."""
_FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s"


@contextmanager
def log_to_file(directory: Path, *, redactor: Callable[[], Redactor], level: int = logging.INFO) -> Iterator[Path]:
    """Write all log records to ``server.log`` in a directory, without secrets (`W8`) and off the event loop."""
    path = directory / "server.log"
    lines: _Lines = queue.SimpleQueue()
    writer = threading.Thread(target=_write_lines, args=(lines, path), name="log", daemon=True)
    handler = _LineHandler(lines, writer)
    handler.setFormatter(_RedactingFormatter(redactor))
    root = logging.getLogger()
    previous_level = root.level
    root.addHandler(handler)
    root.setLevel(level)
    writer.start()
    try:
        yield path
    finally:
        root.removeHandler(handler)
        root.setLevel(previous_level)
        lines.put(None)
        writer.join()


class _LineHandler(logging.Handler):
    """Formats a record at once, so that arguments that change later do not matter, and queues the text."""

    def __init__(self, lines: _Lines, writer: threading.Thread) -> None:
        super().__init__()
        self._lines = lines
        self._writer = writer

    def flush(self) -> None:
        """Wait until everything is written: `logging.shutdown` calls this before a process that ends at once."""
        if self._writer.is_alive():
            written = threading.Event()
            self._lines.put(written)
            written.wait(_FLUSH_SECONDS)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.put(self.format(record))
        except Exception:  # noqa: BLE001 - as all handlers do: a record that cannot be formatted must not end anything
            self.handleError(record)


class _RedactingFormatter(logging.Formatter):
    """Formats the whole record, including its exception, and removes known secrets."""

    converter = staticmethod(time.gmtime)

    def __init__(self, redactor: Callable[[], Redactor]) -> None:
        super().__init__(_FORMAT, "%Y-%m-%dT%H:%M:%S")
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        return self._redactor().redact(super().format(record))


def _write_lines(lines: _Lines, path: Path) -> None:
    """Write until the end of the queue. Lines that cannot be written are dropped, which is said once on stderr."""
    file, has_complained = _RotatedFile(path), False
    while (line := lines.get()) is not None:
        if isinstance(line, threading.Event):
            line.set()
            continue
        try:
            file.write(f"{line}\n".encode("utf-8", "backslashreplace"))
        except OSError as error:
            if not has_complained:
                has_complained = True
                sys.stderr.write(f"holdfast: {path} cannot be written: {error}; records are lost\n")
    file.close()


class _RotatedFile:
    """A file that is moved away when it would become too large. It is opened for the first line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: FileIO | None = None
        self._size = 0

    def write(self, data: bytes) -> None:
        file = self._file or self._open()
        if self._size and self._size + len(data) > _MAX_BYTES:
            self.close()
            self._move_old_files()
            file = self._open()
        written = file.write(data) or 0
        self._size += written
        if written < len(data):  # the disk is full, or nearly: this raises, or completes the line
            self._size += file.write(data[written:]) or 0

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> FileIO:
        self._file = FileIO(self._path, "a")
        self._size = os.fstat(self._file.fileno()).st_size
        return self._file

    def _move_old_files(self) -> None:
        names = [self._path, *(Path(f"{self._path}.{number}") for number in range(1, _OLD_FILES + 1))]
        for older, newer in zip(reversed(names), reversed(names[:-1]), strict=False):
            if newer.exists():
                newer.replace(older)
