"""Servers as clients see them: whether one responds, and those of a fleet.

Every command asks for the health first, so other responses have modules of their own.
"""

from typing import Annotated, Literal

from msgspec import Meta

from holdfast.schema.base import Value


class Health(Value, frozen=True):
    version: str
    build: str = ""
    """A digest of the source tree that the server runs; empty for an installed release."""
    status: Annotated[str, Meta(extra_json_schema={"enum": ["ok", "stopping"]})] = "ok"


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
