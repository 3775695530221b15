"""Run the command line in real processes, with a real server in a temporary home and a test provider on loopback.

The prompt contains the provider's answer: ``!say hello``, ``!bash touch x``, ``!hang``, ``!status 400`` …
"""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec

from holdfast.locations import Locations
from holdfast.testing import Answer, Call, Gate, Hang, Refuse, Say, TestProvider, calls, text
from holdfast.testing.provider_server import ReceivedRequest
from tests.support.environment import isolated_environment, leaks_into_tests

CONFIG = """
[models]
large = "test/test-model"
[providers.test]
wire = "openai-chat"
base_url = "{url}"
api_key = "sk-test-0123456789"
[providers.test.models.test-model]
price = {{ input = 1.0, output = 10.0 }}
[server]
heartbeat = "1s"
[limits]
last_answer = "0.2s"
"""

_ORDER = re.compile(r"!(\w+) ?([^\n]*)")


def respond(received: ReceivedRequest) -> Answer:
    """The answer that the last prompt specifies."""
    messages = received.body["messages"]
    if "Give this coding task a title" in json.dumps(received.body.get("system", messages[0])):
        return text("A title")
    prompts = (number for number, one in enumerate(messages) if one["role"] == "user" and not _is_reminder(one))
    last = max(prompts)
    step = sum(message["role"] == "assistant" for message in messages[last:])
    found = _ORDER.search(_said(messages[last]))
    order, rest = (found[1], found[2].strip()) if found else ("say", "ok")
    match order:
        case "say":
            return text(rest)
        case "echo":
            return text(_said(messages[last]))
        case "bash" | "ls" | "write" | "ask" | "job" | "todos" if step == 0:
            return Answer(pieces=(Say("I begin."), Call(_TOOLS.get(order, order), _arguments(order, rest))))
        case "bash" | "ls" | "write" | "ask" | "job" | "todos":
            return text("done: " + _said(messages[-1]))
        case "loop":
            return calls(Call("ls", {"path": "."}))
        case "hang":
            return Answer(pieces=(Say(rest or "partial"), Hang()))
        case "gate":
            return Answer(pieces=(Say("before the gate"), Gate(rest), Say(", after the gate")))
        case "status":
            return Answer(status=int(rest), headers={"Retry-After": "100000"})
        case "refuse":
            return Answer(pieces=(Refuse(),), finish="content_filter")
        case "cut":
            return text("cut off", finish="length")
        case "halves":
            return text("and here is the fir", finish="length") if step == 0 else text("st and the second half")
        case "corrected":
            return text("first I think about it" if step == 0 else '{"a": 1}')
        case "retry":
            return Answer(status=429, headers={"Retry-After": "1"}) if _first_time(received) else text("at last")
    raise AssertionError(f"no such order: {order!r}")


def _is_reminder(message: dict[str, Any]) -> bool:
    return _said(message).startswith("<reminder>")


