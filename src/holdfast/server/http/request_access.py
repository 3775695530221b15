"""What the sender of a request may do: everything, or what the scope of its device allows."""

from __future__ import annotations

from typing import Final

from holdfast.errors import Forbidden
from holdfast.schema.base import Value
from holdfast.schema.devices import AccessScope, Device, includes

ACCESS: Final = "holdfast.access"
"""The key of a request's scope for its `RequestAccess`. Without it, the sender is the owner."""


class RequestAccess(Value, frozen=True):
    scope: AccessScope
    device: Device | None = None

    def require(self, needed: AccessScope) -> None:
        """Raise `Forbidden` if the scope is too narrow."""
        if not includes(self.scope, needed):
            raise Forbidden(
                f"this device has the scope {self.scope!r}, and this needs {needed!r}; "
                f"pair it again with 'holdfast web --scope {needed}'",
                code="scope_too_narrow",
                detail={"scope": self.scope, "needed": needed},
            )


OWNER: Final = RequestAccess("admin")
