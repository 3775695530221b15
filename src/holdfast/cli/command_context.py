"""Where a command works: this directory, its workspace, and a client of the server that has it."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self

from holdfast.cli.error_messages import Problem
from holdfast.cli.exit_status import Exit
from holdfast.client.local_server import open_sync_client
from holdfast.client.sync_client import SyncClient
from holdfast.schema.sessions import Session, WorkspaceView


class CommandContext:
    """The server is found or started when this is made, the workspace opened when it is first asked for."""

    def __init__(self, *, start: bool = True) -> None:
        self._start = start
        self.client: SyncClient = open_sync_client(os.environ, name="cli", start=start)
        self._workspace: WorkspaceView | None = None

    @property
    def workspace(self) -> WorkspaceView:
        if self._workspace is None:
            self._workspace = self.client.open_workspace(directory())
        return self._workspace

    def last_session(self) -> Session | None:
        """The top-level session of this directory that was prompted last."""
        found = self.client.sessions(self.workspace.id, limit=1).items
        return found[0] if found else None

    def session_id(self, given: str | None) -> str:
        """The session that is meant: the one named, or the last one here."""
        if given:
            return given
        found = self.last_session()
        if found is None:
            raise Problem(
                f"there is no session in {directory()!r} yet",
                advice="'holdfast run PROMPT' begins one; name another directory with -C",
                status=Exit.FAILED,
            )
        return found.id

    def reopen(self) -> None:
        """After a server that said that it stops: the next one."""
        self.client.close()
        self.client = open_sync_client(os.environ, name="cli", start=self._start)
        self._workspace = None

    def close(self) -> None:
        self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def directory() -> str:
    try:
        found = os.getcwd()
        found.encode()
    except UnicodeEncodeError:
        raise Problem(
            f"the name of the directory that you are in is not UTF-8: {ascii(os.getcwdb())[1:]}",
            advice="rename it, or go to another one",
            status=Exit.USAGE,
        ) from None
    except FileNotFoundError:
        raise Problem(
            "the directory that you are in does not exist any more", advice="go to another one", status=Exit.USAGE
        ) from None
    return found
