"""Asks the terminal for its background colour before the UI starts, without losing what is typed meanwhile.

The question is sent first and the answer is read when the UI's modules are imported, so that it costs no time. Behind
it a second question is sent that every terminal answers: when its answer is there, the first one is there or never
comes. An answer that came later would be read as typed text.
"""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import time
import tty
from collections.abc import Mapping
from typing import Literal, NamedTuple

_QUESTIONS = b"\x1b]11;?\x1b\\\x1b[c"
_LONGEST_WAIT = 1.0
_BACKGROUND = re.compile(
    rb"\x1b\]11;rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})[^\x07\x1b]*(?:\x07|\x1b\\)"
)
_ATTRIBUTES = re.compile(rb"\x1b\[\?[0-9;]*c")


class TerminalAnswer(NamedTuple):
    background: Literal["dark", "light"]
    typed: str
    """Printable text that was typed before the UI could read it."""


class TerminalQuery:
    """One question to the terminal. `ask`, then `answer`."""

    def __init__(self, env: Mapping[str, str], *, descriptor: int | None = None) -> None:
        self._env = env
        self._input = sys.__stdin__.fileno() if descriptor is None and sys.__stdin__ else descriptor or 0
        self._modes: list[object] | None = None

    def ask(self) -> None:
        """Send the question. Some terminals would print it; they are not asked."""
        if self._env.get("TERM", "dumb") in ("dumb", "linux", ""):
            return
        try:
            self._modes = termios.tcgetattr(self._input)
            tty.setcbreak(self._input, termios.TCSANOW)
            os.write(self._input, _QUESTIONS)
        except (OSError, termios.error):
            self._restore()

    def answer(self) -> TerminalAnswer:
        if self._modes is None:
            return TerminalAnswer(guess_background(self._env), "")
        try:
            received = self._receive()
        finally:
            self._restore()
        return read_answer(received, self._env)

    def _receive(self) -> bytes:
        received, until = b"", time.monotonic() + _LONGEST_WAIT
        while not _ATTRIBUTES.search(received) and (left := until - time.monotonic()) > 0:
            ready, _, _ = select.select([self._input], [], [], left)
            if not ready:
                break
            chunk = os.read(self._input, 4096)
            if not chunk:
                break
            received += chunk
        return received

    def _restore(self) -> None:
        if self._modes is not None:
            try:
                termios.tcsetattr(self._input, termios.TCSANOW, self._modes)  # type: ignore[arg-type]
            except (OSError, termios.error):
                pass  # the terminal is gone
            self._modes = None


def read_answer(received: bytes, env: Mapping[str, str]) -> TerminalAnswer:
    """Separate the terminal's answers from typed text. Pure."""
    found = _BACKGROUND.search(received)
    background = _brightness(found.groups()) if found else guess_background(env)
    rest = _ATTRIBUTES.sub(b"", _BACKGROUND.sub(b"", received)).decode("utf-8", "ignore")
    typed = "" if "\x1b" in rest else "".join(c for c in rest.replace("\r", "\n") if c.isprintable())
    return TerminalAnswer(background, typed)


def guess_background(env: Mapping[str, str]) -> Literal["dark", "light"]:
    """From ``COLORFGBG``, which some terminals set; else dark."""
    last = env.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if last in ("7", "9", "10", "11", "12", "13", "14", "15") else "dark"


def _brightness(channels: tuple[bytes, ...]) -> Literal["dark", "light"]:
    red, green, blue = (int(channel, 16) / (16 ** len(channel) - 1) for channel in channels)
    return "light" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "dark"
