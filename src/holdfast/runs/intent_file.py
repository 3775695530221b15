"""The intents of users that the database could not take: cancels, and a stop of the server.

The file has a fixed size and is rewritten in place, so that it can be written on a full disk. It holds what the next
start must do if this server ends before the database can be written again (`C1`, `W5`). All functions block.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from holdfast.files import FileTooLarge
from holdfast.schema.base import LateDecoder, Value

_logger = logging.getLogger(__name__)

_SIZE = 32 * 1024


class CancelIntent(Value, frozen=True, tag="cancel", omit_defaults=True):
    """Cancel everything up to the mark, or one run."""

    session_id: str
    mark: int | None = None
    run_id: str | None = None


class StopIntent(Value, frozen=True, tag="stop"):
    """The server was stopped on purpose: its active runs end `server_stop`, and its queues are held."""


Intent: TypeAlias = CancelIntent | StopIntent

_decoder: LateDecoder[Intent] = LateDecoder(Intent)  # type: ignore[arg-type]


class IntentFile:
    """One server's file. `open` creates it while there is space."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._intents: dict[Intent, None] = {}
        self._is_read = False

    def open(self) -> tuple[Intent, ...]:
        """Read the intents that the last server left, and make sure that the file has its size."""
        with self._lock:
            self._read_once()
            return tuple(self._intents)

    def _read_once(self) -> None:
        """A server that stops before it has opened the file must not overwrite what the last one left."""
        if self._is_read:
            return
        try:
            with self._path.open("rb") as file:
                content = file.read(_SIZE)
        except FileNotFoundError:
            content = b""
        self._intents = dict.fromkeys(_read(content))
        self._is_read = True
        if len(content) < _SIZE:
            try:
                self._write()
            except OSError as error:
                _logger.warning("%s could not be created: %s", self._path, error)

    def note(self, intent: Intent) -> bool:
        """Add an intent durably. Returns whether that was possible."""
        with self._lock:
            self._read_once()
            if intent in self._intents:
                return True
            self._intents[intent] = None
            try:
                self._write()
            except OSError as error:
                del self._intents[intent]
                _logger.warning("%r could not be written to %s: %s", intent, self._path, error)
                return False
            return True

    def forget(self, *intents: Intent) -> None:
        """Remove intents that the database has by now."""
        with self._lock:
            known = [intent for intent in intents if intent in self._intents]
            for intent in known:
                del self._intents[intent]
            if known:
                try:
                    self._write()
                except OSError as error:
                    _logger.warning("%s could not be written: %s", self._path, error)

    def _write(self) -> None:
        content = b"".join(msgspec.json.encode(intent) + b"\n" for intent in self._intents)
        if len(content) > _SIZE:
            raise FileTooLarge(self._path, size=len(content), limit=_SIZE)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # Real zeros, not a hole: a later write must not need a block.
            os.pwrite(descriptor, content.ljust(_SIZE, b"\0"), 0)
            if self._intents:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _read(content: bytes) -> Iterator[Intent]:
    """A line that cannot be read was being written when the power failed."""
    for line in content.rstrip(b"\0").splitlines():
        try:
            yield _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            _logger.warning("an intent that cannot be read was skipped: %r", line[:200])
