"""A server process in a home of its own, for a trial: it ends with its owner, and may be killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from holdfast.client.local_server import LocalServer
from holdfast.client.server_address import ServerAddress
from holdfast.errors import StartFailed
from holdfast.locations import Locations

_POLL_SECONDS = 0.02
_START_SECONDS = 60.0
_STOP_SECONDS = 25.0
_MOST_OUTPUT = 20_000
SERVE = ("-P", "-m", "holdfast", "serve")
"""The arguments of Python that start a server; ``-P`` ignores modules in the current directory."""


class OwnServer:
    """``HOLDFAST_HOME`` is ``directory/home``, and what the process prints goes to ``directory/server.txt``."""

    def __init__(
        self,
        directory: Path,
        *,
        env: Mapping[str, str],
        command: Sequence[str] = SERVE,
        options: Sequence[str] = (),
        inherited: Sequence[int] = (),
    ) -> None:
        """``inherited``: descriptors that the process gets."""
        self.env = {name: value for name, value in env.items() if not name.startswith("HOLDFAST_")}
        self.env["HOLDFAST_HOME"] = str(directory / "home")
        self.locations = Locations.from_env(self.env)
        self._server = LocalServer(self.locations, env=self.env)
        self._command = [sys.executable, *command, *options]
        self._inherited = tuple(inherited)
        self._printed = directory / "server.txt"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> ServerAddress:
        return self._server.address

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not started"
        return self._process.pid

    def printed(self) -> str:
        """The end of what the process printed."""
        if not self._printed.exists():
            return ""
        return self._printed.read_text(errors="replace")[-_MOST_OUTPUT:].strip()

    def start(self) -> None:
        """Start the process and wait until it responds. Blocks."""
        with self._printed.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self.env,
                start_new_session=True,
                pass_fds=self._inherited,
            )
        until = time.monotonic() + _START_SECONDS
        while self._server.probe() is None:
            if self._process.poll() is not None or time.monotonic() > until:
                raise StartFailed(f"the server could not start:\n{self.printed()}")
            time.sleep(_POLL_SECONDS)

    def kill(self) -> None:
        """End the process at once, as ``kill -9`` does. Blocks."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask the process to stop, and kill it if it does not. Returns its exit status. Blocks."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        process = self._process
        if process is None:
            return 0
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)
        try:
            return process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
