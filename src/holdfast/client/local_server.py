"""Find the local server or start it. Every user interface does this before its first request.

``HOLDFAST_SERVER`` names a server that is used as it is. Without it, the server at the user's own socket is used. If
none responds there, one is started in the background. When several clients start at once, one of them starts the server
and the others wait for it. If two servers are started nevertheless, the lock on the database lets only one of them run.
A server with older code is used while it is busy, and replaced when it is idle. One that a person or a service manager
runs (``holdfast serve``) is never replaced: it has listeners and variables of its own.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from holdfast import __version__
from holdfast.client.server_address import ServerAddress, address_from_env
from holdfast.client.sync_client import SyncClient
from holdfast.directories import find_directories
from holdfast.errors import ConfigError, Conflict, NoAnswer, ServerStopping, StartFailed, Unreachable
from holdfast.ids import build_id

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from holdfast.client.async_client import AsyncClient
    from holdfast.locations import Locations
    from holdfast.schema.api.server_views import Health

ALREADY_RUNNING = 75
"""The exit status of ``serve`` when another server owns the database (``EX_TEMPFAIL``)."""

START_SECONDS = 20.0
_PROBE_SECONDS = 5.0
_POLL_SECONDS = 0.02
_STOP_SECONDS = 40.0
_LOG_LIMIT = 1 << 20
_SENT_WITH_PROMPTS = frozenset({"HOLDFAST_MODEL", "HOLDFAST_SMALL_MODEL"})
_TAIL_BYTES = 4096


def open_sync_client(env: Mapping[str, str], *, name: str, start: bool = True) -> SyncClient:
    """A client of the server named in the environment, or of the local one, which is started if needed."""
    address, token, local = _resolve(env)
    if local is None:
        return SyncClient(address, token=token, name=name)
    if start:
        local.ensure()
    return SyncClient(address, name=name, revive=local.revive if start else None)


async def open_async_client(env: Mapping[str, str], *, name: str, start: bool = True) -> AsyncClient:
    """The same for code that runs on an event loop."""
    import asyncio

    from holdfast.client.async_client import AsyncClient

    address, token, local = await asyncio.to_thread(_resolve, env)
    if local is None:
        return AsyncClient(address, token=token, name=name)
    if start:
        await asyncio.to_thread(local.ensure)
    return AsyncClient(address, name=name, revive=local.revive if start else None)


def _resolve(env: Mapping[str, str]) -> tuple[ServerAddress, str | None, LocalServer | None]:
    named = address_from_env(env)
    if named is not None:
        return named, env.get("HOLDFAST_TOKEN") or None, None
    local = LocalServer(env=env)
    return local.address, None, local


class LocalServer:
    """The server at the user's own socket."""

    def __init__(
        self,
        locations: Locations | None = None,
        *,
        env: Mapping[str, str],
        command: Sequence[str] | None = None,
        build: str | None = None,
        seconds: float = START_SECONDS,
    ) -> None:
        socket_path = str(locations.socket) if locations else find_directories(env).socket
        self.address = ServerAddress(path=socket_path)
        self._given = locations, env
        # The model of a shell counts for the prompts of that shell, not for the server that happens to start there.
        self._env = {name: value for name, value in env.items() if name not in _SENT_WITH_PROMPTS}
        if named := env.get("HOLDFAST_CONFIG"):
            self._env["HOLDFAST_CONFIG"] = os.path.abspath(named)  # the server starts in another directory
        # -P: nothing is imported from the current directory.
        self._command = command or (sys.executable, "-P", "-m", "holdfast", "serve", "--idle-exit")
        self._build = build_id() if build is None else build
        self._seconds = seconds

    @cached_property
    def _locations(self) -> Locations:
        """Not needed to talk to a running server."""
        from holdfast.locations import Locations

        locations, env = self._given
        return locations or Locations.from_env(env)

    @property
    def log(self) -> Path:
        """Output that a server started here writes outside its own log, such as why it could not start."""
        return self._locations.logs_dir / "start.log"

    def ensure(self) -> Health:
        """Return when a server responds: the running one, or a new one. Blocks."""
        health = self.probe()
        if health is not None and not self._is_outdated(health):
            return health
        self._locations.prepare()
        until = time.monotonic() + self._seconds
        with self._start_lock(until):
            return self._use_or_start(until)

    def probe(self) -> Health | None:
        """The health of the running server; ``None`` if there is none."""
        with self._client() as client:
            try:
                return client.health()
            except Unreachable:
                return None
            except NoAnswer as error:
                pid = error.detail.get("pid")
                process = f"process {pid}" if pid else "a process"
                message = f"{process} listens at {self.address} but has not answered within {_PROBE_SECONDS:g} s"
                raise NoAnswer(message, detail=error.detail) from None

    def revive(self, *, pid: int | None, leave_stopped: bool) -> None:
        """Start the server again if it is gone. ``pid`` is the process that responded last. Blocks.

        With ``leave_stopped``, a server that was stopped on purpose is not started again: `ServerStopping` is raised.
        """
        if not leave_stopped:
            self.ensure()
            return
        match diagnose_socket(str(self._locations.socket), pid):
            case "stopped":
                raise ServerStopping("the server was stopped")
            case "died":
                self.ensure()
            case "listens":
                pass  # the next attempt reaches it

    def _client(self) -> SyncClient:
        return SyncClient(self.address, name="start", retry_seconds=0.0, response_seconds=_PROBE_SECONDS)

    def _use_or_start(self, until: float) -> Health:
        """Runs under the lock. Another client may have started a server in the meantime."""
        health = self.probe()
        if health is not None and (not self._is_outdated(health) or self._is_busy(health)):
            return health
        self._wait_until_gone(until)
        return self._start(until)

    def _is_outdated(self, health: Health) -> bool:
        """Whether the server is stopping or has older code. Newer code is never replaced by older."""
        if health.status != "ok":
            return True
        ours, theirs = _version(__version__), _version(health.version)
        if ours != theirs:
            return theirs < ours
        return bool(health.build and self._build) and health.build != self._build

    def _is_busy(self, health: Health) -> bool:
        """Ask the server to stop if it is idle. A busy server, or one that somebody runs, is used as it is."""
        if health.status != "ok":
            return False  # it is stopping already
        with self._client() as client:
            try:
                client.stop_server(if_idle=True)
            except Conflict:
                return True
            except (Unreachable, ServerStopping):
                pass  # it has stopped in the meantime
            return False

    def _wait_until_gone(self, until: float) -> None:
        while self.probe() is not None:
            if time.monotonic() >= until:
                raise StartFailed(f"the server at {self.address} is stopping, but has not exited yet; try again later")
            time.sleep(_POLL_SECONDS)

    def _start(self, until: float) -> Health:
        offset = self._prepare_log()
        process = self._spawn()
        try:
            while True:
                health = self.probe()
                if health is not None and health.status == "ok":
                    return health
                ended = process.poll()
                if ended == ALREADY_RUNNING and time.monotonic() < until:
                    time.sleep(_POLL_SECONDS)  # another server is still stopping, or still starting
                    process = self._spawn() if self.probe() is None else process
                elif ended is not None:
                    message = f"the server could not start (exit status {ended}){self._log_tail(offset)}"
                    raise StartFailed(message, detail={"exit_status": ended})
                elif time.monotonic() >= until:
                    raise StartFailed(f"the server does not answer after {self._seconds:g} s{self._log_tail(offset)}")
                time.sleep(_POLL_SECONDS)
        finally:
            if process.returncode is None:
                process.returncode = 0  # it keeps running; without this, Popen warns about it

    def _spawn(self) -> subprocess.Popen[bytes]:
        import subprocess

        with self.log.open("ab") as log:
            try:
                return subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self._locations.state_dir,
                    env=self._env,
                    start_new_session=True,
                )
            except OSError as error:
                raise StartFailed(f"cannot run {self._command[0]!r}: {error.strerror or error}") from None

    def _prepare_log(self) -> int:
        """Rotate the log if it is large. Returns the offset at which the new server's output begins."""
        try:
            size = self.log.stat().st_size
        except FileNotFoundError:
            return 0
        if size > _LOG_LIMIT:
            os.replace(self.log, self.log.with_suffix(".log.1"))
            return 0
        return size

    def _log_tail(self, offset: int) -> str:
        """The end of the server's output, for an error message."""
        try:
            with self.log.open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                log.seek(max(offset, size - _TAIL_BYTES))
                text = log.read().decode("utf-8", "replace").strip()
        except OSError:
            text = ""
        if text:
            return f":\n{text}"
        if _is_full(self.log.parent):
            return f"; the disk of {str(self.log.parent)!r} is full: free some space, and try again"
        return f"; it printed nothing to {str(self.log)!r}"

    @contextmanager
    def _start_lock(self, until: float) -> Iterator[None]:
        """Only one client at a time starts or replaces the server. The kernel releases the lock of a dead process."""
        from holdfast.files import lock

        path = self._locations.runtime_dir / "start.lock"
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(f"cannot open {str(path)!r}: {error.strerror or error}") from None
        try:
            if not lock(handle, seconds=until - time.monotonic()):
                raise StartFailed(f"another process has been starting the server for {self._seconds:g} s; try again")
            yield
        finally:
            os.close(handle)


