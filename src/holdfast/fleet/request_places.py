"""Where a request is handled: which workspace it names, and which server must answer it. Pure."""

from __future__ import annotations

from typing import Literal, TypeAlias

from holdfast.schema.base import Value

TargetKind: TypeAlias = Literal["workspace", "session", "run", "approval", "question", "job", "call"]

_KINDS: dict[str, TargetKind] = {
    "workspaces": "workspace",
    "sessions": "session",
    "runs": "run",
    "approvals": "approval",
    "questions": "question",
    "jobs": "job",
    "calls": "call",
}


class RequestTarget(Value, frozen=True):
    """What a request is about."""

    kind: TargetKind
    id: str


def request_target(path: str) -> RequestTarget | None:
    """Return what a path names: ``/v1/runs/run_1/cancel`` is about the run ``run_1``. None: about no workspace."""
    parts = path.split("/")
    if len(parts) < 4 or parts[:2] != ["", "v1"] or not parts[3]:
        return None
    kind = _KINDS.get(parts[2])
    return None if kind is None else RequestTarget(kind, parts[3])


def is_stream(path: str) -> bool:
    """Whether the response is a stream of events. The reader's server answers it, and relays live text."""
    parts = path.split("/")
    return parts[1:] == ["v1", "events"] or (
        len(parts) == 5 and parts[:3:2] == ["", "workspaces"] and parts[4] == "events"
    )


class Handle(Value, frozen=True):
    """This server handles it, with the lease that it has."""


class HandleRead(Value, frozen=True):
    """This server answers it from the database. It takes no lease."""


class TakeAndHandle(Value, frozen=True):
    """This server takes the lease, then handles it."""

    kind: Literal["owner", "caretaker"]


class Forward(Value, frozen=True):
    """Another server handles it."""

    server_id: str


class RefuseForwarded(Value, frozen=True):
    """The request came from another server, and this one is not the owner. The other one looks again."""


class WaitForOwner(Value, frozen=True):
    """The owner's time is over, but nobody has declared it dead yet."""

    server_id: str


RequestPlace: TypeAlias = Handle | HandleRead | TakeAndHandle | Forward | RefuseForwarded | WaitForOwner


class FleetServer(Value, frozen=True):
    """What a decision needs to know of a server."""

    id: str
    host_id: str
    is_alive: bool = True
    is_dead: bool = False
    """Declared dead. One that is neither alive nor dead is late."""
    has_address: bool = True


class PlaceFacts(Value, frozen=True, kw_only=True):
    """What is known when a request for a workspace arrives."""

    me: str
    holder: FleetServer | None
    """The holder of the lease; None if it is free."""
    is_mine: bool
    """Whether this server has the directory."""
    host_id: str
    """The host of the directory; empty if it may be on all."""
    others: tuple[FleetServer, ...] = ()
    mutates: bool
    forwarded: bool
    """Whether another server sent it."""


def choose_place(facts: PlaceFacts) -> RequestPlace:
    """Decide who handles a request.

    The owner handles it. If there is none, a server that has the directory becomes the owner; if there is no such
    server, this one keeps the books (`caretaker`). Reads need no lease.
    """
    holder = facts.holder
    if holder is not None and holder.id == facts.me:
        return Handle()
    if holder is not None and not holder.is_dead:
        if facts.forwarded:
            return RefuseForwarded()
        return Forward(holder.id) if holder.is_alive else WaitForOwner(holder.id)
    if facts.is_mine:
        return TakeAndHandle("owner") if facts.mutates else HandleRead()
    if not facts.forwarded and facts.host_id:
        near = next(
            (one for one in facts.others if one.is_alive and one.has_address and one.host_id == facts.host_id), None
        )
        if near is not None:
            return Forward(near.id)
    return TakeAndHandle("caretaker") if facts.mutates else HandleRead()
