"""Who calls, and which clients are attached to which workspace and session (`W7`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from msgspec.structs import replace

from holdfast.events import Hub
from holdfast.schema.base import Value
from holdfast.schema.events import ClientAttached, ClientDetached
from holdfast.schema.sessions import Client


class Caller(Value, frozen=True):
    """The client that makes a call. Both fields are empty for an anonymous one."""

    name: str = ""
    """``name/version``."""
    id: str = ""

    def __str__(self) -> str:
        """The form in which prompts, cancels and approvals name it."""
        return f"{self.name} {self.id}".strip()


class AttachedClient:
    """One open event stream of one client."""

    __slots__ = ("client", "workspace_id")

    def __init__(self, client: Client, workspace_id: str | None) -> None:
        self.client = client
        self.workspace_id = workspace_id

    @property
    def place(self) -> tuple[str, str | None, str | None]:
        return self.client.id, self.workspace_id, self.client.session_id


class Presence:
    """The open event streams. Several streams of one client in the same place count as one attached client."""

    def __init__(
        self, hub: Hub, *, new_id: Callable[[], str], on_change: Callable[[str, int], None] | None = None
    ) -> None:
        """``on_change`` is called with a client's id and the number of its streams, when that changes."""
        self._hub = hub
        self._new_id = new_id
        self._on_change = on_change
        self._stream_counts: Counter[str] = Counter()
        self._attached: dict[tuple[str, str | None, str | None], list[AttachedClient]] = {}

    def attach(self, caller: Caller, *, workspace_id: str | None, session_id: str | None) -> AttachedClient:
        client = Client(
            id=caller.id or self._new_id(), name=caller.name, session_id=session_id, since=self._hub.timestamp()
        )
        attached = AttachedClient(client, workspace_id)
        same = self._attached.setdefault(attached.place, [])
        same.append(attached)
        self._count(client.id, 1)
        if len(same) == 1:
            event = ClientAttached(at=self._hub.timestamp(), client=client, session_id=session_id)
            self._hub.publish(event, key=_key(attached), workspace_id=workspace_id)
        return attached

    def move(self, attached: AttachedClient, *, session_id: str | None) -> AttachedClient:
        """Change the session that a client shows."""
        if attached.client.session_id == session_id:
            return attached
        caller = Caller(attached.client.name, attached.client.id)
        moved = self.attach(caller, workspace_id=attached.workspace_id, session_id=session_id)
        self.detach(attached)
        return moved

    def detach(self, attached: AttachedClient) -> None:
        same = self._attached[attached.place]
        same.remove(attached)
        self._count(attached.client.id, -1)
        if not same:
            del self._attached[attached.place]
            client = replace(attached.client, since="")
            event = ClientDetached(at=self._hub.timestamp(), client=client, session_id=client.session_id)
            self._hub.publish(event, key=_key(attached), workspace_id=attached.workspace_id)

    def _count(self, client_id: str, change: int) -> None:
        self._stream_counts[client_id] += change
        count = self._stream_counts[client_id]
        if not count:
            del self._stream_counts[client_id]
        if self._on_change is not None:
            self._on_change(client_id, count)

    def streams_of(self, client_id: str) -> int:
        """The number of open event streams of a client."""
        return self._stream_counts[client_id]

    @property
    def streams(self) -> int:
        return sum(len(same) for same in self._attached.values())

    def clients(self, workspace_id: str | None = None, *, only_here: bool = False) -> tuple[Client, ...]:
        """The clients attached to a workspace, and unless ``only_here`` those attached to all workspaces."""
        places = {workspace_id} if only_here else {None, workspace_id}
        return tuple(
            same[0].client for same in self._attached.values() if workspace_id is None or same[0].workspace_id in places
        )

    def viewers(self, session_id: str) -> tuple[Client, ...]:
        """The clients that show a session."""
        found = {client.id: client for client in self.clients() if client.session_id == session_id}
        return tuple(found.values())

    def watched_workspaces(self) -> frozenset[str | None]:
        """The workspaces that have a stream; ``None`` stands for a stream of all workspaces."""
        return frozenset(same[0].workspace_id for same in self._attached.values())


def _key(attached: AttachedClient) -> str:
    return " ".join(part or "-" for part in attached.place)
