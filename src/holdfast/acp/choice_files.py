"""What an editor chose for a session and has not prompted with yet, in a file per session. Blocking.

The server knows the mode and model of each run. A choice that was made after the last run is known only here; without
it, a session that is loaded by the next process would run in the mode of its last prompt.
"""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec
from msgspec.structs import replace

from holdfast.acp.session_settings import EditorChoices, choices_of_run
from holdfast.files import read_limited, write_atomic
from holdfast.schema.base import Value
from holdfast.schema.runs import Run

_logger = logging.getLogger(__name__)

_LARGEST_FILE = 1 << 16
_MOST_FILES = 500


class SavedChoices(Value, frozen=True):
    chosen: EditorChoices
    after_run: str = ""
    """The last run of the session at that time."""


def known_choices(last: Run | None, saved: SavedChoices | None) -> EditorChoices:
    """The choices of a session that is loaded: those made after its last run, else those of that run."""
    if saved is None:
        return choices_of_run(last)
    if saved.after_run == (last.id if last else ""):
        return saved.chosen
    return replace(choices_of_run(last), delivery=saved.chosen.delivery)


class ChoiceFiles:
    """The files in one directory. The oldest are removed when there are many."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, session_id: str) -> SavedChoices | None:
        try:
            return msgspec.json.decode(read_limited(self._path(session_id), limit=_LARGEST_FILE), type=SavedChoices)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            _logger.warning("the choices of %s cannot be read: %s", session_id, error)
            return None

    def write(self, session_id: str, choices: SavedChoices) -> None:
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self._path(session_id).exists():
                self._make_room()
            write_atomic(self._path(session_id), msgspec.json.encode(choices))
        except OSError as error:
            _logger.warning("the choices of %s cannot be stored: %s", session_id, error)

    def _path(self, session_id: str) -> Path:
        return self._directory / f"{session_id}.json"

    def _make_room(self) -> None:
        found = sorted(self._directory.glob("ses_*.json"), key=lambda path: path.stat().st_mtime)
        for path in found[: max(0, len(found) - _MOST_FILES + 1)]:
            path.unlink(missing_ok=True)
