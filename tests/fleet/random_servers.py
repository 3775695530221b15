"""A client whose every request goes to a server chosen at random."""

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cached_property
from random import Random
from typing import Any

from holdfast.client import AsyncClient
from holdfast.client.async_client import HttpPool
from holdfast.client.server_address import ServerAddress
from holdfast.tasks import WaitLimit


class RandomPool:
    """The connections to all servers. Each request and each stream takes one of them."""

    def __init__(self, pools: Sequence[HttpPool], random: Random) -> None:
        self._pools = pools
        self._random = random
        self.peer: int | None = None

    async def open(self, method: str, target: str, **options: Any) -> Any:
        return await self._random.choice(self._pools).open(method, target, **options)

    async def exchange(self, call: Any, *, seconds: float) -> tuple[int, bytes]:
        return await self._random.choice(self._pools).exchange(call, seconds=seconds)

    async def read_chunk(self, chunks: AsyncIterator[bytes], *, seconds: float, limit: WaitLimit) -> bytes | None:
        return await self._pools[0].read_chunk(chunks, seconds=seconds, limit=limit)

    async def read_rest(self, response: Any, *, seconds: float) -> bytes:
        return await self._pools[0].read_rest(response, seconds=seconds)

    async def aclose(self) -> None:
        for pool in self._pools:
            await pool.aclose()


class RandomServersClient(AsyncClient):
    """Connects to any of the servers."""

    def __init__(self, addresses: Sequence[ServerAddress], *, seed: str, **options: Any) -> None:
        super().__init__(addresses[0], **options)
        self._addresses = addresses
        self._random = Random(seed)

    @cached_property
    def _pool(self) -> Any:
        headers: Mapping[str, str] = self._headers
        return RandomPool([HttpPool(address, headers=headers) for address in self._addresses], self._random)
