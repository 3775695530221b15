"""The terminal interface on a pseudo-terminal, measured from outside. Used by bench/tui.py."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import select
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from support.process_stats import cpu_seconds

STARTS = 7
SECONDS = 6.0
TYPING_SECONDS = 14.0
SIZE = (120, 40)
MARK = "›".encode()
EMPTY_APP = """
from textual.app import App
from textual.widgets import TextArea
class Empty(App):
    def compose(self):
        yield TextArea("", placeholder="›")
Empty().run()
"""
CONFIG = """
[models]
large = "bench/model"
[providers.bench]
wire = "openai-chat"
base_url = "{url}"
api_key = "sk-bench-0123456789"
"""
PARAGRAPH = (
    "The function splits at every blank, so two blanks leave an empty word. See `src/slug.py:12` for the **one** place "
    "that has to change.\n\n```python\nreturn '-'.join(kept.split())\n```\n\n"
    "- nothing else depends on it\n- all tests pass\n\n"
)
KEYS = "".join(chr(code) for code in (*range(0x3B1, 0x3C2), *range(0x400, 0x482), *range(0x48A, 0x530)))
"""Characters that the answer does not contain, each typed once: a line that is drawn again shows the earlier ones."""


class StartTimes(NamedTuple):
    frame_ms: float
    key_ms: float


class KeyTimes(NamedTuple):
    rate: float
    p50_ms: float
    p99_ms: float
    cpu_percent: float
    idle_percent: float


class Home(NamedTuple):
    directory: Path
    env: dict[str, str]


class BenchTerminal:
    """A program on a terminal that answers its questions."""

    def __init__(self, arguments: list[str], home: Home) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", SIZE[1], SIZE[0], 0, 0))
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=home.directory / "work",
            env=home.env,
            start_new_session=True,
        )
        os.close(slave)
        self.received = b""

    def pump(self, seconds: float) -> None:
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return
        data = os.read(self._master, 1 << 16)
        if b"\x1b[c" in data:
            os.write(self._master, b"\x1b]11;rgb:1414/1717/1c1c\x1b\\\x1b[?62;22c")
        self.received += data

    def until(self, wanted: bytes, *, seconds: float = 30.0) -> float:
        """Wait until the bytes were received; returns the time."""
        deadline = time.perf_counter() + seconds
        while wanted not in self.received:
            if time.perf_counter() > deadline:
                raise SystemExit(f"the program did not show {wanted!r}; it sent {self.received[-2000:]!r}")
            self.pump(0.01)
        return time.perf_counter()

    def type(self, text: str) -> None:
        """Send keys, and forget what was received before."""
        self.received = b""
        os.write(self._master, text.encode())

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.process.pid)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


@contextmanager
def running_home() -> Iterator[Home]:
    """A directory with a configuration, a server that runs, and a provider that streams at the rate in the prompt."""
    from holdfast.locations import Locations

    directory = Path(tempfile.mkdtemp(prefix="hf-bench-"))
    (directory / "work").mkdir()
    dropped = ("NO_COLOR", "PYTHONDONTWRITEBYTECODE")  # an installed program is compiled once
    env = {
        name: value for name, value in os.environ.items() if not name.endswith("_API_KEY") and name not in dropped
    } | {
        "HOME": str(directory),
        "HOLDFAST_HOME": str(directory / "h"),
        "TERM": "xterm-256color",
        "PYTHONPYCACHEPREFIX": str(directory / "bytecode"),
    }
    provider = subprocess.Popen(
        [sys.executable, "-m", __name__], cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True
    )
    assert provider.stdout is not None
    url = provider.stdout.readline().strip()
    locations = Locations.from_env(env)
    locations.config_dir.mkdir(parents=True)
    locations.config_file.write_text(CONFIG.format(url=url))
    try:
        subprocess.run([sys.executable, "-m", "holdfast", "sessions"], env=env, check=True, capture_output=True)
        yield Home(directory, env)
    finally:
        subprocess.run([sys.executable, "-m", "holdfast", "stop"], env=env, check=False, capture_output=True)
        provider.terminate()
        provider.wait()
        provider.stdout.close()
        shutil.rmtree(directory, ignore_errors=True)


def measure_start(home: Home) -> tuple[StartTimes, StartTimes]:
    """Medians of Holdfast and of Textual's empty app, started in turn."""
    found: dict[str, list[StartTimes]] = {"ours": [], "empty": []}
    for number in range(STARTS + 1):
        for kind, arguments in (("ours", ["-m", "holdfast"]), ("empty", ["-c", EMPTY_APP])):
            terminal = BenchTerminal(arguments, home)
            try:
                frame = terminal.until(MARK)
                terminal.type("α")
                key = terminal.until("α".encode())
            finally:
                terminal.close()
            if number:  # the first start fills the caches
                found[kind].append(StartTimes((frame - terminal.began) * 1000, (key - terminal.began) * 1000))
            for draft in (home.directory / "h").rglob("*.draft"):
                draft.unlink()
    ours, empty = (
        StartTimes(statistics.median(t.frame_ms for t in times), statistics.median(t.key_ms for t in times))
        for times in (found["ours"], found["empty"])
    )
    return ours, empty


