"""Programs that the tests use if they are installed."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

_SETTINGS = """\
[databases]
* = host={host} port=5432 user=postgres
[pgbouncer]
listen_addr =
unix_socket_dir = {directory}
listen_port = 5432
auth_type = any
pool_mode = transaction
max_client_conn = 200
default_pool_size = {pool_size}
server_login_retry = 1
logfile = {directory}/log
pidfile = {directory}/pid
"""


def debian_postgres() -> Path:
    """The programs of an installed PostgreSQL, which has TLS. The one of the registry has not."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found:
        pytest.skip("PostgreSQL with TLS is not installed (Debian: postgresql)")
    return found[-1].parent


class PgBouncer:
    """A pooler in transaction mode before a PostgreSQL."""

    def __init__(self, host: Path, *, pool_size: int = 6) -> None:
        program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
        if program is None:
            pytest.skip("PgBouncer is not installed (Debian: pgbouncer)")
        self._program = program
        self.directory = Path(tempfile.mkdtemp(prefix="hf-pgb-", dir="/tmp"))
        self._settings = self.directory / "settings"
        self._settings.write_text(_SETTINGS.format(host=host, directory=self.directory, pool_size=pool_size))
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        if self._user is not None:
            os.chown(self.directory, self._user.pw_uid, self._user.pw_gid)
        self._process: subprocess.Popen[bytes] | None = None

    def address(self, database: str) -> str:
        """The address of a database through the pooler."""
        split = urlsplit(database)
        assert "host" in parse_qs(split.query)
        return f"{split.scheme}://{split.netloc}{split.path}?host={self.directory}"

    def start(self) -> None:
        user = {} if self._user is None else {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}
        self._process = subprocess.Popen(
            [self._program, "-q", str(self._settings)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **user,  # type: ignore[call-overload]
        )
        until = time.monotonic() + 30
        while True:
            try:
                psycopg.connect(f"postgresql://postgres@/postgres?host={self.directory}").close()
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > until:
                    said = (self.directory / "log").read_text()
                    self.close()
                    raise AssertionError(f"PgBouncer does not answer: {said}") from None
                time.sleep(0.02)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None
        (self.directory / ".s.PGSQL.5432").unlink(missing_ok=True)

    def close(self) -> None:
        if self._process is not None:
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
