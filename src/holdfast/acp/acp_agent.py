"""The methods of the Agent Client Protocol that an editor calls."""

from __future__ import annotations

import asyncio
import posixpath
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from acp import schema
from acp.exceptions import RequestError
from msgspec.structs import replace
from pydantic import ValidationError

from holdfast import __version__
from holdfast.acp.acp_connection import CANCEL_REQUEST, PROMPT, AcpConnection, request_id
from holdfast.acp.choice_files import ChoiceFiles, known_choices
from holdfast.acp.editor_offers import editor_offers
from holdfast.acp.editor_session import EditorSession, RunFailed, WorkInProgress
from holdfast.acp.session_settings import SessionChoices, configured_mode
from holdfast.acp.tool_updates import JsonObject
from holdfast.client.async_client import AsyncClient
from holdfast.client.client_environment import with_shell_models
from holdfast.client.local_server import open_async_client
from holdfast.errors import BadRequest, CallerError, Gone, HoldfastError, NoModel, NotFound
from holdfast.ids import rfc3339
from holdfast.locations import Locations
from holdfast.schema.sessions import Session, WorkspaceView
from holdfast.tasks import OwnedTasks

PROTOCOL_VERSION = 1
_KEY_METHOD, _SETUP_METHOD = "holdfast-key", "holdfast-setup"
_AUTH_ADVICE = "no model can be used yet: run 'holdfast key set PROVIDER' in a terminal, then try again"
_PAGE = 100
_MOST_ERRORS = 10
_UNUSED_SECONDS = 86_400.0
_ACCEPT_SECONDS = 10.0
"""How long a prompt that has arrived may take to be accepted after the editor is gone."""

Handler = Callable[["AcpAgent", JsonObject], Awaitable[JsonObject | None]]


