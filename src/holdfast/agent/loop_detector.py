"""Detects that a run repeats the same tool calls with the same results (`R12`). Pure."""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Sequence

from holdfast.schema.base import encode
from holdfast.schema.messages import ToolCall, ToolResult

_WINDOW = 12
_REPEATS = 5


class LoopDetector:
    """Remembers the last steps. A step that occurs often enough among them is a loop."""

    def __init__(self) -> None:
        self._recent: deque[str] = deque(maxlen=_WINDOW)

    def add_step(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> str | None:
        """Add a step. Returns a description of what is repeated, if it is a loop."""
        if not calls:
            return None
        self._recent.append(_digest(calls, results))
        digest, count = Counter(self._recent).most_common(1)[0]
        if count < _REPEATS or digest != self._recent[-1]:
            return None
        names = ", ".join(sorted({call.name for call in calls}))
        return f"{names} was called {count} times with the same arguments and the same result"


def _digest(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> str:
    by_call = {result.call_id: (result.status, result.text) for result in results}
    step = [(call.name, call.arguments, call.malformed, by_call.get(call.id)) for call in calls]
    return hashlib.sha256(encode(step)).hexdigest()