def measure_keys(home: Home, *, rate: int) -> KeyTimes:
    """Type while an answer streams: first only look at the CPU time, then type a key every 40 ms."""
    terminal = BenchTerminal(["-m", "holdfast"], home)
    try:
        terminal.until(b"bench/model")
        terminal.type(f"stream at {rate}\r")
        terminal.until(b"splits")
        idle = _cpu_percent(terminal, SECONDS)
        times, busy = _type(terminal)
        return KeyTimes(rate, statistics.median(times), _p99(times), busy, idle)
    finally:
        terminal.close()
        cancel = [sys.executable, "-m", "holdfast", "cancel"]
        subprocess.run(cancel, env=home.env, cwd=home.directory / "work", check=False, capture_output=True)


def measure_empty_keys(home: Home) -> KeyTimes:
    """The same keys in Textual's empty app, in which nothing else happens."""
    terminal = BenchTerminal(["-c", EMPTY_APP], home)
    try:
        terminal.until(MARK)
        idle = _cpu_percent(terminal, 1.0)
        times, busy = _type(terminal)
        return KeyTimes(0, statistics.median(times), _p99(times), busy, idle)
    finally:
        terminal.close()


def _type(terminal: BenchTerminal) -> tuple[list[float], float]:
    """Type a key every 40 ms; returns the times to the screen in ms, and the CPU percent of the program."""
    times: list[float] = []
    began, began_cpu, number = time.perf_counter(), terminal.cpu_seconds(), 0
    while time.perf_counter() - began < TYPING_SECONDS and number < len(KEYS):
        key = KEYS[number]
        sent = time.perf_counter()
        terminal.type(key)
        times.append((terminal.until(key.encode()) - sent) * 1000)
        number += 1
        pause = time.perf_counter() + 0.04
        while (left := pause - time.perf_counter()) > 0:
            terminal.pump(left)
    return times, 100 * (terminal.cpu_seconds() - began_cpu) / (time.perf_counter() - began)


def _p99(times: list[float]) -> float:
    return sorted(times)[max(int(len(times) * 0.99) - 1, 0)]


def _cpu_percent(terminal: BenchTerminal, seconds: float) -> float:
    began, cpu = time.perf_counter(), terminal.cpu_seconds()
    while (left := began + seconds - time.perf_counter()) > 0:
        terminal.pump(min(left, 0.05))
    return 100 * (terminal.cpu_seconds() - cpu) / (time.perf_counter() - began)


async def _provide() -> None:
    """A provider that streams at the rate in the prompt, in its own process: a thread would delay the keys."""
    from holdfast.testing import Answer, ReceivedRequest, Say, TestProvider, text

    def respond(received: ReceivedRequest) -> Answer:
        messages = received.body["messages"]
        if "Give this coding task a title" in str(messages[0]):
            return text("A title")
        rate = int(str(messages[-1]["content"]).split()[-1].strip("'}]"))
        count = int(rate * (SECONDS + TYPING_SECONDS) * 1.5)
        size = 8
        source = PARAGRAPH * (count * size // len(PARAGRAPH) + 1)
        deltas = tuple(source[start : start + size] for start in range(0, count * size, size))
        return Answer(pieces=(Say(deltas=deltas),), pace=1 / rate)

    provider = await TestProvider(respond).start()
    print(provider.url(), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_provide())
