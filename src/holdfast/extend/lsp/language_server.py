"""One language server: its life, the documents that it knows, and the questions that it is asked.

It is started when it is created. If it ends or stops answering, it is started again after a pause that doubles each
time; after `MAX_FAILURES` in a row it stays failed until it is restarted. Documents are sent whole and are forgotten
with the process; callers pass the present text each time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from holdfast.config import Settings
from holdfast.errors import HoldfastError
from holdfast.extend.lsp.diagnostic_diff import FileProblem, read_problems
from holdfast.extend.lsp.file_edits import to_path, to_uri
from holdfast.extend.lsp.language_server_connection import (
    LanguageServerRefusal,
    LanguageServerTimeout,
    ServerConnection,
)
from holdfast.extend.lsp.language_server_process import LanguageServerLog, ServerHost, start_process
from holdfast.extend.lsp.message_framing import LanguageServerError
from holdfast.extend.lsp.protocol_types import (
    CLIENT_CAPABILITIES,
    CONTENT_MODIFIED,
    SERVER_CANCELLED,
    ConfigurationItems,
    DiagnosticReport,
    InitializeResult,
    PositionEncoding,
    PublishedDiagnostics,
    ServerCapabilities,
    read_diagnostics,
    read_value,
)
from holdfast.extend.lsp.server_choice import ChosenServer
from holdfast.extend.lsp.text_positions import PositionedText
from holdfast.schema.extensions import ExtensionState, ExtensionStatus
from holdfast.tasks import finish_despite_cancel

_log = logging.getLogger(__name__)

MAX_FAILURES = 5
_FIRST_PAUSE = 1.0
_MAX_PAUSE = 60.0
_STABLE_SECONDS = 60.0
"""A server that ran this long has recovered from earlier failures."""
_MAX_TIMEOUTS = 3
"""Requests in a row without an answer, after which a server is started again."""
_MAX_DOCUMENTS = 100
_MAX_NEIGHBOURS = 10
"""Other open files whose diagnostics are compared after an edit."""
_PULL_ATTEMPTS = 3
"""A server may ask to be asked again, because something changed meanwhile."""
_QUIET_SECONDS = 0.3
"""A server that sends diagnostics by itself often sends several for one change; the last one counts."""
MAX_DOCUMENT_CHARS = 1_000_000


class EditedFile(NamedTuple):
    """A file before and after an edit."""

    path: Path
    before: str | None
    """None: there was no file, or its content is not known."""
    after: str
    is_new: bool


class FileCheck(NamedTuple):
    """What a server says about one file before and after an edit."""

    path: Path
    before: tuple[FileProblem, ...] | None
    """None: not known."""
    after: tuple[FileProblem, ...]
    old_text: str
    new_text: str


class _Document:
    def __init__(self, text: PositionedText, name: str) -> None:
        self.text = text
        self.name = name
        self.version = 1
        self.problems: tuple[FileProblem, ...] | None = None
        self.checked_version = 0
        """The version that `problems` is about."""


class LanguageServer:
    def __init__(
        self,
        chosen: ChosenServer,
        host: ServerHost,
        settings: Settings,
        *,
        environment: Mapping[str, str],
        on_change: Callable[[], None],
    ) -> None:
        self.chosen = chosen
        self.name = chosen.definition.name
        self.log = LanguageServerLog(host.redact)
        self._host = host
        self.settings = settings
        self.environment = environment
        self._on_change = on_change
        self._timeout = float(settings.tools.lsp_timeout)
        self._state: ExtensionState = "starting"
        self._detail = ""
        self._connection: ServerConnection | None = None
        self._capabilities = ServerCapabilities()
        self._documents: OrderedDict[Path, _Document] = OrderedDict()
        self._timeouts = 0
        self._changed = asyncio.Event()
        self._published = asyncio.Event()
        self._life = asyncio.create_task(self._live(), name=f"lsp:{self.name}:life")

    @property
    def state(self) -> ExtensionState:
        return self._state

    @property
    def capabilities(self) -> ServerCapabilities:
        return self._capabilities

    @property
    def encoding(self) -> PositionEncoding:
        return self._capabilities.position_encoding

    @property
    def documents(self) -> tuple[Path, ...]:
        """The open documents, those that were used last at the end."""
        return tuple(self._documents)

    @property
    def pending(self) -> int:
        """How many requests wait for an answer."""
        return self._connection.pending if self._connection else 0

    def status(self) -> ExtensionStatus:
        root = self._display(self.chosen.root)
        where = f" in {root}" if root != "." else ""
        return ExtensionStatus(
            "lsp", self.name, self._state, f"{self._detail}{where}".strip(), self.chosen.definition.source
        )

    async def wait_ready(self) -> None:
        """Wait until it is ready. Raises `LanguageServerError` if it has failed."""
        while self._state != "ready":
            if self._state == "failed":
                raise LanguageServerError(f"{self.name} does not run: {self._detail}")
            await self._changed.wait()

    async def close(self) -> None:
        """End it for good, with all its processes."""
        self._life.cancel()
        await asyncio.wait((self._life,))

    def open_document(self, path: Path, text: str, *, saved: bool = False) -> None:
        """Tell the server the present text of a file. Raises `LanguageServerError` if it cannot be told."""
        if len(text) > MAX_DOCUMENT_CHARS:
            raise LanguageServerError(f"{self._display(path)!r} is too large for a language server")
        connection, uri = self._require_connection(), to_uri(str(path))
        found = self._documents.get(path)
        if found is None:
            language = self.chosen.definition.language_of(path)
            item = {"uri": uri, "languageId": language, "version": 1, "text": text}
            connection.notify("textDocument/didOpen", {"textDocument": item})
            self._documents[path] = _Document(PositionedText(text, self.encoding), self._display(path))
            self._close_oldest(connection)
        elif found.text.text != text:
            found.version += 1
            found.text = PositionedText(text, self.encoding)
            changed = {"uri": uri, "version": found.version}
            connection.notify("textDocument/didChange", {"textDocument": changed, "contentChanges": [{"text": text}]})
        self._documents.move_to_end(path)
        if saved:
            connection.notify("textDocument/didSave", {"textDocument": {"uri": uri}, "text": text})

    def note_changes(self, changes: Mapping[Path, int]) -> None:
        """Tell it of files that were created (1), changed (2) or deleted (3)."""
        if self._connection is None or self._state != "ready" or not changes:
            return
        events = [{"uri": to_uri(str(path)), "type": kind} for path, kind in changes.items()]
        self._connection.notify("workspace/didChangeWatchedFiles", {"changes": events})

    def forget_document(self, path: Path) -> None:
        """Close a file that does not exist any more."""
        if self._documents.pop(path, None) is not None and self._connection is not None:
            self._connection.notify("textDocument/didClose", {"textDocument": {"uri": to_uri(str(path))}})

    async def ask(self, method: str, params: Mapping[str, Any], wanted: Any) -> Any:
        """Ask a question and check the answer's type. Raises `LanguageServerError`."""
        connection = self._require_connection()
        try:
            raw = await connection.request(method, params, seconds=self._timeout)
        except LanguageServerTimeout:
            self._timeouts += 1
            if self._timeouts >= _MAX_TIMEOUTS:
                self._timeouts = 0
                self.log.add(f"[{_MAX_TIMEOUTS} requests were not answered; it is started again]")
                await connection.close()
            raise
        self._timeouts = 0
        if len(raw) > 1 << 20:
            return await asyncio.to_thread(read_value, raw, wanted)
        return read_value(raw, wanted)

    def has_other_text(self, path: Path, text: str) -> bool:
        """Whether an open document differs from a text."""
        found = self._documents.get(path)
        return found is not None and found.text.text != text

    async def take_in(self, path: Path) -> None:
        """Let it look at a changed file, before it is asked about others: else it may answer from what it knew."""
        try:
            async with asyncio.timeout(float(self.settings.tools.lsp_wait)):
                await self._check(path)
        except TimeoutError:
            self.log.add(f"[it sent no diagnostics of {self._display(path)} in time]")

    async def problems(self, path: Path, text: str) -> tuple[FileProblem, ...]:
        """Return the errors and warnings of a file."""
        self.open_document(path, text)
        if self._pulls:
            self._documents[path].checked_version = 0  # a change of another file may have changed the answer
        try:
            async with asyncio.timeout(self._timeout):
                return await self._check(path)
        except TimeoutError:
            raise LanguageServerTimeout(f"{self.name} sent no diagnostics within {self._timeout:g} s") from None

    async def check_edits(self, edits: Sequence[EditedFile]) -> list[FileCheck]:
        """Return what it says about edited files, and about other open files in which it now finds something else."""
        await self.wait_ready()
        before: dict[Path, tuple[FileProblem, ...] | None] = {}
        unknown = [edit for edit in edits if edit.before is not None and not self._is_checked(edit.path, edit.before)]
        for edit in unknown:
            self.open_document(edit.path, edit.before or "")
        for edit in unknown:
            before[edit.path] = await self._check(edit.path)
        for edit in edits:
            if edit.path not in before:
                known = self._documents.get(edit.path)
                before[edit.path] = () if edit.is_new else (known.problems if known else None)
        edited = {edit.path for edit in edits}
        neighbours = [path for path in reversed(self._documents) if path not in edited][:_MAX_NEIGHBOURS]
        earlier = {path: self._documents[path].problems for path in neighbours}
        self.note_changes({edit.path: 1 if edit.is_new else 2 for edit in edits})
        for edit in edits:
            self.open_document(edit.path, edit.after, saved=True)
        found = [
            FileCheck(edit.path, before[edit.path], await self._check(edit.path), edit.before or "", edit.after)
            for edit in edits
        ]
        return [*found, *await self._check_neighbours(earlier)]

    async def _check_neighbours(self, earlier: Mapping[Path, tuple[FileProblem, ...] | None]) -> list[FileCheck]:
        """Check other open files again, for what an edit of one file breaks in another."""
        found = []
        for path, before in earlier.items():
            document = self._documents.get(path)
            if document is None:
                continue
            if self._pulls:
                document.checked_version = 0
                after = await self._check(path)
            else:
                after = document.problems or ()
            if before is not None and after != before:
                text = document.text.text
                found.append(FileCheck(path, before, after, text, text))
        return found

    async def _check(self, path: Path) -> tuple[FileProblem, ...]:
        document = self._documents.get(path)
        if document is None:
            raise LanguageServerError(f"{self.name} has forgotten {self._display(path)!r}; try again")
        if document.problems is None or document.checked_version != document.version:
            await (self._pull(path, document) if self._pulls else self._wait_published(document))
        return document.problems or ()

    @property
    def _pulls(self) -> bool:
        return bool(self._capabilities.diagnostic_provider)

    def _is_checked(self, path: Path, text: str) -> bool:
        found = self._documents.get(path)
        return found is not None and found.text.text == text and found.checked_version == found.version

    async def _pull(self, path: Path, document: _Document) -> None:
        params = {"textDocument": {"uri": to_uri(str(path))}}
        for attempt in range(_PULL_ATTEMPTS):
            version = document.version
            try:
                report: DiagnosticReport = await self.ask("textDocument/diagnostic", params, DiagnosticReport)
            except LanguageServerRefusal as error:
                if error.number not in (CONTENT_MODIFIED, SERVER_CANCELLED) or attempt == _PULL_ATTEMPTS - 1:
                    raise
                continue
            if document.version == version:
                self._keep(document, report.items, version)
            return

    async def _wait_published(self, document: _Document) -> None:
        """Wait until the server has sent diagnostics of this version, and then sends none for a moment."""
        while document.checked_version != document.version:
            self._require_connection()
            await self._published.wait()
        quiet = False
        while not quiet:
            seen = document.problems
            try:
                async with asyncio.timeout(_QUIET_SECONDS):
                    await self._published.wait()
                quiet = document.problems is seen
            except TimeoutError:
                quiet = True

    def _keep(self, document: _Document, items: tuple[msgspec.Raw, ...], version: int) -> None:
        diagnostics = read_diagnostics(items)
        document.problems = read_problems(diagnostics, path=document.name, text=document.text, server=self.name)
        document.checked_version = version

    def _close_oldest(self, connection: ServerConnection) -> None:
        while len(self._documents) > _MAX_DOCUMENTS:
            path, _ = self._documents.popitem(last=False)
            connection.notify("textDocument/didClose", {"textDocument": {"uri": to_uri(str(path))}})

    def _require_connection(self) -> ServerConnection:
        if self._connection is None or self._state != "ready":
            raise LanguageServerError(f"{self.name} does not run: {self._detail or 'it is starting'}")
        return self._connection

    def _display(self, path: Path) -> str:
        root = self._host.workspace
        return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)

    def _set_state(self, state: ExtensionState, detail: str = "") -> None:
        self._state, self._detail = state, detail
        for event in ("_changed", "_published"):
            old: asyncio.Event = getattr(self, event)
            setattr(self, event, asyncio.Event())
            old.set()
        if detail:
            self.log.add(f"[{state}: {detail}]")
        self._on_change()

    async def _live(self) -> None:
        try:
            await self._keep_running()
        except Exception as error:  # noqa: BLE001 - a bug must not leave callers waiting
            _log.exception("language server %s", self.name)
            self._set_state("failed", f"an unexpected {type(error).__name__}; the server's log has it")

    async def _keep_running(self) -> None:
        failures = 0
        while True:
            if failures:
                self._set_state("starting")
            began = time.monotonic()
            reason = await self._serve()
            failures = 1 if time.monotonic() - began > _STABLE_SECONDS else failures + 1
            if failures >= MAX_FAILURES:
                self._set_state("failed", f"{reason}; 'holdfast lsp restart {self.name}' starts it again")
                return
            pause = min(_MAX_PAUSE, _FIRST_PAUSE * 2 ** (failures - 1))
            self._set_state("failed", f"{reason}; it is started again in {pause:g} s")
            await asyncio.sleep(pause)

    async def _serve(self) -> str:
        """Start it and use it until it ends. Returns why it ended."""
        try:
            process = await start_process(self.chosen, self._host, self.settings, self.environment, self.log)
        except HoldfastError as error:
            return error.message
        connection = ServerConnection(
            process, name=self.name, on_notification=self._on_notification, answer=self._answer
        )
        try:
            result = await connection.request("initialize", self._initialize_params(), seconds=self._timeout)
            self._capabilities = read_value(result, InitializeResult).capabilities
            connection.notify("initialized", {})
            if self.chosen.definition.entry.settings:
                settings = {"settings": self.chosen.definition.entry.settings}
                connection.notify("workspace/didChangeConfiguration", settings)
            self._connection = connection
            self._set_state("ready")
            reason = await connection.wait_ended()
        except LanguageServerError as error:
            reason = error.message.removeprefix(f"{self.name} does not run: ")
        finally:
            self._connection = None
            self._documents.clear()
            await finish_despite_cancel(connection.close())
        last = self.log.last_line
        return f"{reason} ({last[:200]})" if last and not last.startswith("[") else reason

    def _initialize_params(self) -> dict[str, Any]:
        root = self.chosen.root
        params: dict[str, Any] = {
            "processId": None,  # it may have its own process ids
            "clientInfo": {"name": "holdfast"},
            "rootUri": to_uri(str(root)),
            "rootPath": str(root),
            "workspaceFolders": [{"uri": to_uri(str(root)), "name": root.name}],
            "capabilities": CLIENT_CAPABILITIES,
        }
        if options := self.chosen.definition.entry.options:
            params["initializationOptions"] = options
        return params

    def _on_notification(self, method: str, params: msgspec.Raw) -> None:
        try:
            if method == "textDocument/publishDiagnostics" and not self._pulls:
                self._take_published(read_value(params, PublishedDiagnostics))
            elif method in ("window/logMessage", "window/showMessage"):
                self.log.add(str(read_value(params, dict[str, Any]).get("message", "")))
        except LanguageServerError as error:
            self.log.add(f"[{method}: {error.message}]")

    def _take_published(self, published: PublishedDiagnostics) -> None:
        path = to_path(published.uri)
        document = self._documents.get(Path(path)) if path else None
        if document is None or (published.version is not None and published.version != document.version):
            return
        self._keep(document, published.diagnostics, document.version)
        news, self._published = self._published, asyncio.Event()
        news.set()

    def _answer(self, method: str, params: msgspec.Raw) -> Any:
        """Answer what the server asks. It may change nothing."""
        match method:
            case "workspace/configuration":
                wanted: ConfigurationItems = read_value(params, ConfigurationItems)
                return [_section(self.chosen.definition.entry.settings, item.section) for item in wanted.items]
            case "workspace/workspaceFolders":
                return self._initialize_params()["workspaceFolders"]
            case "workspace/applyEdit":
                return {"applied": False, "failureReason": "a language server may not change files by itself"}
            case "client/registerCapability" | "client/unregisterCapability" | "window/workDoneProgress/create":
                return None
            case "window/showMessageRequest" | "workspace/diagnostic/refresh":
                return None
        raise KeyError(method)


def _section(settings: Mapping[str, Any], section: str | None) -> Any:
    """Return a part of the settings, such as ``python.analysis``; null if there is none."""
    found: Any = settings
    for key in section.split(".") if section else ():
        found = found.get(key) if isinstance(found, dict) else None
    return found
