"""Where files are: computed from the environment that the caller passes.

``HOLDFAST_HOME`` puts everything into one directory. Otherwise the XDG directories are used, and on macOS the
platform's directories unless the XDG variables are set.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from holdfast.directories import SOCKET_NAME, find_directories
from holdfast.errors import ConfigError


class Locations(msgspec.Struct, frozen=True):
    """The four directories, and the files in them."""

    config_dir: Path
    data_dir: Path
    state_dir: Path
    runtime_dir: Path

    @classmethod
    def from_env(cls, env: Mapping[str, str], *, platform: str = sys.platform, uid: int | None = None) -> Locations:
        """Return the locations for an environment. Raises `ConfigError` if it names no usable directory."""
        return cls(*map(Path, find_directories(env, platform=platform, uid=uid)))

    @property
    def config_file(self) -> Path:
        return self.config_dir / "config.toml"

    @property
    def instructions_file(self) -> Path:
        """The user's instructions for all workspaces."""
        return self.config_dir / "AGENTS.md"

    @property
    def skills_dir(self) -> Path:
        """The user's skills."""
        return self.config_dir / "skills"

    @property
    def memory_dir(self) -> Path:
        """What the user asked to remember: a file for all projects, and one for each."""
        return self.config_dir / "memory"

    @property
    def database(self) -> Path:
        """The database: one per user, for all workspaces."""
        return self.data_dir / "holdfast.db"

    @property
    def backups_dir(self) -> Path:
        """Automatic backups of the database."""
        return self.data_dir / "backups"

    @property
    def intents_file(self) -> Path:
        """Cancels and stops that the database could not take."""
        return self.data_dir / "holdfast.intents"

    @property
    def secrets_file(self) -> Path:
        """Keys, separate from the configuration, which many users keep in a repository."""
        return self.data_dir / "secrets.json"

    @property
    def trust_file(self) -> Path:
        return self.data_dir / "trust.json"

    @property
    def snapshots_dir(self) -> Path:
        """Contents of files before and after the agent changed them."""
        return self.data_dir / "snapshots"

    @property
    def outputs_dir(self) -> Path:
        """Complete outputs of tool calls."""
        return self.data_dir / "outputs"

    @property
    def programs_dir(self) -> Path:
        """Links to the programs that Holdfast brings along, for the agent's commands."""
        return self.data_dir / "bin"

    def session_outputs(self, session_id: str) -> Path:
        """Complete outputs of the calls of one session."""
        return self.outputs_dir / session_id

    def session_temporary(self, session_id: str) -> Path:
        """Temporary files of one session's commands. The path is short, because sockets may be made in it."""
        return self.temporary_dir / session_id[-12:]

    def workspace_languages(self, workspace_id: str) -> Path:
        """Files that the language servers of a workspace write, such as caches."""
        return self.temporary_dir / f"lsp-{workspace_id[-12:]}"

    @property
    def temporary_dir(self) -> Path:
        return self.data_dir / "tmp"

    @property
    def own_directories(self) -> tuple[Path, ...]:
        """All directories, without those that are inside another one."""
        every = (self.config_dir, self.data_dir, self.state_dir, self.runtime_dir)
        starts = tuple(f"{path}/" for path in every)
        return tuple(dict.fromkeys(path for path in every if not str(path).startswith(starts)))

    @property
    def logs_dir(self) -> Path:
        return self.state_dir / "logs"

    @property
    def crush_dir(self) -> Path:
        """Where the clients of Crush write their logs."""
        return self.state_dir / "crush"

    @property
    def web_file(self) -> Path:
        """Where the server serves its web page."""
        return self.state_dir / "web.json"

    @property
    def socket(self) -> Path:
        return self.runtime_dir / SOCKET_NAME

    def prepare(self) -> None:
        """Create the directories, private to the user. Blocks; call it in a thread or before the event loop starts."""
        for directory in (self.config_dir, self.data_dir, self.state_dir):
            _create(directory)
        for directory in (self.snapshots_dir, self.outputs_dir, self.logs_dir):
            _create(directory)
        _create(self.runtime_dir)
        _require_private(self.runtime_dir)


def _create(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    except FileExistsError:
        raise ConfigError(f"{str(directory)!r} is not a directory; move it or set HOLDFAST_HOME") from None
    except OSError as error:
        raise ConfigError(
            f"cannot create {str(directory)!r}: {error.strerror or error}; "
            "set HOLDFAST_HOME to a directory that can be written"
        ) from None


def _require_private(directory: Path) -> None:
    """Make sure that no other user can put a socket into the directory; its parent may be shared."""
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise ConfigError(
            f"{str(directory)!r} does not belong to you or is not a directory; remove it or set XDG_RUNTIME_DIR"
        )
    if status.st_mode & 0o077:
        directory.chmod(0o700)
