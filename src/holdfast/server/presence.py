"""Who calls: what a client says of itself, and who is attached to what (`W7`)."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec.structs import replace

from holdfast.errors import BadRequest
from holdfast.events import Hub
from holdfast.schema.events import ClientAttached, ClientDetached
from holdfast.schema.sessions import Client

HEADER = "X-Holdfast-Client"
PATTERN = r"^[!-~]{1,64}( [!-~]{1,64})?$"
_FORM = re.compile(rb"[!-~]{1,64}( [!-~]{1,64})?")


class Caller:
    """``name/version id`` of a request; a client that says nothing is nobody in particular."""

    __slots__ = ("id", "name")

    def __init__(self, name: str = "", id: str = "") -> None:  # noqa: A002 - the client's own word
        self.name = name
        self.id = id

    def __str__(self) -> str:
        """As prompts, cancels and approvals name it."""
        return f"{self.name} {self.id}".strip()


def read_caller(value: bytes | None) -> Caller:
    if value is None:
        return Caller()
    if _FORM.fullmatch(value) is None:
        raise BadRequest(
            f"{HEADER} must be 'name/version id', printable and without other spaces; got {value[:80]!r}",
            detail={"field": HEADER},
        )
    name, _, own_id = value.decode("ascii").partition(" ")
    return Caller(name, own_id)


class Attachment:
    """One open stream of one client."""

    __slots__ = ("client", "workspace_id")

    def __init__(self, client: Client, workspace_id: str | None) -> None:
        self.client = client
        self.workspace_id = workspace_id

    @property
    def place(self) -> tuple[str, str | None, str | None]:
        return self.client.id, self.workspace_id, self.client.session_id


class Presence:
    """Who has a stream open, and which session each looks at. A client with two streams on one place is there once."""

    def __init__(self, hub: Hub, *, new_id: Callable[[], str]) -> None:
        self._hub = hub
        self._new_id = new_id
        self._attached: dict[tuple[str, str | None, str | None], list[Attachment]] = {}

    def attach(self, caller: Caller, *, workspace_id: str | None, session_id: str | None) -> Attachment:
        client = Client(
            id=caller.id or self._new_id(), name=caller.name, session_id=session_id, since=self._hub.timestamp()
        )
        attachment = Attachment(client, workspace_id)
        same = self._attached.setdefault(attachment.place, [])
        same.append(attachment)
        if len(same) == 1:
            event = ClientAttached(at=self._hub.timestamp(), client=client, session_id=session_id)
            self._hub.publish(event, key=_key(attachment), workspace_id=workspace_id)
        return attachment

    def detach(self, attachment: Attachment) -> None:
        same = self._attached[attachment.place]
        same.remove(attachment)
        if not same:
            del self._attached[attachment.place]
            client = replace(attachment.client, since="")
            event = ClientDetached(at=self._hub.timestamp(), client=client, session_id=client.session_id)
            self._hub.publish(event, key=_key(attachment), workspace_id=attachment.workspace_id)

    @property
    def streams(self) -> int:
        return sum(len(same) for same in self._attached.values())

    def clients(self, workspace_id: str | None = None) -> tuple[Client, ...]:
        """Those attached to a workspace, and those that watch all of them."""
        return tuple(
            same[0].client
            for same in self._attached.values()
            if workspace_id is None or same[0].workspace_id in (None, workspace_id)
        )

    def viewers(self, session_id: str) -> tuple[Client, ...]:
        found = {client.id: client for client in self.clients() if client.session_id == session_id}
        return tuple(found.values())

    def watched(self) -> frozenset[str | None]:
        """Workspaces that somebody watches; ``None`` among them: all."""
        return frozenset(same[0].workspace_id for same in self._attached.values())


def _key(attachment: Attachment) -> str:
    return " ".join(part or "-" for part in attachment.place)
