"""The address of a provider: a URL without secrets, and the proxy to use for it. Pure."""

from __future__ import annotations

import base64
import ipaddress
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

if TYPE_CHECKING:
    from holdfast.config.settings import NetworkSettings


class ProviderAddress(msgspec.Struct, frozen=True):
    """The URL of a request. A password in the base URL is moved to a header, so that no log shows it."""

    url: str
    host: str
    """The name and port, for messages."""
    authorization: str | None = None

    def __repr__(self) -> str:
        return f"ProviderAddress({self.host!r})"


@lru_cache(maxsize=64)
def build_address(base_url: str, path: str = "") -> ProviderAddress:
    """Append a path to a base URL. Both may have a query."""
    base = urlsplit(base_url)
    below, _, query = path.partition("?")
    name = base.hostname or ""
    literal = f"[{name}]" if ":" in name else name
    host = f"{literal}:{base.port}" if base.port else literal
    url = urlunsplit(
        (base.scheme, host, base.path.rstrip("/") + below, "&".join(part for part in (base.query, query) if part), "")
    )
    authorization = None
    if base.username or base.password:
        pair = f"{unquote(base.username or '')}:{unquote(base.password or '')}"
        authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return ProviderAddress(url, host, authorization)


def choose_proxy(address: ProviderAddress, network: NetworkSettings) -> str | None:
    """Return the proxy to use. Loopback and the hosts in ``no_proxy`` are reached directly."""
    if not network.proxy or is_loopback(address.host):
        return None
    return None if any(_matches(entry, address.host) for entry in network.no_proxy) else network.proxy


def is_loopback(host: str) -> bool:
    name = _without_port(host)
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _without_port(host: str) -> str:
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _matches(entry: str, host: str) -> bool:
    """Whether an entry of ``no_proxy`` covers a host: ``*``, a domain, an address or a network."""
    entry = entry.strip().lower()
    if entry in {"*", host.lower()}:
        return True
    name = _without_port(host.lower())
    try:
        return ipaddress.ip_address(name) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        suffix = entry.lstrip("*").lstrip(".")
        return bool(suffix) and (name == suffix or name.endswith(f".{suffix}"))
