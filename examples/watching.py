"""Watch a session that others drive, until its queue is empty: from another terminal, or another machine."""

import asyncio
import sys

from holdfast import Client
from holdfast.schema.events import ApprovalRequested, FileChanged, RunFinished, RunStarted


async def main(session_id: str) -> None:
    async with Client(name="watcher") as client:
        session = await client.open_session(session_id)
        async for event in session.events():
            match event:
                case RunStarted(run=run):
                    print(f"{run.client or 'someone'} asks: {run.prompt}", flush=True)
                case FileChanged(path=path, change=change):
                    print(f"{change} {path}", flush=True)
                case ApprovalRequested(approval=approval):
                    print(f"waits for approval: {approval.title}", flush=True)
                case RunFinished(run=run):
                    print(f"{run.state}: {run.text}", flush=True)
                    if (await session.queue()).active is None:
                        return
                case _:
                    pass


asyncio.run(main(sys.argv[1]))
