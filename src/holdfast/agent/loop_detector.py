"""Loop detection: the same calls with the same results, again and again (`R12`). Pure."""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Sequence

from holdfast.schema.base import encode
from holdfast.schema.messages import ToolCall, ToolResult

WINDOW = 12
REPEATS = 5


class LoopDetector:
    """Remembers the last steps; a step that has come back often enough among them is a loop."""

    def __init__(self, *, window: int = WINDOW, repeats: int = REPEATS) -> None:
        self._recent: deque[str] = deque(maxlen=window)
        self._repeats = repeats

    def step(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> str | None:
        """Take a step in; what is being repeated, in words, when it is a loop."""
        if not calls:
            return None
        self._recent.append(_mark(calls, results))
        mark, count = Counter(self._recent).most_common(1)[0]
        if count < self._repeats or mark != self._recent[-1]:
            return None
        names = ", ".join(sorted({call.name for call in calls}))
        return f"{names} was called {count} times with the same arguments and the same result"


def _mark(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> str:
    said = {result.call_id: (result.status, result.text) for result in results}
    step = [(call.name, call.arguments, call.malformed, said.get(call.id)) for call in calls]
    return hashlib.sha256(encode(step)).hexdigest()
