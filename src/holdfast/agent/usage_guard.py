"""What something cost is counted exactly once, also where a cancel overtakes the commit that counts it."""

from __future__ import annotations

from holdfast.agent.protocol import TurnHandle


class UsageGuard:
    """Of a request, or of the sub-agents of a step. While it is open nothing else of the run is counted.

    A commit that a cancel overtook may have been made or not; the run's own usage tells which.
    """

    def __init__(self, handle: TurnHandle) -> None:
        self._handle = handle
        self.open()

    def open(self) -> None:
        """From now on."""
        self._before = self._handle.run.usage

    @property
    def is_paid(self) -> bool:
        return self._handle.run.usage != self._before
