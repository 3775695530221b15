"""A client whose every request goes to a server chosen at random."""

from collections import Counter
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

    def __init__(self, pools: Sequence[HttpPool], random: Random, requests: Counter[int]) -> None:
        self._pools = pools
        self._random = random
        self._requests = requests
        self.peer: int | None = None

    async def open(self, method: str, target: str, **options: Any) -> Any:
        return await self._choose().open(method, target, **options)

    async def exchange(self, call: Any, *, seconds: float) -> tuple[int, bytes]:
        return await self._choose().exchange(call, seconds=seconds)

    def _choose(self) -> HttpPool:
        number = self._random.randrange(len(self._pools))
        self._requests[number] += 1
        return self._pools[number]

    async def read_chunk(self, chunks: AsyncIterator[bytes], *, seconds: float, limit: WaitLimit) -> bytes | None:
        return await self._pools[0].read_chunk(chunks, seconds=seconds, limit=limit)

    async def read_rest(self, response: Any, *, seconds: float) -> bytes:
        return await self._pools[0].read_rest(response, seconds=seconds)

    async def aclose(self) -> None:
        for pool in self._pools:
            await pool.aclose()


class RandomServersClient(AsyncClient):
    """Connects to any of the servers."""

    def __init__(
        self,
        addresses: Sequence[ServerAddress],
        *,
        seed: str,
        requests: Counter[int] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(addresses[0], **options)
        self.requests: Counter[int] = Counter() if requests is None else requests
        """How many requests and streams each server got."""
        self._addresses = addresses
        self._random = Random(seed)

    @cached_property
    def _pool(self) -> Any:
        headers: Mapping[str, str] = self._headers
        pools = [HttpPool(address, headers=headers) for address in self._addresses]
        return RandomPool(pools, self._random, self.requests)
