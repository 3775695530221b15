"""What this server knows of the rows of its workspaces, so that a commit need not read them.

Only the owner of a workspace writes its rows, and every commit checks the fence of its lease. So what was read or
written under a fence is still true at a commit that passes the check with the same fence. It is used in this way only:
if a commit that relies on it is refused for any reason, everything is forgotten, and the commit is done again with
reads. Used by one thread.
"""

from __future__ import annotations

from holdfast.schema.runs import END_STATES, Run
from holdfast.store.postgres.lease_check import Fences
from holdfast.store.rows.transaction import SessionPlace

MAX_SESSIONS = 4096
MAX_RUNS = 4096
MAX_MESSAGES = 16_384


class KnownSession:
    __slots__ = ("fence", "last_seq", "place", "usage")

    def __init__(self, place: SessionPlace, fence: int) -> None:
        self.place = place
        self.fence = fence
        self.last_seq: int | None = None
        """The number of its newest message; None if it is not known."""
        self.usage: bytes | None = None
        """Its usage as stored; None if it is not known."""


class KnownRows:
    """Grows up to a limit, then is forgotten as a whole: what is in use is read again once."""

    def __init__(self, fences: Fences) -> None:
        self._fences = fences
        self._sessions: dict[str, KnownSession] = {}
        self._runs: dict[str, Run] = {}
        """Unfinished runs as stored. True while their session is known."""
        self._messages: set[str] = set()
        """Ids of messages that exist. Any other id is taken to be new: the database refuses it if it is not."""

    def clear(self) -> None:
        self._sessions.clear()
        self._runs.clear()

    def session(self, session_id: str) -> KnownSession | None:
        found = self._sessions.get(session_id)
        if found is not None and self._fences.fence(found.place.workspace_id) != found.fence:
            self.clear()
            return None
        return found

    def add_session(self, session_id: str, place: SessionPlace) -> KnownSession | None:
        fence = self._fences.fence(place.workspace_id)
        if fence is None or place.deleted:
            return None
        if len(self._sessions) >= MAX_SESSIONS:
            self.clear()
        found = self._sessions[session_id] = KnownSession(place, fence)
        return found

    def run(self, run_id: str) -> Run | None:
        found = self._runs.get(run_id)
        return None if found is None or self.session(found.session_id) is None else found

    def add_run(self, run: Run) -> None:
        """The run is stored like this now."""
        if run.state in END_STATES or run.session_id not in self._sessions:
            self._runs.pop(run.id, None)
            return
        if len(self._runs) >= MAX_RUNS:
            self._runs.clear()
        self._runs[run.id] = run

    def has_message(self, message_id: str) -> bool:
        return message_id in self._messages

    def add_message(self, message_id: str) -> None:
        if len(self._messages) >= MAX_MESSAGES:
            self._messages.clear()
        self._messages.add(message_id)
