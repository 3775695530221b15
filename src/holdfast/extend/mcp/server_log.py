"""The last lines that an MCP server wrote to stderr, and what happened to its connection."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

_MAX_LINES = 500
_MAX_LINE = 1_000


class ServerLog:
    def __init__(self, *, now: Callable[[], str]) -> None:
        self._now = now
        self._lines: deque[str] = deque(maxlen=_MAX_LINES)

    def add(self, text: str) -> None:
        for line in text.splitlines():
            plain = "".join(char if char.isprintable() or char == "\t" else "�" for char in line[:_MAX_LINE])
            self._lines.append(f"{self._now()} {plain}")

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(self._lines)

    def last_words(self) -> str:
        """The last line, without its time."""
        return self._lines[-1].partition(" ")[2] if self._lines else ""
