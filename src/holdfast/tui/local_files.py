"""What the terminal UI keeps on this machine: drafts, past prompts and the last theme. Blocks; call it in a thread.

Everything else is the server's. Losing these files loses no work, so that a file that cannot be read or written is
ignored, apart from a warning in the log.
"""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path

import msgspec

from holdfast.files import read_limited, write_atomic
from holdfast.locations import Locations
from holdfast.schema.base import Value, repair_text

_logger = logging.getLogger(__name__)

_LARGEST_FILE = 8 * 1024 * 1024
_HISTORY_LIMIT = 1000
_LONGEST_HISTORY_LINE = 100_000


class Look(Value, frozen=True):
    """What the first frame needs before the server has answered."""

    theme: str = ""
    plain: bool = False


class LocalFiles:
    """The files of one workspace directory."""

    def __init__(self, locations: Locations, workspace: str) -> None:
        self._directory = locations.state_dir / "tui"
        self._workspace = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16]

    def read_draft(self, session_id: str | None) -> str:
        return self._read(self._draft(session_id)).decode("utf-8", "replace")

    def write_draft(self, session_id: str | None, text: str) -> None:
        """Store the draft of a session, or of the session that the next prompt starts. An empty text removes it."""
        path = self._draft(session_id)
        if text:
            self._write(path, repair_text(text).encode())
            return
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            _logger.warning("cannot remove the draft %s: %s", path, error)

    def read_history(self) -> tuple[str, ...]:
        """The last prompts of this directory, oldest first."""
        lines = self._read(self._history).decode("utf-8", "replace").split("\n")[-_HISTORY_LIMIT - 1 :]
        found = []
        for line in lines:
            try:
                prompt = msgspec.json.decode(line or "null")
            except msgspec.DecodeError:
                continue  # a line that was cut by a crash
            if isinstance(prompt, str):
                found.append(prompt)
        return tuple(found)

    def add_to_history(self, prompt: str) -> None:
        """Append a prompt. Several UIs may write at once: a line is one write."""
        line = msgspec.json.encode(repair_text(prompt)) + b"\n"
        if len(line) > _LONGEST_HISTORY_LINE:
            return
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self._history, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, line)
            finally:
                os.close(descriptor)
        except OSError as error:
            _logger.warning("cannot write %s: %s", self._history, error)

    def read_look(self) -> Look:
        try:
            return msgspec.json.decode(self._read(self._directory / "look.json") or b"{}", type=Look)
        except msgspec.DecodeError:
            return Look()

    def write_look(self, look: Look) -> None:
        self._write(self._directory / "look.json", msgspec.json.encode(look))

    @property
    def _history(self) -> Path:
        return self._directory / f"{self._workspace}-history.jsonl"

    def _draft(self, session_id: str | None) -> Path:
        return self._directory / f"{self._workspace}-{session_id or 'new'}.draft"

    def _read(self, path: Path) -> bytes:
        try:
            return read_limited(path, limit=_LARGEST_FILE)
        except FileNotFoundError:
            return b""
        except OSError as error:
            _logger.warning("cannot read %s: %s", path, error)
            return b""

    def _write(self, path: Path, data: bytes) -> None:
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomic(path, data)
        except OSError as error:
            _logger.warning("cannot write %s: %s", path, error)
