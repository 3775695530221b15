"""Who writes where: the agent's text to stdout, everything else to stderr, and a spinner where somebody looks.

When both go to one terminal, their lines do not run into each other: a note begins on a line of its own, and the
spinner shows only where the line is empty. What a model or a tool said cannot command the terminal.
"""

from __future__ import annotations

import os
import sys
from typing import TextIO

from holdfast.cli.standard_streams import let_go

_SHOWN_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))} | {
    code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
}
"""Also what turns the direction of text around: it makes a command look like another one."""

_PLAIN = str.maketrans({**_SHOWN_CONTROLS, ord("\n"): "\n", ord("\t"): "\t", ord("\r"): ""})
_ONE_LINE = str.maketrans({**_SHOWN_CONTROLS, ord("\n"): " ", ord("\t"): " ", ord("\r"): ""})


def plain(text: str) -> str:
    """Text that moves no cursor and changes no title: controls are shown, not sent."""
    return text.translate(_PLAIN)


def one_line(text: str, *, most: int = 200) -> str:
    shown = text.translate(_ONE_LINE).strip()
    return shown if len(shown) <= most else shown[: most - 1] + "…"


class Style:
    """Colours where they are wanted: a terminal, and nobody said NO_COLOR."""

    def __init__(self, stream: TextIO) -> None:
        self.on = is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "") != "dumb"

    def __call__(self, codes: str, text: str) -> str:
        return f"\x1b[{codes}m{text}\x1b[0m" if self.on and text else text

    def dim(self, text: str) -> str:
        return self("2", text)

    def bold(self, text: str) -> str:
        return self("1", text)

    def good(self, text: str) -> str:
        return self("32", text)

    def bad(self, text: str) -> str:
        return self("31", text)

    def warm(self, text: str) -> str:
        return self("33", text)


def is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def can_show(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


class Screen:
    def __init__(self, *, quiet: bool = False, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self.quiet = quiet
        self.out_is_terminal = is_terminal(self.out)
        self.err_is_terminal = is_terminal(self.err)
        self.style = Style(self.err)
        self.spinner = self._spinner()
        self._mid_line = False
        self._has_text = False
        self._new_block = False
        self._reader_left = False
        self.out_failed = False
        """Something that was to be read could not be written: no success."""

    def _spinner(self) -> Spinner | None:
        if not self.err_is_terminal or self.quiet or os.environ.get("TERM", "") == "dumb":
            return None
        return Spinner(self.err)

    @property
    def _shared(self) -> bool:
        """Whether text and notes meet in one place."""
        return self.out is self.err or (self.out_is_terminal and self.err_is_terminal)

    def text(self, piece: str) -> None:
        """The agent's words, as they come."""
        if not piece:
            return
        shown = plain(piece) if self.out_is_terminal else piece
        if self._new_block and self._has_text:
            shown = ("\n\n" if self._mid_line else "\n") + shown
        self._new_block = False
        self._write_out(shown)
        self._has_text = True
        self._mid_line = not shown.endswith("\n")

    def block(self) -> None:
        """What is said next is another message: an empty line comes before it."""
        self._new_block = True
        self._end_line()

    def end_text(self) -> None:
        """The last line of what was said is a whole one, wherever it goes."""
        if self._mid_line:
            self._write_out("\n")
            self._mid_line = False

    def line(self, text: str) -> None:
        """A whole line for stdout."""
        self._end_line()
        self._write_out(text + "\n")

    def note(self, text: str) -> None:
        """For whoever looks; not when they asked for quiet."""
        if not self.quiet:
            self.warn(text)

    def warn(self, text: str) -> None:
        """For whoever looks, whatever they asked for."""
        self._end_line()
        self._hold_spinner()
        try:
            self.err.write(text + "\n")
            self.err.flush()
        except (OSError, ValueError):
            pass  # nobody reads it any more
        self._let_spinner()

    def status(self, words: str | None, *, seconds: float | None = None) -> None:
        """What is going on, for the spinner; ``seconds``: how long that will take."""
        if self.spinner is not None:
            self.spinner.say(words, seconds=seconds)

    def finish(self) -> None:
        """The last line is a whole one, and nothing turns any more."""
        if self.spinner is not None:
            self.spinner.stop()
        self.end_text()

    def _end_line(self) -> None:
        if self._mid_line and self._shared:
            self._write_out("\n")
            self._mid_line = False

    def _write_out(self, text: str) -> None:
        if self._reader_left:
            return
        self._hold_spinner()
        try:
            self.out.write(text)
            self.out.flush()
        except BrokenPipeError:
            self._reader_left = True  # the run goes on, and its end is still told by the exit status
            let_go(self.out)
        except OSError as error:
            self._reader_left = self.out_failed = True
            let_go(self.out)
            self.warn(f"holdfast: cannot write to stdout: {error.strerror or error}")
        if text.endswith("\n") or not self._shared:
            self._let_spinner()

    def _hold_spinner(self) -> None:
        if self.spinner is not None:
            self.spinner.hold()

    def _let_spinner(self) -> None:
        if self.spinner is not None:
            self.spinner.let()


class Spinner:
    """One line on a terminal that says what is going on, and turns while it does. Drawn by a thread of its own."""

    _FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
    _PLAIN_FRAMES = "|/-\\"
    _SECONDS = 0.1
    _SHOW_SECONDS_FROM = 3.0

    def __init__(self, stream: TextIO) -> None:
        import threading
        import time

        self._stream = stream
        self._clock = time.monotonic
        self._frames = self._FRAMES if can_show(stream, self._FRAMES) else self._PLAIN_FRAMES
        self._lock = threading.RLock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._turn, name="spinner", daemon=True)
        self._words: str | None = None
        self._since = 0.0
        self._until: float | None = None
        self._held = False
        self._drawn = False
        self._frame = 0

    def say(self, words: str | None, *, seconds: float | None = None) -> None:
        with self._lock:
            now = self._clock()
            if words != self._words:
                self._words, self._since = words, now
            self._until = None if seconds is None else now + seconds
            if words is None:
                self._erase()
                return
            if not self._thread.is_alive() and not self._stopped.is_set():
                self._thread.start()
            self._draw()

    def hold(self) -> None:
        """Somebody writes: the line is taken away until `let`."""
        with self._lock:
            self._held = True
            self._erase()

    def let(self) -> None:
        with self._lock:
            self._held = False

    def stop(self) -> None:
        self._stopped.set()
        with self._lock:
            self._words = None
            self._erase()

    def _turn(self) -> None:
        while not self._stopped.wait(self._SECONDS):
            with self._lock:
                self._frame += 1
                self._draw()

    def _draw(self) -> None:
        if self._held or self._words is None:
            return
        line = f"{self._frames[self._frame % len(self._frames)]} {self._words}{self._time()}"
        self._send(f"\r\x1b[K\x1b[2m{line[: self._width()]}\x1b[0m")
        self._drawn = True

    def _time(self) -> str:
        now = self._clock()
        if self._until is not None:
            return f" in {max(self._until - now, 0.0):.0f} s"
        passed = now - self._since
        return f" {passed:.0f} s" if passed >= self._SHOW_SECONDS_FROM else ""

    def _width(self) -> int:
        try:
            return (os.get_terminal_size(self._stream.fileno()).columns or 80) - 1
        except (OSError, ValueError):
            return 79

    def _erase(self) -> None:
        if self._drawn:
            self._send("\r\x1b[K")
            self._drawn = False

    def _send(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._stopped.set()  # the terminal is gone