class AcpAgent:
    """Serves one editor. Requests are checked by the protocol's library before they come here."""

    def __init__(self, *, env: Mapping[str, str], reads: int, writes: int) -> None:
        self._env = env
        self._connection = AcpConnection(self._handle, reads=reads, writes=writes)
        self._client: AsyncClient | None = None
        self._connecting = asyncio.Lock()
        self._sessions: dict[str, EditorSession] = {}
        self._created: set[str] = set()
        self._capabilities: JsonObject | None = None
        """What the editor can do; ``None`` before `initialize`."""
        self._work = WorkInProgress()
        self._tasks = OwnedTasks()
        self._choice_files = ChoiceFiles(Locations.from_env(env).state_dir / "acp")

    async def run(self) -> None:
        """Serve until the editor closes its side. Runs that it started go on."""
        try:
            await self._connection.listen()
            with suppress(TimeoutError):
                async with asyncio.timeout(_ACCEPT_SECONDS):
                    await asyncio.sleep(0)  # what has arrived with the end of stdin begins
                    await self._work.finished()
                    await self._connection.answered()
        finally:
            await self._connection.close()
            await self._tasks.finish(seconds=0)
            await self._leave()

    async def _leave(self) -> None:
        for session in self._sessions.values():
            await session.close()
        if self._client is None:
            return
        with suppress(HoldfastError, TimeoutError):
            async with asyncio.timeout(_ACCEPT_SECONDS):
                for session in self._sessions.values():
                    await session.release_servers()
                    if session.id in self._created and await session.is_unused():
                        await self._client.change_session(session.id, archived=True)
        await self._client.aclose()

    # Dispatch.

    async def _handle(self, method: str, params: Any, is_notification: bool) -> Any:  # noqa: FBT001 - the library's form
        if method == CANCEL_REQUEST:
            return await self._cancel_request(params or {})
        found = _METHODS.get(method)
        if found is None:
            if is_notification:
                return None
            raise RequestError.method_not_found(method)
        model, handler = found
        values = _checked(model, params or {})
        if self._capabilities is None and method != "initialize":
            raise RequestError(-32600, "call 'initialize' first")
        try:
            if method == PROMPT:  # counts its own work: the wait for the end of the run is none
                return await handler(self, values)
            with self._work:
                return await handler(self, values)
        except RunFailed as error:
            raise _run_error(error) from None
        except HoldfastError as error:
            raise _request_error(error) from None

    # Connection.

    async def initialize(self, params: JsonObject) -> JsonObject:
        self._capabilities = params.get("clientCapabilities", {})
        auth = self._capabilities.get("auth") or {}
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentInfo": {"name": "holdfast", "title": "Holdfast", "version": __version__},
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": True, "acp": False},
                "sessionCapabilities": {"list": {}, "resume": {}, "fork": {}, "close": {}, "delete": {}},
                "auth": {},
            },
            "authMethods": auth_methods(can_open_terminal=bool(auth.get("terminal"))),
        }

    async def authenticate(self, params: JsonObject) -> JsonObject:
        """There is nothing to exchange: keys are stored by Holdfast. Says whether a model can be used now."""
        if params["methodId"] not in (_KEY_METHOD, _SETUP_METHOD):
            raise BadRequest(f"there is no method {params['methodId']!r}; known: {_KEY_METHOD}, {_SETUP_METHOD}")
        client = await self._connected()
        models = with_shell_models(await client.models(), self._env)
        if models.large is None:
            raise NoModel(_AUTH_ADVICE)
        return {}

    async def _connected(self) -> AsyncClient:
        async with self._connecting:
            if self._client is None:
                self._client = await open_async_client(self._env, name="acp")
            return self._client

    # Sessions.

    async def new_session(self, params: JsonObject) -> JsonObject:
        client = await self._connected()
        workspace = await client.open_workspace(_directory(params))
        choices = await self._choices(client, workspace)
        session = await client.create_session(workspace.id)
        self._created.add(session.id)
        opened = self._open(session, workspace, client, choices, directory=_directory(params))
        await opened.use_servers(params.get("mcpServers", []))
        cursor = opened.begin()
        result = {"sessionId": session.id, **_state(opened)}
        self._connection.after_sending(result, lambda: opened.follow(cursor))
        _ = self._tasks.spawn(self._drop_old(workspace), name="acp:old-sessions", may_fail=True)
        return result

    async def load_session(self, params: JsonObject) -> JsonObject:
        return _state(await self._open_known(params, replay=True))

    async def resume_session(self, params: JsonObject) -> JsonObject:
        return _state(await self._open_known(params, replay=False))

    async def fork_session(self, params: JsonObject) -> JsonObject:
        client = await self._connected()
        forked = await client.fork(params["sessionId"])
        opened = await self._open_known({**params, "sessionId": forked.id}, replay=False)
        return {"sessionId": forked.id, **_state(opened)}

    async def list_sessions(self, params: JsonObject) -> JsonObject:
        """A page of sessions: of one directory, or of all directories one after the other."""
        client = await self._connected()
        start, _, before = params.get("cursor", "").partition(" ")
        if params.get("cwd"):
            workspaces = [await client.open_workspace(_directory(params))]
        else:
            workspaces = list((await client.workspaces()).items)
        ids = [workspace.id for workspace in workspaces]
        if start and start not in ids:
            raise BadRequest(f"the cursor {params['cursor']!r} is not known; begin without one")
        place = ids.index(start) if start else 0
        if not ids:
            return {"sessions": []}
        page = await client.sessions(ids[place], limit=_PAGE, before=before or None)
        found = [_session_info(session, workspaces[place]) for session in page.items if session.title]
        if page.next is not None:
            return {"sessions": found, "nextCursor": f"{ids[place]} {page.next}"}
        more = {"nextCursor": f"{ids[place + 1]} "} if place + 1 < len(ids) else {}
        return {"sessions": found, **more}

    async def close_session(self, params: JsonObject) -> JsonObject:
        """The protocol says that this cancels what runs. Nothing is deleted, except a session that was never used."""
        session = self._session(params)
        await session.cancel()
        await session.settle()
        await session.release_servers()
        await self._forget(session)
        if session.id in self._created:
            await self._drop_unused(session)
        return {}

    async def delete_session(self, params: JsonObject) -> JsonObject:
        client = await self._connected()
        await client.delete_session(params["sessionId"])
        if (session := self._sessions.get(params["sessionId"])) is not None:
            await self._forget(session)
        return {}

    async def _open_known(self, params: JsonObject, *, replay: bool) -> EditorSession:
        client = await self._connected()
        workspace = await client.open_workspace(_directory(params))
        view = await client.session(params["sessionId"])
        if view.workspace_id != workspace.id:
            raise NotFound(f"session {view.id!r} is not a session of {workspace.path!r}", code="session_not_found")
        if view.parent_id is not None:
            raise BadRequest(f"session {view.id!r} belongs to a sub-agent; load its parent {view.parent_id!r}")
        if (before := self._sessions.get(view.id)) is not None:
            await self._forget(before)
        last = (await client.runs(view.id, limit=1)).items
        choices = await self._choices(client, workspace)
        saved = await asyncio.to_thread(self._choice_files.read, view.id)
        choices = replace(choices, chosen=known_choices(last[0] if last else None, saved))
        if view.archived:
            await client.change_session(view.id, archived=False)
        opened = self._open(view, workspace, client, choices, directory=_directory(params))
        await opened.use_servers(params.get("mcpServers", []))
        opened.follow(await opened.load(replay=replay))
        return opened

    def _open(
        self,
        session: Session,
        workspace: WorkspaceView,
        client: AsyncClient,
        choices: SessionChoices,
        *,
        directory: str,
    ) -> EditorSession:
        forms = ((self._capabilities or {}).get("elicitation") or {}).get("form")
        opened = self._sessions[session.id] = EditorSession(
            session,
            workspace=workspace,
            client=client,
            editor=self._connection,
            env=self._env,
            choices=choices,
            work=self._work,
            directory=directory,
            offers=choices.offers,
            has_forms=forms is not None,
            choice_files=self._choice_files,
        )
        return opened

    async def _choices(self, client: AsyncClient, workspace: WorkspaceView) -> SessionChoices:
        config, models = await asyncio.gather(client.config(workspace.id), client.models(workspace_id=workspace.id))
        models = with_shell_models(models, self._env)
        if models.large is None:
            raise NoModel(_AUTH_ADVICE)
        offers = editor_offers(self._capabilities or {}, config.values)
        return SessionChoices(configured_mode(config.values), models, offers=offers)

    async def _forget(self, session: EditorSession) -> None:
        self._sessions.pop(session.id, None)
        await session.close()

    async def _drop_unused(self, session: EditorSession) -> None:
        """Delete a session that the editor made and never used; editors make one whenever they open a panel."""
        assert self._client is not None
        with suppress(NotFound, Gone):
            if await session.is_unused():
                await self._client.delete_session(session.id)

    async def _drop_old(self, workspace: WorkspaceView) -> None:
        """Delete sessions that editors left unused a day ago or more."""
        client = await self._connected()
        before = rfc3339(time.time() - _UNUSED_SECONDS)
        for session in (await client.sessions(workspace.id, limit=_PAGE, archived=True)).items:
            is_left = session.archived and not session.title and not session.clients
            if is_left and session.updated_at < before and not (await client.runs(session.id, limit=1)).items:
                with suppress(NotFound, Gone):
                    await client.delete_session(session.id)

    def _session(self, params: JsonObject) -> EditorSession:
        found = self._sessions.get(params["sessionId"])
        if found is None:
            raise NotFound(f"session {params['sessionId']!r} is not open here; call 'session/load' first")
        return found

    # Prompts.

    async def prompt(self, params: JsonObject) -> JsonObject:
        return await self._session(params).prompt(params["prompt"], request=request_id.get())

    async def cancel(self, params: JsonObject) -> None:
        await self._session(params).cancel()

    async def _cancel_request(self, params: object) -> None:
        """The editor does not need a response any more. Of a prompt, the run is cancelled."""
        number = params.get("requestId") if isinstance(params, dict) else None
        if isinstance(number, int | str):
            with self._work:
                for session in list(self._sessions.values()):
                    await session.cancel_request(number)

    async def set_mode(self, params: JsonObject) -> JsonObject:
        session = self._session(params)
        await session.choose("mode", params["modeId"])
        await session.tell_options()
        return {}

    async def set_config_option(self, params: JsonObject) -> JsonObject:
        session = self._session(params)
        await session.choose(params["configId"], params["value"])
        if params["configId"] == "mode":
            await session.tell_mode()
        return {"configOptions": session.choices.options()}


