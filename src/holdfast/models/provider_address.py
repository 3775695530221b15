"""Where a provider is: its URL without secrets, and whether a proxy stands in between. Pure."""

from __future__ import annotations

import base64
import ipaddress
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

from holdfast.schema.base import Value


class Network(Value, frozen=True):
    """How to reach the world."""

    proxy: str | None = None
    no_proxy: tuple[str, ...] = ()
    ca_file: str | None = None

    def __repr__(self) -> str:
        return f"Network(proxy={'set' if self.proxy else None}, ca_file={self.ca_file!r})"


class ProviderAddress(msgspec.Struct, frozen=True):
    """One URL to ask. A password in it is taken out and sent as a header, so that no log can show it."""

    url: str
    host: str
    """Name and port, for messages."""
    authorization: str | None = None

    def __repr__(self) -> str:
        return f"Address({self.host!r})"


def provider_address(base_url: str, path: str = "") -> ProviderAddress:
    """A path (with its own query) below a base URL (which may have one too)."""
    base = urlsplit(base_url)
    below, _, query = path.partition("?")
    name = base.hostname or ""
    literal = f"[{name}]" if ":" in name else name
    host = f"{literal}:{base.port}" if base.port else literal
    whole = urlunsplit(
        (base.scheme, host, base.path.rstrip("/") + below, "&".join(part for part in (base.query, query) if part), "")
    )
    authorization = None
    if base.username or base.password:
        pair = f"{unquote(base.username or '')}:{unquote(base.password or '')}"
        authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return ProviderAddress(whole, host, authorization)


def proxy_for(target: ProviderAddress, network: Network) -> str | None:
    """The proxy to use; none for this machine and for what ``no_proxy`` names."""
    if not network.proxy or is_loopback(target.host):
        return None
    return None if any(_names(entry, target.host) for entry in network.no_proxy) else network.proxy


def is_loopback(host: str) -> bool:
    name = _name(host)
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _name(host: str) -> str:
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _names(entry: str, host: str) -> bool:
    """Whether an entry of ``no_proxy`` means this host: ``*``, a name with all below it, an address or network."""
    entry = entry.strip().lower()
    if entry in {"*", host.lower()}:
        return True
    name = _name(host.lower())
    try:
        return ipaddress.ip_address(name) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        suffix = entry.lstrip("*").lstrip(".")
        return bool(suffix) and (name == suffix or name.endswith(f".{suffix}"))
