"""Who waits for a run's end. A hint only: whoever was woken, or came late, reads the ledger (`R9`)."""

from __future__ import annotations

import asyncio

from holdfast.schema.base import Value
from holdfast.schema.runs import Run


class EndedRun(Value, frozen=True):
    """A run with its end, and what only the process that ended it knows."""

    run: Run
    killed: tuple[str, ...] = ()


class Waiters:
    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[EndedRun]]] = {}

    def expect(self, run_id: str) -> asyncio.Future[EndedRun]:
        """Resolved when the run's end has been committed. Cancel it to stop waiting."""
        future: asyncio.Future[EndedRun] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(run_id, set()).add(future)
        future.add_done_callback(lambda done: self._forget(run_id, done))
        return future

    def tell(self, ended: EndedRun) -> None:
        for future in tuple(self._waiting.get(ended.run.id, ())):
            if not future.done():
                future.set_result(ended)

    def __len__(self) -> int:
        return sum(len(waiting) for waiting in self._waiting.values())

    def _forget(self, run_id: str, future: asyncio.Future[EndedRun]) -> None:
        waiting = self._waiting.get(run_id)
        if waiting is not None:
            waiting.discard(future)
            if not waiting:
                del self._waiting[run_id]
