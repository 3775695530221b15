"""The server under test: a process of its own, or one that runs elsewhere."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.client import AsyncClient
from holdfast.client.server_address import ServerAddress
from holdfast.client.sync_client import SyncClient
from holdfast.errors import Unreachable
from holdfast.locations import Locations

_START_SECONDS = 30.0
_COMPLAINT = re.compile(r"^.*(Traceback| ERROR | CRITICAL )", flags=re.MULTILINE)

CONFIG = """\
[models]
large = "e2e/large"
small = "e2e/small"

[providers.e2e]
wire = "openai-chat"
base_url = "http://127.0.0.1:{port}/v1"

[providers.e2e.models.large]
context_window = 1000000
[providers.e2e.models.small]
context_window = 1000000

[server]
heartbeat = "2s"

[fleet]
{fleet}
"""


class Server:
    """Where it is, and the port on which it looks for its model provider."""

    def __init__(self, address: ServerAddress, *, token: str | None, provider_port: int) -> None:
        self.address = address
        self.token = token
        self.provider_port = provider_port

    def any_address(self) -> ServerAddress:
        """Where the next connection may go."""
        return self.address

    def new_client(self, **options: Any) -> AsyncClient:
        return AsyncClient(self.address, token=self.token, **options)


class ServerProcess(Server):
    """``python -m holdfast serve`` in a home of its own."""

    def __init__(
        self,
        home: Path,
        *,
        pycache: Path,
        provider_port: int | None = None,
        store: str | None = None,
        fleet: str = 'lease = "30s"',
    ) -> None:
        """``store``: the address of a PostgreSQL database; without it, a SQLite file. ``fleet``: further settings."""
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "HOLDFAST_HOME": str(home / "h"),
            "PYTHONPYCACHEPREFIX": str(pycache),
        }
        if "PYTHONPATH" in os.environ:
            self.env["PYTHONPATH"] = os.environ["PYTHONPATH"]
        if store is not None:
            self.env["HOLDFAST_STORE"] = store
        self.locations = Locations.from_env(self.env)
        super().__init__(
            ServerAddress(path=str(self.locations.socket)), token=None, provider_port=provider_port or free_port()
        )
        self.locations.prepare()
        self.locations.config_file.write_text(CONFIG.format(port=self.provider_port, fleet=fleet))
        self._output = home / "output"
        self.command = [sys.executable, "-m", "holdfast", "serve"]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Returns when it answers. Blocks."""
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self.env
            )
        until = time.monotonic() + _START_SECONDS
        with SyncClient(self.address, retry_seconds=0.0) as client:
            while True:
                try:
                    client.health()
                    return
                except Unreachable:
                    status = self._process.poll()
                    if status is not None or time.monotonic() > until:
                        raise AssertionError(f"no server ({status}): {self._output.read_text()}") from None
                    time.sleep(0.02)

    def kill(self) -> None:
        """As a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """As a person would; its exit status."""
        return self._end(signal.SIGTERM)

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        """Nothing of it is left, also none that clients started in its home."""
        if self._process is not None and self._process.poll() is None:
            self._end(signal.SIGKILL)
        with SyncClient(self.address, retry_seconds=0.0) as client, suppress(Unreachable):
            client.stop_server(if_idle=False)

    def stored_drafts(self) -> str:
        """The text of open messages, as a crash would leave it."""
        store = self.env.get("HOLDFAST_STORE")
        if store is None:
            drafts = self.locations.database.with_name(self.locations.database.name + ".drafts")
            return drafts.read_text() if drafts.exists() else ""
        import psycopg

        with psycopg.connect(store) as connection:
            return "".join(body.decode() for (body,) in connection.execute("SELECT body FROM drafts ORDER BY n"))

    def memory(self) -> int:
        """Resident bytes."""
        fields = Path(f"/proc/{self.pid}/status").read_text().split("VmRSS:")[1].split()
        return int(fields[0]) * 1024

    def complaints(self) -> list[str]:
        """What it logged or printed that nothing should make it say."""
        said = [self._output.read_text(errors="replace")] if self._output.exists() else []
        said += [log.read_text(errors="replace") for log in self.locations.logs_dir.glob("server.log*")]
        places = [(text, _COMPLAINT.search(text)) for text in said]
        return [text[found.start() : found.start() + 3000] for text, found in places if found]

    def _end(self, number: int) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(timeout=30)


def free_port() -> int:
    """A port that stays free while nothing listens on it: the kernel gives ports from 32768 on to other programs."""
    while True:
        port = random.SystemRandom().randrange(15_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
