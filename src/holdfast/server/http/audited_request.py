"""One request in the audit: who sent it, and what came of it."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from holdfast.errors import HoldfastError
from holdfast.server.http.request_access import RequestAccess
from holdfast.server.http.responses import ApiResponse, JsonResponse
from holdfast.services.audit_service import Actor, AuditService


def actor_of(access: RequestAccess, client: str) -> Actor:
    person = None if access.person is None else access.person.name
    device_id = None if access.device is None else access.device.id
    return Actor(client, person, "anonymous" if access.anonymous else device_id)


class AuditedRequest:
    """Records a request when it begins, and its outcome when the block ends."""

    __slots__ = ("_audit", "_code", "_entry_id", "_made", "_status")

    def __init__(self, audit: AuditService, actor: Actor, *, action: str, target: str) -> None:
        self._audit = audit
        self._entry_id = audit.begin(actor, action=action, target=target)
        self._status = 500
        self._made: str | None = None
        self._code: str | None = None

    def note_error(self, error: HoldfastError) -> None:
        """Remember the error that is answered."""
        self._code = error.error_code

    def note_made(self, answer: object) -> None:
        """Remember the id of what the handler returned."""
        self._made = _id_of(answer.value if isinstance(answer, JsonResponse) else answer)

    def answered(self, answer: object, *, status: int) -> None:
        """Remember the status of the answer; ``status`` is that of the route."""
        self._status = answer.status if isinstance(answer, ApiResponse) else status

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, HoldfastError):
            self._audit.end(self._entry_id, status=error.status, code=error.error_code)
        elif error is not None:
            self._audit.end(self._entry_id, status=500, code="internal_error")
        else:
            self._audit.end(self._entry_id, status=self._status, code=self._code, made=self._made)


def _id_of(value: Any) -> str | None:
    """The id of a run, of something that has an id, of a device, or the name of a person."""
    for found in (getattr(value, "run", None), value, getattr(value, "device", None)):
        for name in ("id", "device_id"):
            if isinstance(made := getattr(found, name, None), str):
                return made
    return None