_METHODS: dict[str, tuple[Any, Handler]] = {
    "initialize": (schema.InitializeRequest, AcpAgent.initialize),
    "authenticate": (schema.AuthenticateRequest, AcpAgent.authenticate),
    "session/new": (schema.NewSessionRequest, AcpAgent.new_session),
    "session/load": (schema.LoadSessionRequest, AcpAgent.load_session),
    "session/resume": (schema.ResumeSessionRequest, AcpAgent.resume_session),
    "session/fork": (schema.ForkSessionRequest, AcpAgent.fork_session),
    "session/list": (schema.ListSessionsRequest, AcpAgent.list_sessions),
    "session/close": (schema.CloseSessionRequest, AcpAgent.close_session),
    "session/delete": (schema.DeleteSessionRequest, AcpAgent.delete_session),
    PROMPT: (schema.PromptRequest, AcpAgent.prompt),
    "session/cancel": (schema.CancelNotification, AcpAgent.cancel),
    "session/set_mode": (schema.SetSessionModeRequest, AcpAgent.set_mode),
    "session/set_config_option": (schema.SetSessionConfigOptionSelectRequest, AcpAgent.set_config_option),
}


def auth_methods(*, can_open_terminal: bool) -> list[JsonObject]:
    """How a person gets a model that can be used. Keys are stored by Holdfast, not sent by the editor."""
    text = "Run 'holdfast key set PROVIDER' in a terminal; it asks for the key and stores it"
    methods: list[JsonObject] = [{"id": _KEY_METHOD, "name": "Store a provider's key", "description": text}]
    if can_open_terminal:
        setup = {"id": _SETUP_METHOD, "name": "Set up a provider", "type": "terminal", "args": ["--setup"]}
        methods.insert(0, {**setup, "description": "Choose a provider and enter its key in a terminal"})
    return methods


