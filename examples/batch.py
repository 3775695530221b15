"""Work on many files: at most four at a time, and one budget for all."""

import asyncio
import sys
from pathlib import Path

from holdfast import Client

AT_ONCE = 4
BUDGET = 2.0  # US dollars


async def main(names: list[str]) -> None:
    spent = 0.0
    slots = asyncio.Semaphore(AT_ONCE)

    async with Client() as client:

        async def describe(name: str) -> str:
            nonlocal spent
            async with slots:
                left = BUDGET - spent
                if left <= 0:
                    return f"{name}: skipped, the budget is used up"
                # A run may spend what is left, divided by those that work beside it.
                result = await client.run(f"Describe {name} in one line.", mode="plan", max_cost=left / AT_ONCE)
                spent += result.usage.cost
                return f"{name}: {result.text if result.ok else result.reason}"

        for line in await asyncio.gather(*(describe(name) for name in names)):
            print(line)
    print(f"{len(names)} files, {spent:.4f} of {BUDGET} dollars")


asyncio.run(main(sys.argv[1:] or sorted(str(path) for path in Path().glob("*.py"))))
