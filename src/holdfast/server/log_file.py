"""The server's log: one file that rotates, written off the loop, without secrets (`W8`)."""

from __future__ import annotations

import logging
import logging.handlers
import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.config import Redactor

_MOST_BYTES = 5 << 20
_KEPT_FILES = 3
_FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s"


class _Redacting(logging.Formatter):
    """The whole record as text, exception included, with every known secret taken out."""

    converter = staticmethod(time.gmtime)

    def __init__(self, redactor: Callable[[], Redactor]) -> None:
        super().__init__(_FORMAT, "%Y-%m-%dT%H:%M:%S")
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        return self._redactor().redact(super().format(record))


class _Handing(logging.handlers.QueueHandler):
    """Formats where the record is made, so that a later change of its arguments is not told; hands over the text."""

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        text = self.format(record)
        return logging.makeLogRecord({"msg": text, "levelno": record.levelno, "levelname": record.levelname})


@contextmanager
def logging_to(
    directory: Path, *, redactor: Callable[[], Redactor] = Redactor, level: int = logging.INFO
) -> Iterator[Path]:
    """Everything that is logged goes to ``server.log`` in this directory, until this ends."""
    path = directory / "server.log"
    file = logging.handlers.RotatingFileHandler(
        path, maxBytes=_MOST_BYTES, backupCount=_KEPT_FILES, encoding="utf-8", errors="backslashreplace", delay=True
    )
    records: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    handing = _Handing(records)
    handing.setFormatter(_Redacting(redactor))
    listener = logging.handlers.QueueListener(records, file)
    root = logging.getLogger()
    before = root.level
    root.addHandler(handing)
    root.setLevel(level)
    listener.start()
    try:
        yield path
    finally:
        root.removeHandler(handing)
        root.setLevel(before)
        listener.stop()
        file.close()
