"""The real program on a real pseudo-terminal, with a terminal emulator that reads what it draws."""

import fcntl
import os
import pty
import re
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
_KEYBOARD = re.compile(rb"\x1b\[[<>][0-9]*u")
"""The keyboard protocol, which the emulator does not know: push and pop."""
_BEGUN = re.compile(rb"\x1b(\[[<>]?[0-9]*)?$")


class TerminalProcess:
    """Runs `holdfast` with a terminal of its own. `until` waits for what the screen shows."""

    def __init__(
        self,
        *arguments: str,
        env: Mapping[str, str],
        cwd: Path,
        size: tuple[int, int] = (100, 30),
        program: tuple[str, ...] = ("-m", "holdfast"),
        background: str = "1414/1717/1c1c",
    ) -> None:
        self.screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self.screen)
        self._unread = b""
        self._master, self._slave = pty.openpty()
        self._background = background
        self.received = b""
        self.resize(*size)
        self.modes_before = termios.tcgetattr(self._slave)
        self.emulated_before = set(self.screen.mode)
        self.process = subprocess.Popen(
            [sys.executable, *program, *arguments],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            cwd=cwd,
            env={**env, "TERM": "xterm-256color", "COLUMNS": "", "LINES": ""},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - this test has no threads
        )

    def _pump(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False
        self.received += data
        if b"\x1b[c" in data:  # the emulator answers what a terminal answers
            os.write(self._master, f"\x1b]11;rgb:{self._background}\x1b\\\x1b[?62;22c".encode())
        data = self._unread + data
        begun = _BEGUN.search(data)
        cut = begun.start() if begun else len(data)
        self._unread = data[cut:]
        self._stream.feed(_KEYBOARD.sub(b"", data[:cut]))
        return True

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def until(self, holds: Callable[[], bool] | str) -> None:
        """Wait until the text is on the screen, or the condition holds."""
        deadline = time.monotonic() + _DEADLINE
        while not (holds in self.text if isinstance(holds, str) else holds()):
            assert time.monotonic() < deadline, f"{holds!r} is not true of:\n{self.text}"
            self._pump(0.05)

    def send(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def paste(self, text: str) -> None:
        """As a terminal pastes: in brackets, and only as fast as the program reads."""
        left = f"\x1b[200~{text}\x1b[201~".encode()
        while left:
            _, writable, _ = select.select([], [self._master], [], 0.05)
            if writable:
                left = left[os.write(self._master, left[:512]) :]
            self._pump(0.0)

    def resize(self, columns: int, rows: int) -> None:
        """As a window is resized; the kernel tells the program."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def until_stopped(self) -> None:
        """Wait until the program has suspended itself."""
        self.until(lambda: _state_of(self.process.pid) == "T")
        self._drain()

    def ended(self) -> int:
        """Wait for the end; returns the exit status."""
        self.until(lambda: self.process.poll() is not None)
        self._drain()
        return self.process.returncode

    def _drain(self) -> None:
        while self._pump(0.0):
            pass

    @property
    def left_behind(self) -> list[str]:
        """What is not as it was before the program started."""
        left = []
        if termios.tcgetattr(self._slave)[:4] != self.modes_before[:4]:
            left.append("modes of the terminal's line (termios)")
        for mode in sorted(self.screen.mode ^ self.emulated_before):
            word = "on" if mode in self.screen.mode else "off"
            left.append(f"mode {mode >> 5 if mode > 32 else mode} is {word}")
        pushed = len(re.findall(rb"\x1b\[>[0-9]+u", self.received))
        popped = len(re.findall(rb"\x1b\[<[0-9]*u", self.received))
        if pushed != popped:
            left.append(f"the keyboard protocol was set {pushed} times and reset {popped} times")
        return left

    def hang_up(self) -> None:
        """Close the terminal's window."""
        os.close(self._master)
        self._master = -1

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()
        if self._master >= 0:
            os.close(self._master)
        os.close(self._slave)


def _state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
