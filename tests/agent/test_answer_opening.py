"""The request to a model goes out while the opening of its answer is being written; both end in any order."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from holdfast.agent.model_answer import _closed_on_failure


@pytest.mark.parametrize("steps", range(7))
async def test_an_opening_that_fails_at_any_step_is_reported_to_its_caller_only(steps: int) -> None:
    async def fail() -> None:
        for _ in range(steps):
            await asyncio.sleep(0)
        raise OSError("full")

    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    opening = asyncio.create_task(fail())
    with suppress(OSError):
        async with _closed_on_failure(opening):
            for _ in range(3):
                await asyncio.sleep(0)
    with pytest.raises(OSError, match="full"):
        await opening
    await asyncio.sleep(0)
    assert reported == []
