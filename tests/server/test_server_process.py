"""The process of a server: its log is rotated, complete when it ends and without secrets; its threads share a heap."""

import logging
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.client.own_server import OwnServer
from holdfast.client.sync_client import SyncClient
from holdfast.config import Redactor, Secret
from holdfast.schema.base import encode
from holdfast.server import log_file
from holdfast.server.log_file import log_to_file

logger = logging.getLogger("holdfast.test_logs")


def test_lines_have_utc_times_levels_and_names_and_errors_their_traces(tmp_path: Path) -> None:
    with log_to_file(tmp_path, redactor=Redactor) as path:
        logger.info("hello %s", "there")
        try:
            raise ValueError("inside")
        except ValueError:
            logger.exception("it failed")
        logger.debug("not told")
    text = path.read_text()
    first, *rest = text.splitlines()
    assert first.endswith("Z INFO holdfast.test_logs: hello there")
    assert rest[0].endswith("ERROR holdfast.test_logs: it failed")
    assert "ValueError: inside" in text
    assert "not told" not in text
    logger.info("after the end")
    assert path.read_text() == text


def test_the_last_lines_of_a_process_that_ends_at_once_are_written(tmp_path: Path) -> None:
    """As of a server of a fleet that was replaced: `logging.shutdown`, then `os._exit`."""
    program = (
        "import logging, os, sys\n"
        "from pathlib import Path\n"
        "from holdfast.config import Redactor\n"
        "from holdfast.server.log_file import log_to_file\n"
        "with log_to_file(Path(sys.argv[1]), redactor=Redactor):\n"
        "    for number in range(2000):\n"
        "        logging.warning('line %d', number)\n"
        "    logging.shutdown()\n"
        "    os._exit(75)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, tmp_path], check=False).returncode == 75
    assert (tmp_path / "server.log").read_text().endswith("line 1999\n")


@pytest.mark.promise("W8")
def test_secrets_are_taken_out_of_messages_arguments_and_traces(tmp_path: Path) -> None:
    known: list[Secret] = []
    with log_to_file(tmp_path, redactor=lambda: Redactor(known)) as path:
        known.append(Secret("sk-0123456789"))
        try:
            raise ValueError("key sk-0123456789")
        except ValueError:
            logger.exception("with %s", "sk-0123456789")
    text = path.read_text()
    assert "sk-0123456789" not in text
    assert text.splitlines()[0].endswith("with [redacted]")
    assert text.splitlines()[-1] == "ValueError: key [redacted]"


def test_log_files_rotate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_file, "_MAX_BYTES", 2000)
    with log_to_file(tmp_path, redactor=Redactor):
        for number in range(300):
            logger.info("line %d", number)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["server.log", "server.log.1", "server.log.2", "server.log.3"]
    assert all(path.stat().st_size <= 2000 for path in tmp_path.iterdir())
    assert (tmp_path / "server.log").read_text().endswith("line 299\n")


_HIDES = """
import sys
from holdfast.server.server_process import hide_process
hide_process()
print("hidden", flush=True)
sys.stdin.read()
"""


@pytest.mark.promise("W8")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can hide a process from its own user")
def test_other_processes_cannot_read_the_environment_of_a_hidden_process() -> None:
    process = subprocess.Popen([sys.executable, "-c", _HIDES], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"hidden\n"
        environ = Path(f"/proc/{process.pid}/environ")
        assert environ.stat().st_uid == 0
        if os.getuid() != 0:
            with pytest.raises(PermissionError):
                environ.read_bytes()
    finally:
        process.communicate()


def test_a_log_that_cannot_be_written_is_one_line_on_stderr(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no /dev/full here")
    (tmp_path / "server.log").symlink_to(full)
    with log_to_file(tmp_path, redactor=Redactor):
        for number in range(3):
            logger.info("number %d", number)
    told = capfd.readouterr().err.splitlines()
    assert len(told) == 1
    assert "cannot be written: [Errno 28]" in told[0]


@pytest.mark.skipif(sys.platform != "linux", reason="reads the limits of another process in /proc")
def test_a_server_raises_its_limit_of_open_files_and_its_commands_do_not_notice(home: Path) -> None:
    program = (
        "import resource as r\n"
        "r.setrlimit(r.RLIMIT_NOFILE, (256, r.getrlimit(r.RLIMIT_NOFILE)[1]))\n"
        "from holdfast.cli import main\n"
        "raise SystemExit(main(['serve']))"
    )
    server = OwnServer(home, env=os.environ, command=("-P", "-c", program))
    server.start()
    try:
        soft, hard = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        assert soft == hard
        with SyncClient(server.address, name="test") as client:
            session = client.create_session(client.open_workspace(str(home)).id)
            run = client.wait_run(client.shell(session.id, "ulimit -Sn; ulimit -Hn").run.id)
            assert run.state == "completed"
            results = [part for message in client.all_messages(session.id)[0] for part in message.parts]
        assert f"256\n{hard}\n" in encode(results).decode().replace("\\n", "\n")
    finally:
        assert server.stop() == 0


def test_a_server_that_serves_no_page_imports_nothing_for_it() -> None:
    program = "import holdfast.app, holdfast.cli.commands.run, sys; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=50)
    loaded = set(done.stdout.split())
    assert "holdfast.server.web_listeners" in loaded
    assert loaded & {"cryptography", "segno", "webbrowser", "holdfast.web", "holdfast.cli.web_certificate"} == set()


@pytest.mark.skipif(sys.platform != "linux", reason="only the C library of Linux has a heap for each thread")
def test_all_threads_of_a_server_allocate_from_one_heap(holdfast_home: Path) -> None:
    program = (
        "import asyncio, ctypes, os, signal, sys, threading\n"
        "from holdfast.app import run_server\n"
        "from holdfast.locations import Locations\n"
        "library = ctypes.CDLL(None)\n"
        "library.malloc.restype = library.fopen.restype = ctypes.c_void_p\n"
        "def list_heaps(addresses=()):\n"
        "    allocated = threading.Barrier(4)\n"
        "    def allocate(): library.malloc(50_000); allocated.wait()\n"
        "    threads = [threading.Thread(target=allocate) for _ in range(4)]\n"
        "    for thread in threads: thread.start()\n"
        "    for thread in threads: thread.join()\n"
        "    output = ctypes.c_void_p(library.fopen(b'/dev/stdout', b'w'))\n"
        "    library.malloc_info(0, output)\n"
        "    library.fflush(output)\n"
        "    if addresses: os.kill(os.getpid(), signal.SIGTERM)\n"
        "if 'serve' in sys.argv:\n"
        "    asyncio.run(run_server(Locations.from_env(os.environ), os.environ, ready=list_heaps))\n"
        "else:\n"
        "    list_heaps()\n"
    )

    def heaps(*arguments: str) -> int:
        command = [sys.executable, "-c", program, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=50)
        return done.stdout.count("<heap nr=")

    assert heaps() > 1
    assert heaps("serve") == 1


@pytest.mark.promise("W5")
def test_a_server_that_answers_is_stopped_by_a_signal_and_not_killed(holdfast_home: Path) -> None:
    """The signal comes when the sockets answer, and the server is not ready yet."""
    program = (
        "import os, signal, sys\n"
        "from holdfast.cli import main\n"
        "from holdfast.services.web_service import WebService\n"
        "start = WebService.start\n"
        "async def signalled(self, web):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    await start(self, web)\n"
        "WebService.start = signalled\n"
        "sys.exit(main(['serve']))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
