"""What the sender of a request may do: everything, or what the scope of its device and the role of its person allow."""

from __future__ import annotations

from typing import Final

from holdfast.errors import Forbidden
from holdfast.schema.base import Value
from holdfast.schema.devices import AccessScope, Device, includes, narrower
from holdfast.schema.people import Person

ACCESS: Final = "holdfast.access"
"""The key of a request's scope for its `RequestAccess`. Without it, the sender is the owner."""


FORWARDED: Final = "holdfast.forwarded"
"""The key of a request's scope that is set if another server of the fleet sent it."""


class RequestAccess(Value, frozen=True):
    scope: AccessScope
    device: Device | None = None
    person: Person | None = None
    anonymous: bool = False
    """The sender has no token. Only public routes are reached."""

    @classmethod
    def of(cls, device: Device, person: Person | None) -> RequestAccess:
        scope = device.scope if person is None else narrower(device.scope, person.role)
        return cls(scope, device, person)

    @property
    def directories(self) -> tuple[str, ...] | None:
        """The directories whose workspaces the sender may use; ``None``: all."""
        return None if self.person is None else self.person.workspaces

    def require(self, needed: AccessScope) -> None:
        """Raise `Forbidden` if the scope is too narrow."""
        if includes(self.scope, needed):
            return
        advice = f"pair it again with 'holdfast web --scope {needed}'"
        if self.person is not None and not includes(self.person.role, needed):
            advice = f"an admin can change it with 'holdfast people change {self.person.name} --role {needed}'"
        who = "this device" if self.person is None else f"this token of {self.person.name}"
        raise Forbidden(
            f"{who} has the scope {self.scope!r}, and this needs {needed!r}; {advice}",
            code="scope_too_narrow",
            detail={"scope": self.scope, "needed": needed},
        )

    def require_all_workspaces(self) -> None:
        """Raise `Forbidden` if the sender may use only some workspaces."""
        if self.directories is not None:
            raise Forbidden(
                "this concerns the whole server, and you may use only some of its workspaces; ask an admin",
                code="workspaces_restricted",
            )


OWNER: Final = RequestAccess("admin")
