"""The language servers of one workspace: started when they are first needed, one for each project root.

Only runs in a trusted directory use it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any

from holdfast.config import Config, Settings
from holdfast.errors import NotFound, ToolError
from holdfast.extend.lsp.language_server import MAX_DOCUMENT_CHARS, LanguageServer
from holdfast.extend.lsp.language_server_process import ServerHost
from holdfast.extend.lsp.message_framing import LanguageServerError
from holdfast.extend.lsp.server_choice import ChosenServer, choose_servers, define_servers
from holdfast.schema.extensions import ExtensionStatus
from holdfast.tasks import OwnedTasks
from holdfast.tools.files.file_access import read_file
from holdfast.tools.text.text_file import decode_text

_MAX_SERVERS = 12
_FINISH_SECONDS = 2.0


class LanguageServers:
    """The `ExtensionProvider` of language servers."""

    def __init__(self, host: ServerHost, *, announce: Callable[[ExtensionStatus], Coroutine[Any, Any, None]]) -> None:
        self.host = host
        self._announce = announce
        self._servers: dict[tuple[str, Path], LanguageServer] = {}
        self._tasks = OwnedTasks()
        self._trusted = True
        self._closed = False

    async def refresh(self, config: Config, *, trusted: bool) -> None:
        """Stop the servers that may not run any more."""
        self._trusted = trusted
        allowed = {definition.name: definition for definition in define_servers(config.settings)} if trusted else {}
        for key, server in list(self._servers.items()):
            if allowed.get(server.name) != server.chosen.definition:
                del self._servers[key]
                await server.close()

    async def stop(self) -> None:
        """Stop all servers, until `refresh` allows them again."""
        self._trusted = False
        servers, self._servers = list(self._servers.values()), {}
        await asyncio.gather(*(server.close() for server in servers))

    def statuses(self) -> list[ExtensionStatus]:
        return sorted((server.status() for server in self._servers.values()), key=lambda status: status.name)

    def all_servers(self) -> tuple[LanguageServer, ...]:
        """The servers that were started."""
        return tuple(self._servers.values())

    async def close(self) -> None:
        self._closed = True
        await self._tasks.finish(seconds=0.0)
        servers, self._servers = list(self._servers.values()), {}
        await asyncio.gather(*(server.close() for server in servers))

    async def servers_for(
        self, path: Path, settings: Settings, environment: Mapping[str, str]
    ) -> tuple[LanguageServer, ...]:
        """Return the servers of a file, and start those that do not run yet. Does not wait for them."""
        if settings.tools.lsp == "off" or self._closed or not self._trusted:
            return ()
        chosen = await asyncio.to_thread(choose_servers, path, self.host.workspace, settings, environment)
        return tuple([server for one in chosen if (server := await self._server(one, settings, environment))])

    def note_read(self, path: Path, settings: Settings, environment: Mapping[str, str]) -> None:
        """Start the servers of a file that was read, and let them look at it."""
        self._spawn(self._open(path, settings, environment), f"lsp:open:{path.name}")

    def note_changes(self, paths: Iterable[Path]) -> None:
        """Tell the servers of files that something else than an edit changed."""
        ready = [server for server in self._servers.values() if server.state == "ready"]
        changed = tuple(paths)
        if ready and changed:
            self._spawn(self._tell_changes(ready, changed), "lsp:changes")

    async def restart(self, name: str) -> None:
        """Start a server again, also one that has failed for good. Raises `NotFound` if it was never started."""
        found = [key for key, server in self._servers.items() if server.name == name]
        if not found:
            raise NotFound(f"no language server {name!r} was started; 'holdfast lsp' lists those that were")
        for key in found:
            old = self._servers.pop(key)
            await old.close()
            self._servers[key] = self._start(old.chosen, old.settings, old.environment)

    def log(self, name: str) -> str:
        """Return the last lines of a server's log. Raises `NotFound` if it was never started."""
        found = [server.log.text for server in self._servers.values() if server.name == name]
        if not found:
            raise NotFound(f"no language server {name!r} was started; 'holdfast lsp' lists those that were")
        return "\n".join(found)

    async def read_text(self, path: Path) -> str:
        """Read a file for the servers. Raises `ToolError` if it is missing, binary or too large."""
        return await asyncio.to_thread(read_document, path)

    async def sync_open_documents(self, server: LanguageServer) -> None:
        """Send what changed on disk since the server was told. It then answers for the files as they are."""
        for path in server.documents:
            try:
                text = await self.read_text(path)
            except ToolError:
                server.forget_document(path)
                continue
            if server.has_other_text(path, text):
                server.note_changes({path: 2})
                server.open_document(path, text, saved=True)
                await server.take_in(path)

    async def _server(
        self, chosen: ChosenServer, settings: Settings, environment: Mapping[str, str]
    ) -> LanguageServer | None:
        key = chosen.definition.name, chosen.root
        found = self._servers.get(key)
        if found is not None and found.chosen != chosen:
            del self._servers[key]
            await found.close()
            found = self._servers.get(key)
        if found is None and len(self._servers) < _MAX_SERVERS and not self._closed:
            found = self._servers[key] = self._start(chosen, settings, environment)
        return found

    def _start(self, chosen: ChosenServer, settings: Settings, environment: Mapping[str, str]) -> LanguageServer:
        def announce() -> None:
            self._spawn(self._announce(server.status()), "lsp:announce")

        server = LanguageServer(chosen, self.host, settings, environment=environment, on_change=announce)
        announce()
        return server

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Do something in the background that may fail: what it would tell is told when it is asked for."""
        if self._closed:
            work.close()
        else:
            _ = self._tasks.spawn(work, name=name, may_fail=True)

    async def _open(self, path: Path, settings: Settings, environment: Mapping[str, str]) -> None:
        for server in await self.servers_for(path, settings, environment):
            self._spawn(self._open_in(server, path), f"lsp:{server.name}:open")

    async def _open_in(self, server: LanguageServer, path: Path) -> None:
        await server.wait_ready()
        text = await self.read_text(path)
        await server.problems(path, text)

    async def _tell_changes(self, servers: list[LanguageServer], paths: tuple[Path, ...]) -> None:
        kinds = await asyncio.to_thread(lambda: {path: 2 if path.exists() else 3 for path in paths})
        for server in servers:
            server.note_changes(kinds)
            await self.sync_open_documents(server)


def read_document(path: Path) -> str:
    """Read a text. Blocking. Raises `ToolError`."""
    data = read_file(path, limit=4 * MAX_DOCUMENT_CHARS)
    text = None if data is None else decode_text(data)
    if text is None:
        raise LanguageServerError(f"{path.name!r} does not exist or is not text")
    return text.text
