"""The cookie that holds a device's token in a browser. Scripts cannot read it, and other sites cannot use it."""

from __future__ import annotations

from typing import Final

from holdfast.server.http.responses import Header

_NAME: Final = "holdfast_device"
_SECONDS: Final = 400 * 86_400
"""The longest time that browsers keep a cookie."""


def make_cookie(token: str, *, server_id: str, secure: bool) -> Header:
    return _header(token, seconds=_SECONDS, server_id=server_id, secure=secure)


def clear_cookie(*, server_id: str, secure: bool) -> Header:
    return _header("", seconds=0, server_id=server_id, secure=secure)


def read_cookie(header: bytes, *, server_id: str) -> str | None:
    """The token in a ``Cookie`` header."""
    name = f"{_NAME}_{server_id}"
    for pair in header.decode("latin-1").split(";"):
        key, _, value = pair.strip().partition("=")
        if key == name and value:
            return value
    return None


def _header(value: str, *, seconds: int, server_id: str, secure: bool) -> Header:
    # Browsers send a host's cookies to all its ports, so the name says which server it belongs to.
    text = f"{_NAME}_{server_id}={value}; Max-Age={seconds}; Path=/; HttpOnly; SameSite=Strict"
    return b"set-cookie", (text + ("; Secure" if secure else "")).encode("ascii")
