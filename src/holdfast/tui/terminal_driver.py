"""Textual's driver for Linux and macOS, with six faults of it closed.

A process that was stopped from outside (``kill -STOP``) and goes on finds a terminal whose modes the shell has changed,
and Textual would read its keys with two threads. A terminal that is gone would block the event loop at the next writes.
Terminals that report the mouse in pixels would still do so after the end. A window that is made smaller and at once as
large as before has lost what was drawn, but Textual sees the same size and draws nothing. An escape character in a
paste would be read as a key. A window that is closed while the UI ends would start it again, for ever.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable
from typing import IO, Any, cast

from textual._xterm_parser import XTermParser
from textual.drivers import linux_driver
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from holdfast.tui.pasted_escapes import PastedEscapes


class _TerminalParser(XTermParser):
    """Textual's parser of what a terminal sends."""

    def __init__(self, debug: bool = False) -> None:  # noqa: FBT001, FBT002 - as Textual calls it
        super().__init__(debug)
        self._escapes = PastedEscapes()

    def feed(self, data: str) -> Iterable[Message]:
        text = self._escapes.replace(data)
        return super().feed(text) if text or not data else ()  # no data means the end


setattr(linux_driver, "XTermParser", _TerminalParser)  # noqa: B010 - the driver offers no other way to replace it


class TerminalDriver(LinuxDriver):
    """Owns the terminal while the UI is shown."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._file = cast("Any", _TerminalOutput(cast("IO[str]", self._file)))

    @property
    def _is_ending(self) -> bool:
        return self._app.return_code is not None

    def close(self) -> None:
        super().close()
        if self._is_ending:
            self.exit_event.set()  # a thread that still reads keys would do so for ever, and keep the process

    def start_application_mode(self) -> None:
        super().start_application_mode()  # type: ignore[no-untyped-call]
        # On the loop, not inside of a signal handler, which may interrupt a write and would wait for it for ever.
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCONT, self._continued)
        take_size = signal.getsignal(signal.SIGWINCH)
        if callable(take_size):
            loop.add_signal_handler(signal.SIGWINCH, self._resized, take_size)

    def _continued(self) -> None:
        """The process goes on: after its own suspend, or after a stop that it could not prepare for."""
        if not self._auto_restart or self._is_ending:
            return  # an editor has the terminal, or a terminal that goes away sends this after SIGHUP
        if not self._must_signal_resume:
            self.suspend_application_mode()
            self._must_signal_resume = True
        self.resume_application_mode()

    def _resized(self, take_size: Callable[[int, None], object]) -> None:
        take_size(signal.SIGWINCH, None)
        self._app.refresh(layout=True)

    def _disable_mouse_support(self) -> None:
        super()._disable_mouse_support()
        if self._mouse_pixels:
            self._mouse_pixels = False
            self.write("\x1b[?1016l")


class _TerminalOutput:
    """Drops what is written when the terminal is gone."""

    def __init__(self, file: IO[str]) -> None:
        self._output = file

    def write(self, text: str) -> None:
        try:
            self._output.write(text)
        except OSError:
            pass

    def flush(self) -> None:
        try:
            self._output.flush()
        except OSError:
            pass

    def fileno(self) -> int:
        return self._output.fileno()
