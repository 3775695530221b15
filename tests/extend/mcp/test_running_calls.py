"""The time of a call while a person or a model answers its server."""

import asyncio
from typing import Any

import pytest

from holdfast.extend.mcp.running_calls import CallHandlers, RunningCall


async def test_the_time_stands_still_during_answers_and_many_requests_do_not_extend_it() -> None:
    loop = asyncio.get_running_loop()
    seen: list[float | None] = []

    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        assert call._deadline is not None
        seen.append(call._deadline.when())
        return {"number": len(seen)}

    call = RunningCall(CallHandlers(answer), seconds=1_000.0)
    began = loop.time()
    async with call.limit():
        for number in range(1, 51):
            assert await call.answer(answer, {}) == {"number": number}
        assert seen == [None] * 50
        assert call._deadline is not None
        ends = call._deadline.when()
        assert ends is not None
        assert began + 1_000.0 <= ends <= loop.time() + 1_000.0
        assert call._left < 1_000.0, "the time before the last request was used"


async def test_a_call_that_takes_too_long_ends_and_an_answer_ends_with_its_call() -> None:
    waiting = asyncio.Event()

    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        waiting.set()
        await asyncio.Event().wait()
        return {}

    call = RunningCall(CallHandlers(answer), seconds=1_000.0)
    async with call.limit():
        asking = asyncio.create_task(call.answer(answer, {}))
        await waiting.wait()
    assert await asking is None
    short = RunningCall(CallHandlers(answer), seconds=0.01)
    with pytest.raises(TimeoutError):
        async with short.limit():
            await asyncio.Event().wait()
