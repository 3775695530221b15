"""Typed output: the answer is a value, checked against the schema of its type by the server."""

import asyncio
from typing import Annotated

import msgspec

from holdfast import Client, RunNotCompleted


class Module(msgspec.Struct):
    path: str
    purpose: Annotated[str, msgspec.Meta(description="One sentence.")]
    risk: Annotated[int, msgspec.Meta(ge=1, le=5)]


async def main() -> None:
    async with Client() as client:
        result = await client.run("List the modules of this project, the riskiest first.", output=list[Module])
        try:
            modules = result.output
        except RunNotCompleted as error:  # no answer, or none that matches after one correction
            raise SystemExit(error.message) from None
        for module in modules:
            print(f"{module.risk} {module.path}: {module.purpose}")


asyncio.run(main())
