"""Find the local server, or start it: what every face does before its first request.

``HOLDFAST_SERVER`` names a server that is used as it is. Without it, the server behind the user's own socket is used;
if nobody answers there, one is started, detached, and it is ready when it answers. When several clients start at once,
one of them starts the server while the others wait for its answer; should two servers be started all the same, the
lock on the ledger lets one of them live. A server with older code is used while it is busy, and replaced when idle.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast import __version__
from holdfast.client.server_address import Address, address_from_env
from holdfast.client.sync_client import SyncClient
from holdfast.errors import ConfigError, Conflict, NoAnswer, StartFailed, Stopping, Unreachable
from holdfast.files import lock
from holdfast.ids import build_id
from holdfast.locations import Locations
from holdfast.schema.api.response_bodies import Health

if TYPE_CHECKING:
    import subprocess

    from holdfast.client.async_client import Client

ALREADY_RUNNING = 75
"""The exit status of ``serve`` when another server owns the ledger (``EX_TEMPFAIL``)."""

START_SECONDS = 20.0
_PROBE_SECONDS = 5.0
_POLL_SECONDS = 0.02
_LOG_LIMIT = 1 << 20
_TAIL_BYTES = 4096


def open_sync(env: Mapping[str, str], *, name: str, start: bool = True) -> SyncClient:
    """A client of the server that the environment means, found or started."""
    address, token, local = _place(env)
    if local is None:
        return SyncClient(address, token=token, name=name)
    if start:
        local.ensure()
    return SyncClient(address, name=name, revive=local.ensure if start else None)


async def open_client(env: Mapping[str, str], *, name: str, start: bool = True) -> Client:
    """The same for an event loop."""
    import asyncio

    from holdfast.client.async_client import Client

    address, token, local = await asyncio.to_thread(_place, env)
    if local is None:
        return Client(address, token=token, name=name)
    if start:
        await asyncio.to_thread(local.ensure)
    return Client(address, name=name, revive=local.ensure if start else None)


def _place(env: Mapping[str, str]) -> tuple[Address, str | None, LocalServer | None]:
    named = address_from_env(env)
    if named is not None:
        return named, env.get("HOLDFAST_TOKEN") or None, None
    local = LocalServer(Locations.from_env(env), env=env)
    return local.address, None, local


class LocalServer:
    """The server behind the user's own socket."""

    def __init__(
        self,
        locations: Locations,
        *,
        env: Mapping[str, str],
        command: Sequence[str] | None = None,
        build: str | None = None,
        seconds: float = START_SECONDS,
    ) -> None:
        self.address = Address(path=str(locations.socket))
        self._locations = locations
        self._env = dict(env)
        # -P: nothing of the directory that the person happens to be in is imported.
        self._command = command or (sys.executable, "-P", "-m", "holdfast", "serve", "--idle-exit")
        self._build = build_id() if build is None else build
        self._seconds = seconds

    @property
    def log(self) -> Path:
        """What a server that was started here says outside of its own log: why it could not start, above all."""
        return self._locations.logs_dir / "start.log"

    def ensure(self) -> Health:
        """Returns when a server answers: the one that was there, or one that was started. Blocks."""
        health = self.probe()
        if health is not None and not self._is_to_be_replaced(health):
            return health
        self._locations.prepare()
        until = time.monotonic() + self._seconds
        with self._starting(until):
            return self._settle(until)

    def probe(self) -> Health | None:
        """What the server says of itself; ``None`` if there is none."""
        with self._client() as client:
            try:
                return client.health()
            except Unreachable:
                return None
            except NoAnswer as error:
                pid = error.detail.get("pid")
                who = f"process {pid}" if pid else "something"
                what = f"{who} listens at {self.address} but has not answered within {_PROBE_SECONDS:g} s"
                raise NoAnswer(what, detail=error.detail) from None

    def _client(self) -> SyncClient:
        return SyncClient(self.address, name="start", patience=0.0, answer_seconds=_PROBE_SECONDS)

    def _settle(self, until: float) -> Health:
        """The one who may start a server decides; whoever was faster has left one that answers."""
        health = self.probe()
        if health is not None and (not self._is_to_be_replaced(health) or self._is_busy(health)):
            return health
        self._wait_until_gone(until)
        return self._start(until)

    def _is_to_be_replaced(self, health: Health) -> bool:
        """Older code is replaced; newer code is understood, and never replaced by older."""
        if health.status != "ok":
            return True
        ours, theirs = _version(__version__), _version(health.version)
        if ours != theirs:
            return theirs < ours
        return bool(health.build and self._build) and health.build != self._build

    def _is_busy(self, health: Health) -> bool:
        """A busy server is used as it is; one that is not was asked to stop here."""
        if health.status != "ok":
            return False  # it is stopping already
        with self._client() as client:
            try:
                client.stop_server(if_idle=True)
            except Conflict:
                return True
            except (Unreachable, Stopping):
                pass  # it was faster
            return False

    def _wait_until_gone(self, until: float) -> None:
        while self.probe() is not None:
            if time.monotonic() >= until:
                raise StartFailed(f"the server at {self.address} is stopping, but has not ended; try again later")
            time.sleep(_POLL_SECONDS)

    def _start(self, until: float) -> Health:
        offset = self._prepare_log()
        child = self._spawn()
        try:
            while True:
                health = self.probe()
                if health is not None and health.status == "ok":
                    return health
                ended = child.poll()
                if ended == ALREADY_RUNNING and time.monotonic() < until:
                    time.sleep(_POLL_SECONDS)  # an older one that is still leaving, or one that is still coming
                    child = self._spawn() if self.probe() is None else child
                elif ended is not None:
                    what = f"the server could not start (exit status {ended}){self._tail(offset)}"
                    raise StartFailed(what, detail={"exit_status": ended})
                elif time.monotonic() >= until:
                    raise StartFailed(f"the server does not answer after {self._seconds:g} s{self._tail(offset)}")
                time.sleep(_POLL_SECONDS)
        finally:
            if child.returncode is None:
                child.returncode = 0  # it lives on, and is not ours to wait for

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
        """Where the new server's words will begin."""
        try:
            size = self.log.stat().st_size
        except FileNotFoundError:
            return 0
        if size > _LOG_LIMIT:
            os.replace(self.log, self.log.with_suffix(".log.1"))
            return 0
        return size

    def _tail(self, offset: int) -> str:
        """What it said, for the message."""
        try:
            with self.log.open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                log.seek(max(offset, size - _TAIL_BYTES))
                said = log.read().decode("utf-8", "replace").strip()
        except OSError:
            said = ""
        return f":\n{said}" if said else f"; it said nothing in {str(self.log)!r}"

    @contextmanager
    def _starting(self, until: float) -> Iterator[None]:
        """One client at a time starts or replaces the server. The kernel frees the lock of one that dies."""

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


def _version(text: str) -> tuple[int, ...]:
    """Its numbers, as far as they go: ``1.2.0rc1`` is ``(1, 2, 0)``."""
    numbers: list[int] = []
    for part in text.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)
