"""What a store knows of a database that does not answer: one wait for all who need it, then refusals at once.

Readers and the thread that commits share one `Outage`. It only decides: from what happened, and from the times that it
is told. For `WAIT_SECONDS` after the loss all of them try again. Then they are refused without a try, except one at a
time that finds out whether the database is back.
"""

from __future__ import annotations

from threading import Lock

from holdfast.errors import StoreUnreachable
from holdfast.store.postgres.database_errors import unreachable

WAIT_SECONDS = 5.0
"""How long a database that does not answer is waited for."""
PROBE_SECONDS = 0.2
"""How often one request tries whether the database is back."""


class Outage:
    """Used by several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._since: float | None = None
        self._error: BaseException | None = None
        self._probed_at = 0.0

    def lost(self, error: BaseException, *, now: float) -> None:
        """The database did not answer."""
        with self._lock:
            if self._since is None:
                self._since = self._probed_at = now
            self._error = error

    def answered(self) -> None:
        if self._since is not None:
            with self._lock:
                self._since = self._error = None

    def must_give_up(self, *, began: float, now: float) -> bool:
        """Whether what began then has waited enough. Nobody waits longer than the first who met the loss."""
        since = self._since
        return now - (began if since is None else min(began, since)) >= WAIT_SECONDS

    def refusal(self, *, now: float) -> StoreUnreachable | None:
        """Why something new is not tried; None if it is. Each `PROBE_SECONDS` one is."""
        since, error = self._since, self._error
        if since is None or error is None or now - since < WAIT_SECONDS:
            return None
        with self._lock:
            if now - self._probed_at >= PROBE_SECONDS:
                self._probed_at = now
                return None
        return unreachable(error)
