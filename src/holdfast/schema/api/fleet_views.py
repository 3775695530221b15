"""The servers of a fleet as clients see them."""

from __future__ import annotations

from typing import Literal

from holdfast.schema.base import Value


class FleetServerView(Value, frozen=True, kw_only=True):
    """One server that uses the database."""

    id: str
    """It changes with every start."""
    host: str
    """The machine that its directories are on."""
    name: str = ""
    """The name of the machine."""
    address: str | None = None
    """Where the other servers reach it."""
    state: Literal["alive", "late", "dead"] = "alive"
    """``late``: it has not renewed its leases in time. ``dead``: it was replaced, and cannot write any more."""
    started_at: str = ""
    expires_in: float | None = None
    """Seconds until its leases end unless it renews them; negative if they have ended."""
    version: str = ""
    pid: int = 0
    workspaces: int = 0
    """How many it owns."""
    active_runs: int = 0
    streams: int = 0
    lag: int = 0
    """How many events it was behind when it last renewed its leases."""


class FleetWorkspaceView(Value, frozen=True, kw_only=True):
    """A workspace that a server owns, or that has unfinished runs."""

    workspace_id: str
    path: str
    host: str = ""
    """The machine that has the directory; empty if all have it."""
    server_id: str | None = None
    """Its owner; ``None``: it has none, and unfinished runs wait for its machine."""
    role: Literal["owner", "caretaker"] | None = None
    """A caretaker keeps the books of a machine that is away."""
    fence: int = 0
    """Grows with every change of the owner."""
    active_runs: int = 0
    queued_runs: int = 0


class FleetView(Value, frozen=True, kw_only=True):
    server_id: str = ""
    """The server that answered."""
    servers: tuple[FleetServerView, ...] = ()
    workspaces: tuple[FleetWorkspaceView, ...] = ()
