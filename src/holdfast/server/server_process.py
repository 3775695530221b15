"""The process of a server: its event loop, its log file, and its protection from other processes of the same user."""

from __future__ import annotations

import asyncio
import logging
import logging.handlers
import queue
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from holdfast.config import Redactor

T = TypeVar("T")

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36

_MAX_LOG_BYTES = 5 << 20
_OLD_LOG_FILES = 3
_LOG_FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s"


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop if it is installed; ``None`` means asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def run_on_loop(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` on the loop of `loop_factory`."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(work)


def hide_process() -> None:
    """On Linux, stop other processes of the same user from reading the memory and environment of this one (`W8`).

    Commands that the agent runs cannot read the provider keys in them. The process leaves no core file either.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def raise_descriptor_limit() -> None:
    """Allow this process as many open files as the system permits it."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS refuses "unlimited"
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def adopt_orphans() -> None:
    """On Linux, become the parent of descendants that lose theirs, so that no command leaves the tree below (`W8`)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@contextmanager
def log_to_file(directory: Path, *, redactor: Callable[[], Redactor], level: int = logging.INFO) -> Iterator[Path]:
    """Write all log records to ``server.log`` in a directory, without secrets (`W8`) and off the event loop."""
    path = directory / "server.log"
    file = _LogFile(
        path,
        maxBytes=_MAX_LOG_BYTES,
        backupCount=_OLD_LOG_FILES,
        encoding="utf-8",
        errors="backslashreplace",
        delay=True,
    )
    records: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    handler = _TextQueueHandler(records)
    handler.setFormatter(_RedactingFormatter(redactor))
    listener = logging.handlers.QueueListener(records, file)
    root = logging.getLogger()
    previous_level = root.level
    root.addHandler(handler)
    root.setLevel(level)
    listener.start()
    try:
        yield path
    finally:
        root.removeHandler(handler)
        root.setLevel(previous_level)
        listener.stop()
        with suppress(OSError):  # the last records do not fit on the disk
            file.close()


class _LogFile(logging.handlers.RotatingFileHandler):
    """Drops records that cannot be written, and says so once on stderr."""

    _has_complained = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._has_complained:
            self._has_complained = True
            sys.stderr.write(f"holdfast: {self.baseFilename} cannot be written: {error}; records are lost\n")


class _RedactingFormatter(logging.Formatter):
    """Formats the whole record, including its exception, and removes known secrets."""

    converter = staticmethod(time.gmtime)

    def __init__(self, redactor: Callable[[], Redactor]) -> None:
        super().__init__(_LOG_FORMAT, "%Y-%m-%dT%H:%M:%S")
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        return self._redactor().redact(super().format(record))


class _TextQueueHandler(logging.handlers.QueueHandler):
    """Formats a record at once, so that arguments that change later do not matter, and queues the text."""

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        text = self.format(record)
        return logging.makeLogRecord({"msg": text, "levelno": record.levelno, "levelname": record.levelname})
