"""Devices that were paired with the server, and what each may do."""

from __future__ import annotations

from typing import Final, Literal

from holdfast.schema.base import Value

AccessScope = Literal["watch", "answer", "drive", "admin"]
"""What a token allows. Each scope includes the ones before it."""

_RANKS: Final[dict[AccessScope, int]] = {"watch": 0, "answer": 1, "drive": 2, "admin": 3}


def narrower(one: AccessScope, other: AccessScope) -> AccessScope:
    """What both scopes allow."""
    return one if _RANKS[one] <= _RANKS[other] else other


def includes(scope: AccessScope, needed: AccessScope) -> bool:
    """Whether a token of this scope may do what needs the other one."""
    return _RANKS[scope] >= _RANKS[needed]


class Device(Value, frozen=True):
    """A browser or program with a token: one that was paired, or a person's. The token is stored as a hash only."""

    id: str
    name: str = ""
    """As its owner calls it, or as the device called itself."""
    scope: AccessScope = "watch"
    created_at: str = ""
    last_used_at: str = ""
    revoked_at: str | None = None
    person: str | None = None
    """The name of the person that it belongs to; ``None``: the owner of the server."""
