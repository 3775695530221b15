"""What a store knows of a database that does not answer: one wait for all who need it, then refusals at once.

Readers and the thread that commits share one `Outage`. It only decides: from what happened, and from the times that it
is told. For `WAIT_SECONDS` after the loss all of them try again. Then they are refused without a try, except one at a
time that finds out whether the database is back.
"""

from __future__ import annotations

from threading import Lock

from holdfast.errors import StoreUnreachable
from holdfast.store.postgres.database_errors import lost_since, unreachable

WAIT_SECONDS = 5.0
"""How long a database that does not answer is waited for."""
PROBE_SECONDS = 0.2
"""How often one request tries whether the database is back."""
TURN_SECONDS = 0.5
"""How long something may have waited for its turn, and is still tried."""


class Outage:
    """Used by several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._since: float | None = None
        self._error: BaseException | None = None
        self._probed_at = 0.0
        self._is_probing = False

    def lost(self, error: BaseException, *, now: float) -> None:
        """The database did not answer."""
        with self._lock:
            if self._since is None:
                self._probed_at = now
                self._since = lost_since(error, now=now)
            self._error = error
            self._is_probing = False

    def answered(self) -> None:
        if self._since is not None:
            with self._lock:
                self._since = self._error = None
                self._is_probing = False

    def must_give_up(self, *, began: float, now: float) -> bool:
        """Whether what began then has waited enough. Nobody waits longer than the first who met the loss."""
        since = self._since
        return now - (began if since is None else min(began, since)) >= WAIT_SECONDS

    def refusal(self, *, now: float) -> StoreUnreachable | None:
        """Why something new is not tried; None if it is. One at a time is, `PROBE_SECONDS` after the one before."""
        error = self._over(now=now)
        if error is None:
            return None
        with self._lock:
            waits = PROBE_SECONDS if not self._is_probing else 2 * WAIT_SECONDS
            if now - self._probed_at >= waits:
                self._probed_at, self._is_probing = now, True
                return None
        return unreachable(error)

    def late_refusal(self, *, began: float, now: float) -> StoreUnreachable | None:
        """Why something is not tried that has waited for its turn since it began; None if it is."""
        error = self._over(now=now)
        return None if error is None or now - began < TURN_SECONDS else unreachable(error)

    def _over(self, *, now: float) -> BaseException | None:
        """Why the database does not answer, if it was waited for long enough."""
        since, error = self._since, self._error
        return None if since is None or now - since < WAIT_SECONDS else error
