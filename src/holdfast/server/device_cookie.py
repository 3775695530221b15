"""How a browser keeps a device's token: half in a cookie that scripts cannot read, half in the storage of our page.

Browsers send a host's cookies to all its ports, so another server on this host receives that half. They keep the
storage of pages apart by port, so only our own page has the other half, which it sends in a header. Neither half alone
is let in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.server.http.responses import Header

PAGE_KEY_HEADER: Final = b"x-holdfast-page"
_NAME: Final = "holdfast_device"
_SECONDS: Final = 400 * 86_400
"""The longest time that browsers keep a cookie."""


def split_token(token: str) -> tuple[str, str]:
    """The half for the cookie, and the half for the page."""
    middle = len(token) // 2
    return token[:middle], token[middle:]


def make_cookie(half: str, *, server_id: str, secure: bool) -> Header:
    return _header(half, seconds=_SECONDS, server_id=server_id, secure=secure)


def clear_cookie(*, server_id: str, secure: bool) -> Header:
    return _header("", seconds=0, server_id=server_id, secure=secure)


def browser_token(headers: Mapping[bytes, bytes], *, server_id: str, secure: bool) -> str | None:
    """The token of a request that has both halves."""
    half = _read_cookie(headers.get(b"cookie", b""), name=_name(server_id, secure=secure))
    key = headers.get(PAGE_KEY_HEADER, b"").decode("latin-1")
    return half + key if half and key else None


def _read_cookie(header: bytes, *, name: str) -> str | None:
    for pair in header.decode("latin-1").split(";"):
        key, _, value = pair.strip().partition("=")
        if key == name and value:
            return value
    return None


def _name(server_id: str, *, secure: bool) -> str:
    # Two servers on one host need two names. Under TLS, the prefix keeps other hosts of the domain from setting it.
    return f"{'__Host-' if secure else ''}{_NAME}_{server_id}"


def _header(value: str, *, seconds: int, server_id: str, secure: bool) -> Header:
    name = _name(server_id, secure=secure)
    text = f"{name}={value}; Max-Age={seconds}; Path=/; HttpOnly; SameSite=Strict"
    return b"set-cookie", (text + ("; Secure" if secure else "")).encode("ascii")
