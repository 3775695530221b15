"""The audit (`W15`)."""

from __future__ import annotations

from holdfast.schema.api.request_bodies import AuditQuery
from holdfast.schema.api.response_bodies import PageView
from holdfast.schema.audit import AuditEntry
from holdfast.server.http.endpoint import ApiRequest, Endpoint
from holdfast.services.api_values import page_position
from holdfast.store import AuditFilter


async def list_audit(request: ApiRequest[None, AuditQuery]) -> PageView[AuditEntry]:
    """List who changed what, newest first; or oldest first after a number, with `wait` for the next."""
    query = request.query
    since = query.since
    wanted = AuditFilter(
        since=None if since is None else since.isoformat(),
        person=query.person,
        device_id=query.device,
        target=query.target,
        failed=query.failed,
    )
    return await request.services.audit.entries(
        wanted, limit=query.limit, before=page_position(query.before), after=page_position(query.after), wait=query.wait
    )


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/v1/audit", list_audit, query=AuditQuery, response=PageView[AuditEntry]),
)
