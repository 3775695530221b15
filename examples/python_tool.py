"""A tool written in Python: the agent calls a function of this program."""

import asyncio

from holdfast import Client

STOCK = {"anchor": 3, "rope": 0}


async def main() -> None:
    async with Client() as client:

        @client.tool(effect="reads")  # it changes nothing, so it needs no approval
        def stock(item: str, warehouse: str = "main") -> int:
            """Look up how many pieces of an item are in stock.

            Args:
                item: The name of the item, in lower case.
                warehouse: Which warehouse to look in.
            """
            print(f"looking up {item} in {warehouse}")
            return STOCK[item]  # an exception becomes an error that the agent sees

        result = await client.run("Do we have anchors?")
        print(result.check().text)


asyncio.run(main())