def diagnose_socket(path: str, pid: int | None) -> Literal["listens", "stopped", "died"]:
    """Find out why the server at a socket does not respond. ``pid`` is the process that listened there. Blocks.

    A server that stops removes its socket after everything is stored; one that died leaves it behind. If the process is
    still stopping, wait for it.
    """
    until = time.monotonic() + _STOP_SECONDS
    while os.path.exists(path):
        if _listens(path):
            return "listens"
        if pid is None or not is_alive(pid) or time.monotonic() >= until:
            return "died" if os.path.exists(path) else "stopped"
        time.sleep(_POLL_SECONDS)
    return "stopped"


def is_alive(pid: int) -> bool:
    """Whether the process runs. A zombie does not count."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            state = file.read().rpartition(")")[2].split()[0]
    except (ProcessLookupError, PermissionError):
        return False
    except (OSError, IndexError):
        return True  # this platform has no /proc
    return state != "Z"


def _listens(path: str) -> bool:
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_POLL_SECONDS)
        try:
            probe.connect(path)
        except (BlockingIOError, TimeoutError):
            return True  # it is busy
        except OSError:
            return False
    return True


def _is_full(directory: Path) -> bool:
    try:
        status = os.statvfs(directory)
    except OSError:
        return False
    return status.f_bavail == 0


def _version(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: ``1.2.0rc1`` gives ``(1, 2, 0)``."""
    numbers: list[int] = []
    for part in text.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)
