"""A store into which another is being copied is not opened by a server."""

from __future__ import annotations

from holdfast.errors import StoreDamaged

UNFINISHED = "copying:"
"""How the id of the event log begins until a copy is complete; then follows the id of its source."""


def require_finished(log_id: str) -> None:
    if log_id.startswith(UNFINISHED):
        raise StoreDamaged(
            "a copy into this database was not finished; run the same 'holdfast store copy' again, it goes on where it "
            "was, or use another database"
        )
