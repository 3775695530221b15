"""The audit: who changed what, from where, and how it ended."""

from __future__ import annotations

from holdfast.schema.base import Value


class AuditEntry(Value, frozen=True):
    """One request that changes something. Neither its body nor its query is recorded."""

    number: int
    """In the order in which entries were stored."""
    id: str
    at: str
    person: str | None
    """The name of the person whose token was used; ``None``: the owner of the server."""
    device_id: str | None
    """The device or token that was used; ``None``: the private socket or the server's own token.

    ``anonymous``: no token, as for a pairing."""
    client: str
    """As the client names itself."""
    action: str
    """Method and route: ``POST /v1/sessions/{session_id}/runs``."""
    target: str
    """The path of the request: ``/v1/sessions/ses_1/runs``."""
    status: int | None = None
    """The status of the answer; ``None``: not answered yet, or the server ended before it had answered."""
    code: str | None = None
    """The error code of the answer."""
    made: str | None = None
    """The id of what was made, such as a run."""
