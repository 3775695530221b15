"""Detects that a run goes round in circles: step after step calls what was called before, with the same results. Pure.

Only steps in a row count. A step with a call or a result that is new, such as another edit, begins anew: to edit and to
run the same failing test in turn is progress. Waiting is not a loop: calls that poll are left out. The model is told
first, and the run ends only if it goes on (`R12`).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence

from holdfast.digests import sha256_hex
from holdfast.schema.base import Value, encode
from holdfast.schema.messages import ToolCall, ToolResult

_WINDOW = 12
"""Steps that are remembered, so a circle of up to this many steps is found."""
_TELL_AFTER = 3
_END_AFTER = 7
"""Steps in a row that only repeat."""

_SLEEPS = re.compile(r"(?:^|[;&|({\n]|\b(?:do|then|else))\s*(?:command\s+|timeout\s+\S+\s+)?(?:sleep|wait)\b")
"""A command line that waits."""


class Repetition(Value, frozen=True):
    """Steps that only repeat. ``text`` says what is repeated, ``over`` whether the run must end."""

    text: str
    over: bool


class LoopDetector:
    def __init__(self) -> None:
        self._recent: deque[str] = deque(maxlen=_WINDOW)
        self._repeats = 0
        """Steps in a row that were there before."""

    def add_step(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> Repetition | None:
        """Add a step. Returns what is repeated when the model must be told, and when the run must end."""
        calls = [call for call in calls if not _polls(call)]
        if not calls:
            return None
        digest = _digest(calls, results)
        self._repeats = self._repeats + 1 if digest in self._recent else 0
        self._recent.append(digest)
        if self._repeats not in (_TELL_AFTER, _END_AFTER):
            return None
        names = ", ".join(sorted({call.name for call in calls}))
        text = f"the last {self._repeats} steps repeat earlier calls ({names}) with the same arguments and results"
        return Repetition(text, over=self._repeats >= _END_AFTER)


def _polls(call: ToolCall) -> bool:
    """Whether a call waits for something. Its result may stay the same for a long time."""
    if call.name == "job_output":
        return True
    command = call.arguments.get("command")
    return isinstance(command, str) and _SLEEPS.search(command) is not None


def _digest(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> str:
    by_call = {result.call_id: (result.status, result.text) for result in results}
    step = [(call.name, call.arguments, call.malformed, by_call.get(call.id)) for call in calls]
    return sha256_hex(encode(step))
