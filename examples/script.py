"""Ask one thing about the current directory, and print the answer."""

import asyncio

from holdfast import Client


async def main() -> None:
    async with Client() as client:
        result = await client.run("What does this project do? Answer in one sentence.")
        print(result.check().text)


asyncio.run(main())
