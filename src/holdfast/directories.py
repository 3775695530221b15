"""The names of Holdfast's directories, computed from an environment as plain texts.

It does not import `pathlib`: a command needs only the path of the socket, and would pay a twentieth of its time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

from holdfast.errors import ConfigError

SOCKET_NAME = "holdfast.sock"
_MAX_SOCKET_PATH = 100
"""Bytes of a Unix socket's path that every kernel accepts (macOS 104 and Linux 108, with the closing zero)."""


class Directories(NamedTuple):
    config: str
    data: str
    state: str
    runtime: str

    @property
    def socket(self) -> str:
        return _join(self.runtime, SOCKET_NAME)


def find_directories(env: Mapping[str, str], *, platform: str = sys.platform, uid: int | None = None) -> Directories:
    """Return the directories for an environment. Raises `ConfigError` if it names no usable ones."""
    uid = os.getuid() if uid is None else uid
    if root := env.get("HOLDFAST_HOME"):
        if not root.startswith("/"):
            raise ConfigError(f"HOLDFAST_HOME must be an absolute path, got {root!r}")
        found = Directories(_join(root, "config"), _join(root, "data"), _join(root, "state"), _join(root, "run"))
    else:
        found = _default_directories(env, platform=platform, uid=uid)
    if len(os.fsencode(found.socket)) <= _MAX_SOCKET_PATH:
        return found
    return found._replace(runtime=_short_runtime_directory(found.runtime, uid))


def _default_directories(env: Mapping[str, str], *, platform: str, uid: int) -> Directories:
    home = _home(env, uid=uid)
    mac = platform == "darwin"
    support = _join(home, "Library", "Application Support", "holdfast")
    config = _xdg(env, "XDG_CONFIG_HOME", support if mac else _join(home, ".config", "holdfast"))
    data = _xdg(env, "XDG_DATA_HOME", support if mac else _join(home, ".local", "share", "holdfast"))
    state = _xdg(env, "XDG_STATE_HOME", _join(support, "state") if mac else _join(home, ".local", "state", "holdfast"))
    temporary = env.get("TMPDIR", "") if mac else ""
    private = _join(temporary, "holdfast") if temporary.startswith("/") else _join(state, "run")
    return Directories(config, data, state, _xdg(env, "XDG_RUNTIME_DIR", private))


def _xdg(env: Mapping[str, str], name: str, default: str) -> str:
    """The XDG specification says that a relative path must be ignored."""
    value = env.get(name, "")
    return _join(value, "holdfast") if value.startswith("/") else default


def _home(env: Mapping[str, str], *, uid: int) -> str:
    home = env.get("HOME", "")
    if home.startswith("/"):
        return home
    import pwd

    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        raise ConfigError("HOME is not set and the user has no home directory; set HOME or HOLDFAST_HOME") from None


def _short_runtime_directory(runtime: str, uid: int) -> str:
    """Return a directory with a short enough socket path. Client and server compute the same one."""
    from holdfast.digests import sha256_hex

    digest = sha256_hex(os.fsencode(runtime))[:16]
    return f"/tmp/holdfast-{uid}-{digest}"


def _join(*parts: str) -> str:
    """Join the parts of an absolute path, without empty parts and without ``.``, as `pathlib` does."""
    start = "//" if parts[0].startswith("//") and not parts[0].startswith("///") else "/"
    return start + "/".join(name for part in parts for name in part.split("/") if name not in ("", "."))
