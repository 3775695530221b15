"""An approval policy in Python: tests may run, nothing else may, and the agent is told why."""

import asyncio

from holdfast import Approval, ApprovalReply, Client


async def main() -> None:
    async with Client() as client:

        @client.on_approval
        def decide(approval: Approval) -> ApprovalReply:
            print(f"asked: {approval.tool}: {approval.title}")
            if approval.tool == "bash" and approval.title.startswith("python -m unittest"):
                return ApprovalReply("once")
            return ApprovalReply("deny", feedback="Only the tests may run here. Say what you would change.")

        result = await client.run("Run the tests, then commit.")
        print(result.check().text)


asyncio.run(main())
