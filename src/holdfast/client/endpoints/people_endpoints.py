"""People and their tokens, and the audit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from holdfast.client.api_call import ApiCall, QueryValue, api_call, api_path
from holdfast.schema.api.response_bodies import PageView
from holdfast.schema.audit import AuditEntry
from holdfast.schema.devices import AccessScope
from holdfast.schema.people import Person, PersonToken


def people() -> ApiCall[PageView[Person]]:
    return api_call("GET", api_path("people"), returns=PageView[Person])


def add_person(name: str, *, role: AccessScope, workspaces: Sequence[str] | None) -> ApiCall[Person]:
    """Add a person. ``workspaces`` are absolute directories; ``None``: all."""
    return api_call("POST", api_path("people"), {"name": name, "role": role, "workspaces": workspaces}, returns=Person)


def change_person(
    name: str, *, role: AccessScope | None = None, workspaces: Sequence[str] | UnsetType | None = UNSET
) -> ApiCall[Person]:
    """Change what is given. ``workspaces`` ``None``: all."""
    body: dict[str, Any] = {} if role is None else {"role": role}
    if workspaces is not UNSET:
        body["workspaces"] = workspaces
    return api_call("PATCH", api_path("people", name), body, returns=Person)


def remove_person(name: str) -> ApiCall[Person]:
    return api_call("DELETE", api_path("people", name), {}, returns=Person)


def make_person_token(name: str, *, label: str = "", scope: AccessScope = "admin") -> ApiCall[PersonToken]:
    """Make a token. It allows what the person's role and ``scope`` both allow."""
    return api_call("POST", api_path("people", name, "tokens"), {"label": label, "scope": scope}, returns=PersonToken)


def audit(
    *,
    limit: int | None = None,
    before: str | None = None,
    after: str | None = None,
    since: str | None = None,
    person: str | None = None,
    device: str | None = None,
    target: str | None = None,
    failed: bool = False,
    wait: float = 0.0,
) -> ApiCall[PageView[AuditEntry]]:
    """Who changed what, newest first; or after a number, oldest first, with ``wait`` for the next entry."""
    query: dict[str, QueryValue] = {"limit": limit, "before": before, "after": after, "since": since}
    query |= {"person": person, "device": device, "target": target, "failed": failed or None, "wait": wait or None}
    return api_call("GET", api_path("audit"), returns=PageView[AuditEntry], query=query, wait=wait)
