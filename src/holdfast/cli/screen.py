"""What is written where: the agent's text to stdout, everything else to stderr, a spinner on terminals.

If stdout and stderr are the same terminal, a note starts on its own line, and the spinner is drawn only on an empty
line. Control characters in the text of models and tools are escaped. The standard streams may be closed or full: closed
ones are replaced, and a failed write ends no run.
"""

from __future__ import annotations

import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

_UNWRITABLE = frozenset({errno.ENOSPC, errno.EBADF, errno.EIO, errno.EDQUOT, errno.EFBIG})
_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))} | {
    code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
}
"""Control characters, and characters that change the direction of text, which can disguise a command."""

_PLAIN = str.maketrans({**_ESCAPED, ord("\n"): "\n", ord("\t"): "\t", ord("\r"): ""})
_ONE_LINE = str.maketrans({**_ESCAPED, ord("\n"): " ", ord("\t"): " ", ord("\r"): ""})


def prepare_standard_streams() -> None:
    """Open closed streams on ``/dev/null`` before other files get their numbers; replace what cannot be encoded."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - open for as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def write_stderr(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        discard_output(sys.stderr)


def discard_output(stream: TextIO) -> None:
    """Send the stream's buffered output to ``/dev/null``; otherwise the interpreter reports it when it exits."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        pass  # it is closed


def stdout_failure(error: OSError) -> str | None:
    """Why stdout cannot be written; ``None`` if the error has another cause."""
    try:
        sys.stdout.flush()
    except OSError as again:
        error = again
    except ValueError:
        return None
    else:
        if error.filename is not None or error.errno not in _UNWRITABLE:
            return None
    return error.strerror or str(error)


def plain(text: str) -> str:
    """The text with control characters escaped, except newlines and tabs."""
    return text.translate(_PLAIN)


def one_line(text: str, *, most: int = 200) -> str:
    """The text on one line of at most ``most`` characters, with control characters escaped."""
    shown = text.translate(_ONE_LINE).strip()
    return shown if len(shown) <= most else shown[: most - 1] + "…"


