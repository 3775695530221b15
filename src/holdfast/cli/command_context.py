"""What most commands need: a client of the server, and the workspace of the current directory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from holdfast.cli.current_directory import current_directory
from holdfast.cli.exit_status import CommandError, Exit
from holdfast.cli.screen import Screen
from holdfast.client.client_environment import with_shell, with_shell_models
from holdfast.client.local_server import open_sync_client
from holdfast.client.server_address import address_from_env
from holdfast.client.sync_client import SyncClient
from holdfast.errors import Conflict, HoldfastError
from holdfast.ids import GENERATED_LENGTH, Prefix

if TYPE_CHECKING:
    from holdfast.schema.api.response_bodies import ModelsView
    from holdfast.schema.runs import RunRequest
    from holdfast.schema.sessions import IdKind, Session, WorkspaceView

ID_PREFIXES: dict[IdKind, Prefix] = {
    "session": "ses",
    "run": "run",
    "message": "msg",
    "approval": "apr",
    "question": "qst",
    "job": "job",
}
_MAX_SHOWN = 4


class CommandContext:
    """Finds or starts the server at once, and opens the workspace when it is first used."""

    def __init__(self, *, start: bool = True) -> None:
        self._start = start
        self.client: SyncClient = open_sync_client(os.environ, name="cli", start=start)
        self._workspace: WorkspaceView | None = None

    @property
    def workspace(self) -> WorkspaceView:
        if self._workspace is None:
            self._workspace = self.client.open_workspace(current_directory())
        return self._workspace

    def last_session(self) -> Session | None:
        """The top-level session of this directory with the latest prompt."""
        found = self.client.sessions(self.workspace.id, limit=1).items
        return found[0] if found else None

    def session_id(self, name: str | None) -> str:
        """The named session, or the last one of this directory."""
        if name:
            return self.full_id(name, "session")
        found = self.last_session()
        if found is None:
            raise CommandError(
                f"the directory {current_directory()!r} has no session yet",
                advice="'holdfast run PROMPT' starts one; -C DIR selects another directory",
                status=Exit.FAILED,
            )
        return found.id

    def full_id(self, name: str, kind: IdKind) -> str:
        """The id that begins with ``name``. If there is none, the name itself: the server says what is wrong."""
        if is_complete_id(name, kind):
            return name
        found = self.client.find_ids(name, kind=kind).items
        if not found and "_" not in name:
            found = self.client.find_ids(f"{ID_PREFIXES[kind]}_{name}", kind=kind).items
        if len(found) > 1:
            shown = ", ".join(match.id for match in found[:_MAX_SHOWN]) + (", …" if len(found) > _MAX_SHOWN else "")
            raise CommandError(
                f"{name!r} is the beginning of several ids: {shown}", advice="add more characters", status=Exit.USAGE
            )
        return found[0].id if found else name

    def reopen(self) -> None:
        """Connect to the successor of a server that is stopping."""
        self.client.close()
        self.client = open_sync_client(os.environ, name="cli", start=self._start)
        self._workspace = None

    def close(self) -> None:
        self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def models(self) -> ModelsView | None:
        """The models of the workspace; ``None`` if the server cannot list them."""
        try:
            return with_shell_models(self.client.models(workspace_id=self.workspace.id), os.environ)
        except HoldfastError:
            return None

    def with_shell(self, request: RunRequest) -> RunRequest:
        """The request with the variables of this shell."""
        return with_shell(request, os.environ, workspace=self.workspace, address=self.client.address)

    def restart_with_other_config(self) -> bool:
        """Restart the local server with the configuration that this shell names, if it is idle."""
        if address_from_env(os.environ) is not None:
            return False
        named = os.environ.get("HOLDFAST_CONFIG", "")
        if not os.path.isfile(named):
            raise CommandError(
                f"HOLDFAST_CONFIG names {named!r}, which is not a file",
                advice="correct it or unset it; the server was left as it is",
                status=Exit.CONFIGURATION,
            )
        try:
            self.client.stop_server(if_idle=True)
        except Conflict:
            return False
        self.reopen()
        return True

    def restart_with_new_keys(self, screen: Screen) -> bool:
        """Restart the local server if it was started without an API key that is set in this environment."""
        missing = unseen_keys(self.models(), os.environ)
        if not missing or address_from_env(os.environ) is not None:
            return False
        names = ", ".join(missing)
        try:
            self.client.stop_server(if_idle=True)
        except Conflict as error:
            if error.error_code == "server_kept":
                screen.warn(f"the server was started without {names}; whoever started it has to restart it with them")
            else:
                screen.warn(f"the server was started without {names} and is busy; run 'holdfast stop' to restart it")
            return False
        screen.note(f"the server was started without {names}; restarting it")
        self.reopen()
        return True


def is_complete_id(name: str, kind: IdKind) -> bool:
    """Whether the name has the length of an id that Holdfast makes. Clients may choose other ids for runs."""
    prefix, _, rest = name.partition("_")
    return prefix == ID_PREFIXES[kind] and len(rest) == GENERATED_LENGTH


def unseen_keys(models: ModelsView | None, env: Mapping[str, str]) -> list[str]:
    """API key variables that are set in ``env`` but not in the server's environment. Pure."""
    providers = models.providers if models else ()
    return [name for provider in providers for name in provider.missing_variables if env.get(name)]