def _said(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


_TOOLS = {"job": "bash"}


def _arguments(tool: str, rest: str) -> dict[str, Any]:
    match tool:
        case "job":
            return {"command": rest, "background": True}
        case "todos":
            return {"todos": [{"text": rest, "status": "in_progress"}]}
        case "bash":
            return {"command": rest}
        case "write":
            return {"path": rest, "content": f"this is {rest}\n"}
        case "ask":
            return {"questions": [{"text": rest, "kind": "single", "options": ["red", "blue"]}]}
    return {"path": rest or "."}


_asked: set[str] = set()


def _first_time(received: ReceivedRequest) -> bool:
    key = json.dumps(received.body["messages"])
    if key in _asked:
        return False
    _asked.add(key)
    return True


class Done(msgspec.Struct, frozen=True):
    """A process that ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Running:
    """A process that has not ended."""

    def __init__(self, process: subprocess.Popen[bytes], err: IO[bytes]) -> None:
        self.process = process
        self._err = err
        self._out = b""

    def until(self, words: str) -> str:
        """Read stdout until it contains the text; returns everything read so far."""
        assert self.process.stdout is not None
        while words.encode() not in self._out:
            piece = os.read(self.process.stdout.fileno(), 65536)
            assert piece, f"it ended without saying {words!r}: {self.end()}"
            self._out += piece
        return self._out.decode()

    def until_error(self, words: str) -> None:
        """Wait until stderr contains the text."""
        while words.encode() not in os.pread(self._err.fileno(), 65536, 0):
            assert self.process.poll() is None, f"it ended without saying {words!r}: {self.end()}"
            time.sleep(0.01)

    def signal(self, number: int = signal.SIGINT) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """Kill the process if it has not ended."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)
        for pipe in (self.process.stdin, self.process.stdout, self._err):
            if pipe is not None:
                pipe.close()

    def close_pipe(self) -> Done:
        """Close the pipe from its stdout, then wait for its end."""
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process.wait(30)
        return self._done()

    def end(self) -> Done:
        assert self.process.stdout is not None
        with self.process.stdout as stdout:
            while piece := os.read(stdout.fileno(), 65536):
                self._out += piece
        self.process.wait(30)
        return self._done()

    def _done(self) -> Done:
        with self._err as err:
            err.seek(0)
            return Done(self.process.returncode, self._out.decode(), err.read().decode())


class CliShell:
    def __init__(self, base: Path, provider: TestProvider | None, loop: asyncio.AbstractEventLoop | None) -> None:
        self.base = base
        self.work = base / "work"
        self.work.mkdir()
        self.provider = provider
        self._loop = loop
        kept = {name: value for name, value in os.environ.items() if not leaks_into_tests(name)}
        self.env = {**kept, **isolated_environment(base), "TERM": "xterm", "TMPDIR": str(base / "tmp")}
        (base / "tmp").mkdir()
        self.locations = Locations.from_env(self.env)
        self._started: list[Running] = []

    def start(
        self,
        *words: str,
        stdin: Any = subprocess.DEVNULL,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
    ) -> Running:
        err = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the process has ended
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *words],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=err,
            bufsize=0,
            cwd=cwd or self.work,
            env={**self.env, **(env or {})},
        )
        running = Running(process, err)
        self._started.append(running)
        return running

    def kill_left(self) -> None:
        """Kill processes that a failed test did not wait for."""
        for running in self._started:
            running.kill()
        self._started.clear()

    def __call__(
        self, *words: str, given: str | None = None, cwd: Path | None = None, env: dict[str, str] | None = None
    ) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", *words],
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            text=True,
            cwd=cwd or self.work,
            env={**self.env, **(env or {})},
            timeout=170,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    def ok(self, *words: str, given: str | None = None, env: dict[str, str] | None = None) -> str:
        done = self(*words, given=given, env=env)
        assert done.status == 0, done
        return done.out.strip()

    def last_session(self) -> str:
        found: str = json.loads(self.ok("sessions", "--json"))["items"][0]["id"]
        return found

    def open(self, gate: str) -> None:
        assert self.provider is not None
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self.provider.open, gate)

    def server_pid(self) -> int:
        return int(json.loads(self.ok("status", "--json"))["server"]["pid"])


@contextmanager
def open_shell(*, provider: bool = True) -> Iterator[CliShell]:
    """On exit the server is stopped, its files are removed, and no process may be left."""
    base = Path(tempfile.mkdtemp(prefix="hfc-"))
    with open_provider(respond) if provider else _no_provider() as (found, loop):
        made = CliShell(base, found, loop)
        if found is not None:
            made.locations.config_dir.mkdir(parents=True)
            made.locations.config_file.write_text(CONFIG.format(url=found.url()))
        try:
            yield made
        finally:
            made.kill_left()
            made("stop")
            left = processes_of(base)
            assert left == [], left
            shutil.rmtree(base, ignore_errors=True)


@contextmanager
def _no_provider() -> Iterator[tuple[None, None]]:
    yield None, None


@contextmanager
def open_provider(
    respond: Callable[[ReceivedRequest], Answer],
) -> Iterator[tuple[TestProvider, asyncio.AbstractEventLoop]]:
    """A provider in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="provider")
    thread.start()

    def do(work: Callable[[], Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work(), loop).result(10)

    provider = TestProvider(respond)
    do(provider.start)
    try:
        yield provider, loop
    finally:
        do(provider.stop)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def processes_of(base: Path) -> list[str]:
    """Other processes whose environment has this home."""
    found = []
    mark = f"HOLDFAST_HOME={base}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue  # it has ended, or belongs to another user
    return found
