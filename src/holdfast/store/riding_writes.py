"""Writes that nobody waits for. They are written with the next commit, or alone after a moment.

They are put before the writes of the commit's batch, so that both are in one transaction, and the commit does not wait
for a second flush of the disk. If the commit conflicts, they are written alone; if it is refused, they wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from holdfast.errors import CommitRefused, OutcomeUnknown
from holdfast.store.writes import AnyWrite, Batch, Committed

ALONE_SECONDS = 0.05
"""How long writes wait for a commit."""
MAX_WAITING = 10_000
"""Writes that are kept while the store cannot be written. The oldest are dropped."""

_logger = logging.getLogger(__name__)


class RidingWrites:
    """Belongs to a store, and to its event loop."""

    def __init__(
        self, submit: Callable[[Batch], asyncio.Future[Committed]], *, loop: asyncio.AbstractEventLoop
    ) -> None:
        """``submit`` hands a batch to the writer."""
        self._submit = submit
        self._loop = loop
        self._waiting: list[AnyWrite] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, write: AnyWrite) -> None:
        self._waiting.append(write)
        if self._timer is None:
            self._timer = self._loop.call_later(ALONE_SECONDS, self.send_alone)

    def submit(self, batch: Batch) -> asyncio.Future[Committed]:
        """Hand over the batch of a commit, with what is waiting."""
        if not self._waiting:
            return self._submit(batch)
        riding, self._waiting = tuple(self._waiting), []
        future = self._submit(Batch((*riding, *batch.writes), batch.events, batch.uses_reserve))
        future.add_done_callback(lambda done: self._settle(done, riding, alone=False))
        return future

    def send_alone(self) -> None:
        """Hand over what is waiting."""
        self._timer = None
        if self._waiting:
            riding, self._waiting = tuple(self._waiting), []
            self._submit_alone(riding)

    def _submit_alone(self, riding: tuple[AnyWrite, ...]) -> None:
        self._submit(Batch(riding)).add_done_callback(lambda done: self._settle(done, riding, alone=True))

    def close(self) -> None:
        """Call it before the store is closed."""
        if self._timer is not None:
            self._timer.cancel()
        self.send_alone()

    def _settle(self, done: asyncio.Future[Committed], riding: tuple[AnyWrite, ...], *, alone: bool) -> None:
        """Keep the writes for another commit if this one was refused."""
        if done.cancelled() or (error := done.exception()) is None:
            return
        if isinstance(error, OutcomeUnknown) and error.look_up is not None:
            error.look_up.outcome.add_done_callback(lambda known: self._settle(known, riding, alone=alone))
            return
        if not isinstance(error, CommitRefused):
            if alone:  # a bug; it must not make other commits fail
                _logger.error("%d audit entries were lost", len(riding), exc_info=error)
            else:
                self._submit_alone(riding)
            return
        self._waiting = [*riding, *self._waiting]
        if (dropped := len(self._waiting) - MAX_WAITING) > 0:
            _logger.warning("%d audit entries could not be stored: %s", dropped, error)
            del self._waiting[:dropped]
        if self._timer is None:
            self._timer = self._loop.call_later(ALONE_SECONDS * 20, self.send_alone)
