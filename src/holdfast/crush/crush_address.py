"""Where the clients of Crush look for their server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from holdfast.errors import ConfigError

_MAX_PATH_BYTES = 104
"""Crush moves its socket to ``/tmp`` if the path is longer."""


def crush_socket(address: str, env: Mapping[str, str], *, uid: int) -> Path:
    """The path of an address: ``unix:///path``, or ``auto`` for the socket that Crush's clients use by default."""
    if address == "auto":
        return _default_socket(env, uid=uid)
    scheme, separator, path = address.partition("://")
    if not separator or scheme != "unix" or not path.startswith("/"):
        raise ConfigError(
            f"--crush needs a Unix socket such as unix:///run/user/1000/crush.sock, or 'auto'; got {address!r}",
            detail={"option": "--crush"},
        )
    if len(os.fsencode(path)) > _MAX_PATH_BYTES:
        raise ConfigError(
            f"the path of the Crush socket is longer than {_MAX_PATH_BYTES} bytes; choose a shorter one than {path!r}",
            detail={"option": "--crush"},
        )
    return Path(path)


def _default_socket(env: Mapping[str, str], *, uid: int) -> Path:
    name = f"crush-{uid}.sock"
    path = Path(env.get("XDG_RUNTIME_DIR") or env.get("TMPDIR") or "/tmp") / name
    return path if len(os.fsencode(path)) <= _MAX_PATH_BYTES else Path("/tmp") / name