def _checked(model: Any, params: JsonObject) -> JsonObject:
    """The parameters as the protocol's library reads them. An error names what is wrong, and does not repeat it."""
    try:
        values: JsonObject = model.model_validate(params).model_dump(mode="json", by_alias=True, exclude_none=True)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False, include_input=False)
        shown = [{"field": ".".join(map(str, one["loc"])), "problem": one["msg"][:500]} for one in wrong[:_MOST_ERRORS]]
        raise RequestError(-32602, "Invalid params", {"errors": shown}) from None
    except (ValueError, RecursionError):
        raise RequestError(-32602, "the parameters are nested too deeply") from None
    _refuse_what_is_not_offered(params, values)
    return values


def _refuse_what_is_not_offered(params: JsonObject, values: JsonObject) -> None:
    """The library drops servers that it cannot read; the user would miss them and not know why."""
    given, read = params.get("mcpServers"), values.get("mcpServers", [])
    if isinstance(given, list) and len(given) != len(read):
        raise RequestError(-32602, "an entry of 'mcpServers' has no name, or neither a command nor an address")
    for server in read:
        if "command" not in server and "url" not in server:
            raise RequestError(-32602, f"MCP server {server['name']!r} needs a command or an address")
    if values.get("additionalDirectories"):
        advice = "open a session in each directory, or name them in the setting server.sandbox_writable"
        raise RequestError(-32602, f"'additionalDirectories' are not supported; {advice}")


def _directory(params: JsonObject) -> str:
    directory: str = params["cwd"]
    if not directory.startswith("/"):
        raise BadRequest(f"'cwd' must be an absolute path, got {directory!r}")
    return posixpath.normpath(directory)


def _state(session: EditorSession) -> JsonObject:
    return {"modes": session.choices.modes(), "configOptions": session.choices.options()}


def _session_info(session: Session, workspace: WorkspaceView) -> JsonObject:
    found = {"sessionId": session.id, "cwd": workspace.path, "title": session.title}
    return {**found, "updatedAt": session.updated_at} if session.updated_at else found


def _request_error(error: HoldfastError) -> RequestError:
    match error:
        case NoModel():
            code = -32000
        case NotFound() | Gone():
            code = -32002
        case CallerError():
            code = -32602
        case _:
            code = -32603
    return RequestError(code, error.message, {"code": error.code})


def _run_error(error: RunFailed) -> RequestError:
    run = error.run
    code = -32000 if run.reason in ("auth", "no_model") else -32603
    return RequestError(code, str(error), {"code": run.reason, "state": run.state, "runId": run.id})
