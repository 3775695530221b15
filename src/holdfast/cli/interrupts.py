"""Ctrl-C, SIGTERM and the end of ``--timeout`` as one exception.

The first signal raises `Interrupted`, but only inside `allowed`, never in the middle of other work. The second signal
ends the process at once. Wrappers may pass on a Ctrl-C that the terminal has also sent to this process, so signals in
quick succession count as one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Literal, NoReturn, Self

from holdfast.cli.exit_status import Exit

if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # `signal` adds enumerations of all its constants

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SAME_SIGNAL_SECONDS = 0.2


class Interrupted(KeyboardInterrupt):
    """The user, or the end of the given time, interrupts the command."""


class Interrupts:
    """Handles the signals while it is entered."""

    def __init__(self, *, seconds: float | None = None) -> None:
        """``seconds``: raise `Interrupted` after this time."""
        self._seconds = seconds
        self._previous: dict[signal.Signals, object] = {}
        self._is_allowed = False
        self._interrupted_at = 0.0
        self.cause: Literal["signal", "time"] | None = None
        self.exit_message: str | None = None
        """Printed when the second signal ends the process."""

    def __enter__(self) -> Self:
        for number in (*_SIGNALS, signal.SIGALRM):
            self._previous[number] = signal.signal(number, self._on_signal)
        if self._seconds is not None:
            signal.setitimer(signal.ITIMER_REAL, self._seconds)
        return self

    def __exit__(self, *error: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    @property
    def timed_out(self) -> bool:
        return self.cause == "time"

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Raise `Interrupted` inside this block, also for a signal that came before it. Blocks cannot be nested."""
        self._is_allowed = True
        try:
            if self.cause is not None:
                raise Interrupted
            yield
        finally:
            self._is_allowed = False

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.cause is not None:
            if number != signal.SIGALRM and time.monotonic() - self._interrupted_at >= _SAME_SIGNAL_SECONDS:
                self._exit_now()
            return
        self.cause = "time" if number == signal.SIGALRM else "signal"
        self._interrupted_at = time.monotonic() if self.cause == "signal" else float("-inf")
        if self._is_allowed:
            self._is_allowed = False
            raise Interrupted

    def _exit_now(self) -> NoReturn:
        if os.isatty(2):
            _write_stderr(b"\r\x1b[K")
        if self.exit_message is not None:
            _write_stderr(f"{self.exit_message}\n".encode())
        os._exit(Exit.TIMED_OUT if self.timed_out else Exit.CANCELLED)


def _write_stderr(text: bytes) -> None:
    try:
        os.write(2, text)
    except OSError:
        pass  # stderr is closed
