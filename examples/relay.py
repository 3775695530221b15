"""A relay for a chat: each channel is a session, and replies are posted when they are there.

This one reads messages as lines ``channel: text`` from stdin and posts to stdout; a bot for a real chat does the same
with its library. A message while the agent works steers it, and ``stop`` cancels.
"""

import asyncio
import sys

from holdfast import AgentRun, AgentSession, Client


def post(channel: str, text: str) -> None:
    print(f"{channel}> {text}", flush=True)


async def reply(channel: str, run: AgentRun[None]) -> None:
    result = await run.wait()
    post(channel, result.text if result.ok else f"({result.state}: {result.reason})")


async def main() -> None:
    channels: dict[str, AgentSession] = {}
    replies: set[asyncio.Task[None]] = set()
    async with Client(name="relay") as client:
        while line := await asyncio.to_thread(sys.stdin.readline):
            channel, _, text = line.strip().partition(": ")
            if channel not in channels:
                channels[channel] = await client.new_session(title=f"Channel {channel}")
            session = channels[channel]
            if text == "stop":
                receipt = await session.cancel()
                post(channel, f"cancelled {len(receipt.runs)} run(s)")
                continue
            task = asyncio.create_task(reply(channel, await session.steer(text)))
            replies.add(task)
            task.add_done_callback(replies.discard)
        await asyncio.gather(*replies)


asyncio.run(main())
