"""The real program on a real pseudo-terminal, with a terminal emulator that reads what it draws."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pyte

_DEADLINE = 50.0


class TerminalProcess:
    """Runs `holdfast` with a terminal of its own. `until` waits for what the screen shows."""

    def __init__(self, *arguments: str, env: Mapping[str, str], cwd: Path, size: tuple[int, int] = (100, 30)) -> None:
        self._screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self._screen)
        self._master, self._slave = pty.openpty()
        self.received = b""
        self.resize(*size)
        self.modes_before = termios.tcgetattr(self._slave)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *arguments],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            cwd=cwd,
            env={**env, "TERM": "xterm-256color", "COLUMNS": "", "LINES": ""},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - this test has no threads
        )

    def _pump(self, seconds: float) -> None:
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return
        self.received += data
        if b"\x1b[c" in data:  # the emulator answers what a terminal answers
            os.write(self._master, b"\x1b]11;rgb:1414/1717/1c1c\x1b\\\x1b[?62;22c")
        self._stream.feed(data.replace(b"\x1b[>25u", b"").replace(b"\x1b[<u", b""))

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self._screen.display)

    def until(self, holds: Callable[[], bool] | str) -> None:
        """Wait until the text is on the screen, or the condition holds."""
        deadline = time.monotonic() + _DEADLINE
        while not (holds in self.text if isinstance(holds, str) else holds()):
            assert time.monotonic() < deadline, f"{holds} is not true of:\n{self.text}"
            self._pump(0.05)

    def send(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._screen.resize(rows, columns)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def ended(self) -> int:
        self.until(lambda: self.process.poll() is not None)
        self._pump(0.0)
        return self.process.returncode

    @property
    def is_restored(self) -> bool:
        """Modes as before, main screen, cursor shown, mouse and paste off."""
        tail = self.received[-4000:]
        ends = all(tail.rfind(on) < tail.rfind(off) for on, off in _PAIRS)
        return termios.tcgetattr(self._slave)[:4] == self.modes_before[:4] and ends

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()
        os.close(self._master)
        os.close(self._slave)


_PAIRS = ((b"\x1b[?1049h", b"\x1b[?1049l"), (b"\x1b[?25l", b"\x1b[?25h"), (b"\x1b[?2004h", b"\x1b[?2004l"))
