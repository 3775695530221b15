"""Where things live: one value, made from an environment that is given, never looked up.

XDG on Linux and wherever its variables are set, the platform's own places on macOS, and one directory for everything
with ``HOLDFAST_HOME``.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from holdfast.errors import ConfigError

_LONGEST_SOCKET = 100
"""Bytes of a Unix socket's path that every kernel takes (macOS has 104 with the closing zero, Linux 108)."""


class Locations(msgspec.Struct, frozen=True):
    """The four directories, and what is in them."""

    config_dir: Path
    data_dir: Path
    state_dir: Path
    runtime_dir: Path

    @classmethod
    def from_env(cls, env: Mapping[str, str], *, platform: str = sys.platform, uid: int | None = None) -> Locations:
        """The same environment gives the same places. `ConfigError` for one that says nothing usable."""
        uid = os.getuid() if uid is None else uid
        if root := env.get("HOLDFAST_HOME"):
            home = Path(root)
            if not home.is_absolute():
                raise ConfigError(f"HOLDFAST_HOME must be an absolute path, got {root!r}")
            found = cls(home / "config", home / "data", home / "state", home / "run")
        else:
            found = cls(*_usual_places(env, platform=platform, uid=uid))
        return found if _socket_fits(found.socket) else msgspec.structs.replace(found, runtime_dir=_short(found, uid))

    @property
    def config_file(self) -> Path:
        return self.config_dir / "config.toml"

    @property
    def instructions_file(self) -> Path:
        """The user's own instructions for every workspace."""
        return self.config_dir / "AGENTS.md"

    @property
    def skills_dir(self) -> Path:
        """The user's own skills."""
        return self.config_dir / "skills"

    @property
    def database(self) -> Path:
        """The ledger: one per user, workspaces are rows in it."""
        return self.data_dir / "holdfast.db"

    @property
    def secrets_file(self) -> Path:
        """Keys, apart from the configuration: that is often kept in a repository."""
        return self.data_dir / "secrets.json"

    @property
    def trust_file(self) -> Path:
        return self.data_dir / "trust.json"

    @property
    def snapshots_dir(self) -> Path:
        """Files as they were before the agent wrote them."""
        return self.data_dir / "snapshots"

    @property
    def outputs_dir(self) -> Path:
        """Whole outputs of tool calls."""
        return self.data_dir / "outputs"

    @property
    def logs_dir(self) -> Path:
        return self.state_dir / "logs"

    @property
    def socket(self) -> Path:
        return self.runtime_dir / "holdfast.sock"

    def prepare(self) -> None:
        """Create the directories, readable by their owner only. Blocks: call it in a thread or before the loop."""
        for directory in (self.config_dir, self.data_dir, self.state_dir):
            _make(directory)
        for directory in (self.snapshots_dir, self.outputs_dir, self.logs_dir):
            _make(directory)
        _make(self.runtime_dir)
        _keep_private(self.runtime_dir)


def _usual_places(env: Mapping[str, str], *, platform: str, uid: int) -> tuple[Path, Path, Path, Path]:
    home = _home(env, uid=uid)
    mac = platform == "darwin"
    support = home / "Library" / "Application Support" / "holdfast"
    config = _xdg(env, "XDG_CONFIG_HOME", support if mac else home / ".config" / "holdfast")
    data = _xdg(env, "XDG_DATA_HOME", support if mac else home / ".local" / "share" / "holdfast")
    state = _xdg(env, "XDG_STATE_HOME", support / "state" if mac else home / ".local" / "state" / "holdfast")
    temporary = env.get("TMPDIR", "") if mac else ""
    private = Path(temporary) / "holdfast" if temporary.startswith("/") else state / "run"
    return config, data, state, _xdg(env, "XDG_RUNTIME_DIR", private)


def _xdg(env: Mapping[str, str], name: str, otherwise: Path) -> Path:
    """By its specification, a relative path in one of these variables is to be ignored."""
    value = env.get(name, "")
    return Path(value) / "holdfast" if value.startswith("/") else otherwise


def _home(env: Mapping[str, str], *, uid: int) -> Path:
    home = env.get("HOME", "")
    if home.startswith("/"):
        return Path(home)
    import pwd

    try:
        return Path(pwd.getpwuid(uid).pw_dir)
    except KeyError:
        raise ConfigError("HOME is not set and the user has no home directory; set HOME or HOLDFAST_HOME") from None


def _socket_fits(socket: Path) -> bool:
    return len(os.fsencode(socket)) <= _LONGEST_SOCKET


def _short(locations: Locations, uid: int) -> Path:
    """A runtime directory whose socket's path the kernel takes; client and server come to the same one."""
    import hashlib

    digest = hashlib.sha256(os.fsencode(locations.runtime_dir)).hexdigest()[:16]
    return Path("/tmp") / f"holdfast-{uid}-{digest}"


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    except FileExistsError:
        raise ConfigError(f"{str(directory)!r} is in the way: a directory is expected there") from None
    except OSError as error:
        raise ConfigError(f"cannot create {str(directory)!r}: {error.strerror or error}") from None


def _keep_private(directory: Path) -> None:
    """Nobody else may put a socket where ours is looked for, least of all below a shared directory."""
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise ConfigError(f"{str(directory)!r} is not a directory of yours; remove it or set XDG_RUNTIME_DIR")
    if status.st_mode & 0o077:
        directory.chmod(0o700)
