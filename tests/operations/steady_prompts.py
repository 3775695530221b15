"""Prompts that keep coming in while the database is disturbed, and what must be true of them afterwards."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from holdfast.errors import HoldfastError
from tests.e2e.player import Player

_ENDED = ("completed", "failed", "cancelled", "interrupted", "skipped")


class SteadyPrompts:
    def __init__(self, player: Player, session_id: str) -> None:
        self._player = player
        self._session_id = session_id
        self.accepted: list[str] = []
        self.refusals: dict[str, str] = {}
        """The message of the first refusal by its code."""

    @asynccontextmanager
    async def coming_in(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._prompt())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _prompt(self) -> None:
        while True:
            try:
                accepted = await self._player.prompt(self._session_id, "hello")
            except HoldfastError as error:
                self.refusals.setdefault(str(error.code), error.message)
                await asyncio.sleep(0.05)
            else:
                self.accepted.append(accepted.run.id)

    async def more(self, count: int = 5, *, seconds: float = 60.0) -> None:
        """Wait until so many further prompts were accepted."""
        wanted = len(self.accepted) + count
        await self._until(lambda: len(self.accepted) >= wanted, seconds)

    async def refused_with(self, code: str, *, seconds: float = 60.0) -> str:
        await self._until(lambda: code in self.refusals, seconds)
        return self.refusals[code]

    async def all_have_one_end(self) -> None:
        """Everything that was accepted is there and has ended."""
        for run_id in self.accepted:
            assert (await self._player.client.wait_run(run_id)).state in _ENDED

    async def _until(self, condition: Callable[[], bool], seconds: float) -> None:
        give_up = asyncio.get_running_loop().time() + seconds
        while not condition():
            assert asyncio.get_running_loop().time() < give_up, self.refusals
            await asyncio.sleep(0.02)