class Style:
    """Colours, if the stream is a terminal and ``NO_COLOR`` is not set."""

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

    def warn(self, text: str) -> str:
        return self("33", text)

    def diff_line(self, line: str) -> str:
        if line.startswith("+") and not line.startswith("+++"):
            return self.good(line)
        if line.startswith("-") and not line.startswith("---"):
            return self.bad(line)
        return self.dim(line) if line.startswith(("@@", "---", "+++")) else line


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
    """Writes a command's output to stdout and stderr."""

    def __init__(self, *, quiet: bool = False, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self.quiet = quiet
        self.out_is_terminal = is_terminal(self.out)
        self.err_is_terminal = is_terminal(self.err)
        self.style = Style(self.err)
        self.spinner = self._spinner()
        self._is_mid_line = False
        self._has_text = False
        self._new_block = False
        self._out_closed = False
        self.out_failed = False
        """Output could not be written, so the command must not exit with 0."""

    def _spinner(self) -> Spinner | None:
        if not self.err_is_terminal or self.quiet or os.environ.get("TERM", "") == "dumb":
            return None
        return Spinner(self.err)

    @property
    def _shared(self) -> bool:
        """Whether stdout and stderr end up in the same place."""
        return self.out is self.err or (self.out_is_terminal and self.err_is_terminal)

    def text(self, piece: str) -> None:
        """Write a piece of the agent's text to stdout."""
        if not piece:
            return
        shown = plain(piece) if self.out_is_terminal else piece
        if self._new_block and self._has_text:
            shown = ("\n\n" if self._is_mid_line else "\n") + shown
        self._new_block = False
        self._write_out(shown)
        self._has_text = True
        self._is_mid_line = not shown.endswith("\n")

    def block(self) -> None:
        """Start a new message: an empty line precedes the next text."""
        self._new_block = True
        self._end_line()

    def end_text(self) -> None:
        """End the last line of the text."""
        if self._is_mid_line:
            self._write_out("\n")
            self._is_mid_line = False

    def line(self, text: str) -> None:
        """Write a line to stdout."""
        self._end_line()
        self._write_out(text + "\n")

    def note(self, text: str) -> None:
        """Write a line to stderr, unless ``--quiet`` was given."""
        if not self.quiet:
            self.warn(text)

    def warn(self, text: str) -> None:
        """Write a line to stderr."""
        self._end_line()
        self._hold_spinner()
        try:
            self.err.write(text + "\n")
            self.err.flush()
        except (OSError, ValueError):
            pass  # stderr is closed
        self._resume_spinner()

    def status(self, text: str | None, *, seconds: float | None = None) -> None:
        """Show the current activity in the spinner, with a countdown if ``seconds`` is given."""
        if self.spinner is not None:
            self.spinner.show(text, seconds=seconds)

    def finish(self) -> None:
        """Stop the spinner and end the last line."""
        if self.spinner is not None:
            self.spinner.stop()
        self.end_text()

    def _end_line(self) -> None:
        if self._is_mid_line and self._shared:
            self._write_out("\n")
            self._is_mid_line = False

    def _write_out(self, text: str) -> None:
        if self._out_closed:
            return
        self._hold_spinner()
        try:
            self.out.write(text)
            self.out.flush()
        except BrokenPipeError:
            self._out_closed = True  # the run continues, and the exit status still reports its end
            discard_output(self.out)
        except OSError as error:
            self._out_closed = self.out_failed = True
            discard_output(self.out)
            self.warn(f"holdfast: cannot write to stdout: {error.strerror or error}")
        if text.endswith("\n") or not self._shared:
            self._resume_spinner()

    def _hold_spinner(self) -> None:
        if self.spinner is not None:
            self.spinner.hold()

    def _resume_spinner(self) -> None:
        if self.spinner is not None:
            self.spinner.resume()


class Spinner:
    """One animated line on a terminal that shows the current activity. Drawn by its own thread."""

    _FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
    _PLAIN_FRAMES = "|/-\\"
    _FRAME_SECONDS = 0.1
    _SHOW_SECONDS_FROM = 3.0

    def __init__(self, stream: TextIO) -> None:
        import threading
        import time

        self._stream = stream
        self._clock = time.monotonic
        self._frames = self._FRAMES if can_show(stream, self._FRAMES) else self._PLAIN_FRAMES
        self._lock = threading.RLock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._animate, name="spinner", daemon=True)
        self._text: str | None = None
        self._since = 0.0
        self._until: float | None = None
        self._held = False
        self._drawn = False
        self._frame = 0

    def show(self, text: str | None, *, seconds: float | None = None) -> None:
        with self._lock:
            now = self._clock()
            if text != self._text:
                self._text, self._since = text, now
            self._until = None if seconds is None else now + seconds
            if text is None:
                self._erase()
                return
            if not self._thread.is_alive() and not self._stopped.is_set():
                self._thread.start()
            self._draw()

    def hold(self) -> None:
        """Erase the line until `resume`, while other output is written."""
        with self._lock:
            self._held = True
            self._erase()

    def resume(self) -> None:
        with self._lock:
            self._held = False

    def stop(self) -> None:
        self._stopped.set()
        with self._lock:
            self._text = None
            self._erase()

    def _animate(self) -> None:
        while not self._stopped.wait(self._FRAME_SECONDS):
            with self._lock:
                self._frame += 1
                self._draw()

    def _draw(self) -> None:
        if self._held or self._text is None:
            return
        line = f"{self._frames[self._frame % len(self._frames)]} {self._text}{self._elapsed()}"
        self._send(f"\r\x1b[K\x1b[2m{line[: self._width()]}\x1b[0m")
        self._drawn = True

    def _elapsed(self) -> str:
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
            self._stopped.set()  # the terminal is closed
