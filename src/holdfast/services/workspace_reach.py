"""The workspaces that a person may use: those in their directories. Everything else does not exist for them."""

from __future__ import annotations

from holdfast.errors import NotFound
from holdfast.schema.people import covers
from holdfast.schema.sessions import IdMatch, Workspace
from holdfast.store import OwnedKind, Store


class WorkspaceDirectories:
    """The directories of all workspaces, by id. Read from the store when the first person asks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._paths: dict[str, str] = {}
        self._loaded = False

    async def load(self) -> None:
        if not self._loaded:
            self._paths |= {one.id: one.path for one in await self._store.workspaces()}
            self._loaded = True

    def add(self, workspace: Workspace) -> None:
        """Note a new workspace, before anything can happen in it."""
        self._paths[workspace.id] = workspace.path

    def get(self, workspace_id: str) -> str | None:
        return self._paths.get(workspace_id)

    def knows(self, workspace_id: str) -> bool:
        """Whether a workspace is known. If not, all are read again for the next request."""
        self._loaded = self._loaded and workspace_id in self._paths
        return workspace_id in self._paths

    async def learn(self, workspace_id: str) -> None:
        """Look for a workspace that is not known yet: another server may have registered it."""
        if not self.knows(workspace_id):
            await self.load()


class WorkspaceReach:
    """What a person with these directories may see. `WorkspaceDirectories.load` must have been called."""

    def __init__(self, directories: tuple[str, ...], *, store: Store, paths: WorkspaceDirectories) -> None:
        self._directories = directories
        self._store = store
        self._paths = paths

    def includes_path(self, path: str) -> bool:
        """Whether a resolved directory may be opened."""
        return covers(self._directories, path)

    def includes(self, workspace_id: str | None) -> bool:
        path = None if workspace_id is None else self._paths.get(workspace_id)
        return path is not None and covers(self._directories, path)

    def knows(self, workspace_id: str) -> bool:
        """Whether the directory of a workspace is known. If not, nothing of it is shown."""
        return self._paths.knows(workspace_id)

    async def require(self, kind: OwnedKind, owned_id: str) -> None:
        """Raise the `NotFound` of an unknown id, unless the id belongs to one of the workspaces."""
        workspace_id = await self._store.workspace_of(kind, owned_id)
        if workspace_id is not None:
            await self._paths.learn(workspace_id)
        if not self.includes(workspace_id):
            raise not_found(kind, owned_id)

    async def require_workspace(self, workspace_id: str) -> None:
        await self._paths.learn(workspace_id)
        if not self.includes(workspace_id):
            raise NotFound(f"workspace {workspace_id!r} does not exist", code="workspace_not_found")

    async def only_own(self, matches: tuple[IdMatch, ...]) -> tuple[IdMatch, ...]:
        """Those of the ids that belong to the workspaces."""
        return tuple([one for one in matches if await self._owns(one)])

    async def _owns(self, match: IdMatch) -> bool:
        if match.kind == "message":
            session_id = (await self._store.message(match.id)).session_id
            return self.includes(await self._store.workspace_of("session", session_id))
        return self.includes(await self._store.workspace_of(match.kind, match.id))


def not_found(kind: OwnedKind, owned_id: str) -> NotFound:
    """The error for an id that does not exist, as the store raises it."""
    if kind == "call":
        return NotFound(f"call {owned_id!r} has no stored output", code="call_not_found")
    return NotFound(f"{kind} {owned_id!r} does not exist", code=f"{kind}_not_found")
