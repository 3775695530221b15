"""A workspace whose sessions use the file tools: real files, real snapshots, and file records in memory."""

import asyncio
import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, cast

import msgspec

from holdfast.config import Redactor, Settings
from holdfast.errors import StoreConflict
from holdfast.schema.events import FileChanged
from holdfast.store.records import FileSnapshot, SnapshotState
from holdfast.store.writes import Batch, Committed, MoveSnapshot, PutSnapshot, RecordRead
from holdfast.tools.edit import EditTool
from holdfast.tools.protocol import Tool, ToolContext, ToolOutput, ToolPlan
from holdfast.tools.view import ViewTool
from holdfast.tools.write import WriteTool
from holdfast.workspace.undo.blob_store import BlobStore
from holdfast.workspace.undo.file_snapshots import SessionFiles, SnapshotStore
from holdfast.workspace.undo.restore import FileRestorer, UndoReport
from holdfast.workspace.undo.undo_plan import effective_snapshots
from tests.support.tool_contexts import permit_every_url

AT = "2026-01-01T00:00:00.000Z"


class MemoryRecords:
    """Read hashes and snapshots in memory, instead of the store."""

    def __init__(self) -> None:
        self.reads: dict[tuple[str, str], str] = {}
        self.rows: dict[str, FileSnapshot] = {}
        self.events: list[FileChanged] = []

    async def commit(self, batch: Batch) -> Committed:
        for write in batch.writes:
            match write:
                case RecordRead():
                    self.reads[write.session_id, write.path] = write.content_hash
                case PutSnapshot(snapshot=row):
                    assert row.id not in self.rows
                    self.rows[row.id] = msgspec.structs.replace(row, seq=len(self.rows) + 1)
                case MoveSnapshot():
                    if self.rows[write.snapshot_id].state != write.expect:
                        raise StoreConflict(f"{write.snapshot_id!r} is not {write.expect}")
                    row = self.rows[write.snapshot_id]
                    self.rows[row.id] = msgspec.structs.replace(row, state=write.state)
                case _:
                    raise AssertionError(f"files do not write {write!r}")
        self.events += cast(list[FileChanged], list(batch.events))
        return Committed()

    async def read_hash(self, session_id: str, path: str) -> str | None:
        return self.reads.get((session_id, path))

    async def read_hashes(self, session_id: str) -> tuple[tuple[str, str], ...]:
        return tuple((path, found) for (session, path), found in self.reads.items() if session == session_id)

    async def snapshots(self, session_id: str, *, path: str | None = None) -> tuple[FileSnapshot, ...]:
        rows = sorted(self.rows.values(), key=lambda row: row.seq)
        return tuple(row for row in rows if row.session_id == session_id and path in (None, row.path))


class FileWorkspace:
    """One workspace. Its sessions share the records and the snapshots."""

    def __init__(self, directory: Path, *, ledger: SnapshotStore | None = None) -> None:
        directory = directory.resolve()
        self.directory = directory / "workspace"
        self.directory.mkdir(parents=True)
        self.snapshots = directory / "data" / "snapshots"
        self.records = MemoryRecords()
        self.ledger = ledger or self.records
        self.blobs = BlobStore(self.snapshots)
        self._numbers = count(1)

    def session(self, session_id: str = "ses_1", *, run_id: str = "run_1", **context: Any) -> "FileSession":
        return FileSession(self, session_id, run_id, context)

    def put(self, name: str, content: str | bytes) -> Path:
        """Write a file as the user would."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def text(self, name: str) -> str:
        return (self.directory / name).read_bytes().decode()

    def tree(self) -> dict[str, bytes]:
        """Return the contents of all files by name."""
        files = (path for path in self.directory.rglob("*") if path.is_file())
        return {str(path.relative_to(self.directory)): path.read_bytes() for path in files}

    def new_id(self, prefix: str) -> str:
        return f"{prefix}_{next(self._numbers)}"

    def restorer(self) -> FileRestorer:
        return FileRestorer(self.ledger, self.blobs, now=lambda: AT, redact=str)


class FileSession:
    """Calls tools as one run of an agent."""

    def __init__(self, workspace: FileWorkspace, session_id: str, run_id: str, context: dict[str, Any]) -> None:
        self.workspace = workspace
        self.session_id = session_id
        self.run_id = run_id
        self._context = context

    def context(self) -> ToolContext:
        """Return a new context, as the turn makes one for each call."""
        workspace = self.workspace
        call_id = workspace.new_id("call")
        files = SessionFiles(
            workspace.ledger,
            workspace.blobs,
            session_id=self.session_id,
            run_id=self.run_id,
            call_id=call_id,
            new_id=workspace.new_id,
            now=lambda: AT,
        )
        nothing = cast(Any, None)
        given: dict[str, Any] = {
            "workspace": workspace.directory,
            "environment": dict(os.environ),
            "can_see_images": False,
            "redact": str,
            "files": files,
        }
        return ToolContext(
            **(given | self._context),
            session_id=self.session_id,
            run_id=self.run_id,
            call_id=call_id,
            workspace_id="wsp_1",
            settings=Settings(),
            outputs=workspace.directory.parent / "outputs",
            temporary=workspace.directory.parent / "tmp",
            interactive=True,
            emit=lambda text: None,
            redact_stream=Redactor().stream,
            permits_url=permit_every_url,
            new_id=workspace.new_id,
            now=lambda: AT,
            jobs=nothing,
            asker=nothing,
            todos=nothing,
            subagents=nothing,
            search_key=nothing,
        )

    async def call(
        self, tool: Tool[Any], *, between: Callable[[], object] = lambda: None, **arguments: Any
    ) -> ToolOutput:
        """Plan, call `between` where the approval would be, and run."""
        given = msgspec.convert(arguments, tool.arguments)
        context = self.context()
        plan = await tool.plan(given, context)
        await asyncio.to_thread(between)
        return await tool.run(given, context, plan)

    async def plan(self, tool: Tool[Any], **arguments: Any) -> ToolPlan:
        return await tool.plan(msgspec.convert(arguments, tool.arguments), self.context())

    async def view(self, path: str, **arguments: Any) -> str:
        return (await self.call(ViewTool(), path=path, **arguments)).text

    async def edit(self, path: str, old: str, new: str, **arguments: Any) -> str:
        return (await self.call(EditTool(), path=path, old_text=old, new_text=new, **arguments)).text

    async def write(self, path: str, content: str, **arguments: Any) -> str:
        return (await self.call(WriteTool(), path=path, content=content, **arguments)).text

    async def undo(self, *runs: str) -> UndoReport:
        """Undo the changes of runs. Without runs: those of the last run that is not undone."""
        chosen = runs or (await self._runs("applied"))[-1:]
        return await self.workspace.restorer().undo(self.session_id, run_id="run_undo", runs=chosen)

    async def redo(self, *runs: str) -> UndoReport:
        """Redo the changes of runs. Without runs: those of the oldest run that is undone."""
        chosen = runs or (await self._runs("undone"))[:1]
        return await self.workspace.restorer().redo(self.session_id, run_id="run_redo", runs=chosen)

    async def _runs(self, state: SnapshotState) -> tuple[str, ...]:
        records = effective_snapshots(await self.workspace.ledger.snapshots(self.session_id))
        return tuple(record.run_id for record in records if record.state == state)
