"""A server as an administrator meets it: its command line, its log, and its process."""

import signal
import subprocess
import sys
from pathlib import Path

from tests.e2e.server import ServerProcess
from tests.fleet.fleet_servers import TOKEN


class OperatedServer(ServerProcess):
    def __init__(self, home: Path, *, pycache: Path, store: str, provider_port: int, fleet: str) -> None:
        super().__init__(home, pycache=pycache, store=store, provider_port=provider_port, fleet=fleet)
        self.env["HOLDFAST_FLEET_TOKEN"] = TOKEN
        self.command += ["--listen", "127.0.0.1:0"]

    def cli(self, *arguments: str, given: str = "", status: int | None = 0) -> str:
        """Run ``holdfast`` with these arguments in the server's home. Returns what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", *arguments],
            check=False,
            input=given,
            capture_output=True,
            text=True,
            env=self.env,
            cwd=self.env["HOME"],
            timeout=60,
        )
        said = done.stdout + done.stderr
        assert status is None or done.returncode == status, said
        return said

    def refusal(self) -> str:
        """Start a server that cannot start. Returns what it says."""
        done = subprocess.run(self.command, check=False, env=self.env, capture_output=True, text=True, timeout=60)
        assert done.returncode not in (0, -signal.SIGKILL), done.stdout
        return done.stdout + done.stderr

    def everything_written(self) -> str:
        """All that the server printed or logged."""
        found = [self._output.read_text(errors="replace")] if self._output.exists() else []
        found += [log.read_text(errors="replace") for log in self.locations.logs_dir.glob("*")]
        return "\n".join(found)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def shown_by_ps(self) -> str:
        return Path(f"/proc/{self.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
