"""What a step with several calls is waiting for, told truthfully while they come and go."""

from __future__ import annotations

from holdfast.agent.protocol import TurnHandle
from holdfast.schema.runs import Now, Phase

_URGENT = ("approval", "question")


class StepProgress:
    """Of one step. A person who is waited for is told before anything else, then whatever began last."""

    def __init__(self, handle: TurnHandle) -> None:
        self._handle = handle
        self._by_call: dict[str, Now] = {}
        self._told: Now | None = None

    def now(self, call_id: str, phase: Phase, what: str) -> None:
        """From now on the call does this."""
        self._by_call.pop(call_id, None)
        self._by_call[call_id] = Now(phase, what, self._handle.now())
        self._tell()

    def over(self, call_id: str) -> None:
        if self._by_call.pop(call_id, None) is not None:
            self._tell()

    def _tell(self) -> None:
        if not self._by_call:
            return
        doing = list(self._by_call.values())
        shown = next((one for one in doing if one.phase in _URGENT), doing[-1])
        if shown != self._told:
            self._told = shown
            self._handle.progress(shown.phase, shown.what, since=shown.since)
