"""Makes a server a member of a fleet: its host, its token, its leases, and what the HTTP server needs of it."""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from holdfast.config import Keyring, Settings
from holdfast.config.secrets import FLEET_TOKEN_VARIABLE
from holdfast.config.setting_types import Secret
from holdfast.errors import ConfigError
from holdfast.fleet.fleet_member import FleetMember
from holdfast.fleet.fleet_router import FleetRouter
from holdfast.fleet.lease_keeper import LeaseKeeper
from holdfast.fleet.lease_rules import LeaseTimes
from holdfast.fleet.stream_relay import StreamRelay
from holdfast.server import Listener, ServerParts, TcpListener, UnixListener
from holdfast.server.auth import MIN_TOKEN_LENGTH

_STOPS_AFTER = 0.7
"""The share of a lease after which an owner that could not renew stops its work."""
_MACHINE_ID = Path("/etc/machine-id")


async def make_member(
    settings: Settings, keyring: Keyring, env: Mapping[str, str], *, home: Path, on_dead: Callable[[], None]
) -> FleetMember:
    """Make the member of a server with these settings. It is registered when the store is open."""
    lasts, host_id = float(settings.fleet.lease), settings.fleet.host
    keeper = LeaseKeeper(
        host_id=await asyncio.to_thread(machine_id) if host_id is None else host_id,
        times=LeaseTimes(lasts=lasts, stops_after=lasts * _STOPS_AFTER),
        home=str(home),
        on_dead=on_dead,
    )
    return FleetMember(keeper, token=_read_token(keyring, env), shared=settings.fleet.shared, name=host_id or "")


def _read_token(keyring: Keyring, env: Mapping[str, str]) -> str | None:
    token = env.get(FLEET_TOKEN_VARIABLE, "").strip()
    if not token:
        return None
    keyring.remember([Secret(token)])
    if len(token) < MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable():
        raise ConfigError(
            f"the token of the fleet ({FLEET_TOKEN_VARIABLE}) needs at least {MIN_TOKEN_LENGTH} printable characters; "
            "use the same one on every server"
        )
    return token


def machine_id(path: Path = _MACHINE_ID) -> str:
    """A name for this machine that stays the same, and does not tell its machine id. Blocks for a moment."""
    try:
        known = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        known = ""
    return hashlib.sha256(f"holdfast {known or socket.gethostname()}".encode()).hexdigest()[:16]


def own_address(settings: Settings, listeners: list[Listener]) -> str | None:
    """Where other servers reach this one: as configured, over TCP, or on the same machine at its socket."""
    if settings.fleet.address is not None:
        return str(settings.fleet.address).rstrip("/")
    for listener in listeners:
        if isinstance(listener, TcpListener) and listener.host not in ("0.0.0.0", "::"):
            return str(listener)
    unix = next((one for one in listeners if isinstance(one, UnixListener) and one.app is None), None)
    return None if unix is None else str(unix)


def in_fleet(parts: ServerParts, member: FleetMember) -> ServerParts:
    """The parts of an HTTP server that routes requests to the owners of their workspaces."""
    token = member.token
    return replace(
        parts,
        around_routes=lambda app: FleetRouter(app, member),
        peer_access=None if token is None else token.read_access,
        relay=None if token is None else StreamRelay(member),
    )
