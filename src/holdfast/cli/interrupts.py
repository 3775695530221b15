"""Ctrl-C, SIGTERM and a time that is over, as one thing that happens between two steps of a command.

The first asks: it is raised where the command waits (`allowed`), never in the middle of something else. The second one
leaves at once. A wrapper may pass on a Ctrl-C that the terminal has sent here as well: what comes together is one.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Literal, NoReturn, Self

from holdfast.cli.exit_status import Exit

_ASKING = (signal.SIGINT, signal.SIGTERM)
_TOGETHER_SECONDS = 0.2


class Interrupted(KeyboardInterrupt):
    """Somebody wants this to end."""


class Interrupts:
    def __init__(self, *, seconds: float | None = None) -> None:
        """``seconds``: how long the command may take."""
        self._seconds = seconds
        self._before: dict[signal.Signals, object] = {}
        self._may_raise = False
        self._asked_at = 0.0
        self.cause: Literal["signal", "time"] | None = None
        self.parting: str | None = None
        """The line that is said by whoever leaves at once."""

    def __enter__(self) -> Self:
        for number in (*_ASKING, signal.SIGALRM):
            self._before[number] = signal.signal(number, self._on_signal)
        if self._seconds is not None:
            signal.setitimer(signal.ITIMER_REAL, self._seconds)
        return self

    def __exit__(self, *error: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    @property
    def timed_out(self) -> bool:
        return self.cause == "time"

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Whatever is waited for in here may be broken off."""
        self._may_raise = True
        try:
            if self.cause is not None:
                raise Interrupted
            yield
        finally:
            self._may_raise = False

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.cause is not None:
            if number != signal.SIGALRM and time.monotonic() - self._asked_at >= _TOGETHER_SECONDS:
                self._leave()
            return
        self.cause = "time" if number == signal.SIGALRM else "signal"
        self._asked_at = time.monotonic() if self.cause == "signal" else float("-inf")
        if self._may_raise:
            self._may_raise = False
            raise Interrupted

    def _leave(self) -> NoReturn:
        if os.isatty(2):
            _say(b"\r\x1b[K")
        if self.parting is not None:
            _say(f"{self.parting}\n".encode())
        os._exit(Exit.TIMED_OUT if self.timed_out else Exit.CANCELLED)


def _say(words: bytes) -> None:
    try:
        os.write(2, words)
    except OSError:
        pass  # nobody reads it any more
