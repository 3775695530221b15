"""The part that both clients share: the methods of the API, the identity headers, and the retry rules. No I/O."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Coroutine
from typing import Any, Generic, ParamSpec, Protocol, Self, TypeAlias, TypeVar, overload

from holdfast import __version__
from holdfast.client import endpoints
from holdfast.client.endpoints import ApiCall
from holdfast.client.retry import CallRetry, ReconnectRules, RetryBudget
from holdfast.client.server_address import ServerAddress
from holdfast.client.stream_state import StreamState
from holdfast.client.transcript import StreamedText, Transcript
from holdfast.errors import ConfigError
from holdfast.ids import Ids

P = ParamSpec("P")
T = TypeVar("T")

OnLost: TypeAlias = Callable[[Exception, float], None]
"""Called when a stream has lost its connection, with the cause and the seconds until the next attempt."""


class Revive(Protocol):
    def __call__(self, *, pid: int | None, leave_stopped: bool) -> object:
        """Start the local server again if it is gone, and return when it responds. Blocks.

        ``pid`` is the process that responded last. With ``leave_stopped``, a server that was stopped on purpose is not
        started again: `ServerStopping` is raised.
        """


class SyncSender(Protocol):
    def send(self, call: ApiCall[T]) -> T: ...


class AsyncSender(Protocol):
    def send(self, call: ApiCall[T]) -> Coroutine[Any, Any, T]: ...


class EndpointMethod(Generic[P, T]):
    """A method that sends the call which ``make`` builds; the result is awaitable in the asynchronous client."""

    def __init__(self, make: Callable[P, ApiCall[T]]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: SyncSender, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncSender, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self

        def send(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.send(self._make(*args, **kwargs))

        return send


class BaseClient:
    """Everything about a client that does not depend on its transport."""

    def __init__(
        self,
        address: ServerAddress,
        *,
        token: str | None = None,
        name: str = "client",
        retry_seconds: float = 10.0,
        response_seconds: float = 30.0,
        revive: Revive | None = None,
    ) -> None:
        """``retry_seconds``: how long a lost connection is retried. ``response_seconds``: time-out of a response.

        ``revive`` starts the local server again when it is gone.
        """
        self.address = address
        self.leave_stopped = False
        """Do not start a server again that was stopped on purpose: for clients that only wait."""
        self._headers = identity_headers(name, token=token)
        self._retry_seconds = retry_seconds
        self._response_seconds = response_seconds
        self._revive = revive

    @property
    def client_id(self) -> str:
        """The id by which the server and other clients know this client."""
        return self._headers["X-Holdfast-Client"].rpartition(" ")[2]

    health = EndpointMethod(endpoints.health)
    server = EndpointMethod(endpoints.server)
    sandbox = EndpointMethod(endpoints.sandbox)
    stop_server = EndpointMethod(endpoints.stop_server)
    backup = EndpointMethod(endpoints.backup)
    clean_up = EndpointMethod(endpoints.clean_up)
    open_workspace = EndpointMethod(endpoints.open_workspace)
    workspaces = EndpointMethod(endpoints.workspaces)
    workspace = EndpointMethod(endpoints.workspace)
    close_workspace = EndpointMethod(endpoints.close_workspace)
    trust = EndpointMethod(endpoints.trust)
    diff = EndpointMethod(endpoints.diff)
    repository = EndpointMethod(endpoints.repository)
    context = EndpointMethod(endpoints.context)
    agents = EndpointMethod(endpoints.agents)
    commands = EndpointMethod(endpoints.commands)
    memory = EndpointMethod(endpoints.memory)
    extensions = EndpointMethod(endpoints.extensions)
    restart_language_server = EndpointMethod(endpoints.restart_language_server)
    language_server_log = EndpointMethod(endpoints.language_server_log)
    mcp_server = EndpointMethod(endpoints.mcp_server)
    log_in_to_mcp_server = EndpointMethod(endpoints.log_in_to_mcp_server)
    finish_mcp_login = EndpointMethod(endpoints.finish_mcp_login)
    log_out_of_mcp_server = EndpointMethod(endpoints.log_out_of_mcp_server)
    use_session_servers = EndpointMethod(endpoints.use_session_servers)
    session_servers = EndpointMethod(endpoints.session_servers)
    restart_mcp_server = EndpointMethod(endpoints.restart_mcp_server)
    remember = EndpointMethod(endpoints.remember)
    forget = EndpointMethod(endpoints.forget)
    create_session = EndpointMethod(endpoints.create_session)
    sessions = EndpointMethod(endpoints.sessions)
    session = EndpointMethod(endpoints.session)
    change_session = EndpointMethod(endpoints.change_session)
    delete_session = EndpointMethod(endpoints.delete_session)
    messages = EndpointMethod(endpoints.messages)
    changes = EndpointMethod(endpoints.changes)
    start_run = EndpointMethod(endpoints.start_run)
    start_session = EndpointMethod(endpoints.start_session)
    runs = EndpointMethod(endpoints.runs)
    get_run = EndpointMethod(endpoints.run)
    change_run = EndpointMethod(endpoints.change_run)
    cancel_run = EndpointMethod(endpoints.cancel_run)
    cancel_session = EndpointMethod(endpoints.cancel_session)
    pause = EndpointMethod(endpoints.pause)
    resume = EndpointMethod(endpoints.resume)
    shell = EndpointMethod(endpoints.shell)
    compact = EndpointMethod(endpoints.compact)
    accept_plan = EndpointMethod(endpoints.accept_plan)
    undo = EndpointMethod(endpoints.undo)
    preview_undo = EndpointMethod(endpoints.preview_undo)
    redo = EndpointMethod(endpoints.redo)
    fork = EndpointMethod(endpoints.fork)
    approvals = EndpointMethod(endpoints.approvals)
    approval = EndpointMethod(endpoints.approval)
    answer_approval = EndpointMethod(endpoints.answer_approval)
    questions = EndpointMethod(endpoints.questions)
    question = EndpointMethod(endpoints.question)
    answer_question = EndpointMethod(endpoints.answer_question)
    attach_tools = EndpointMethod(endpoints.attach_tools)
    attached_tools = EndpointMethod(endpoints.attached_tools)
    answer_call = EndpointMethod(endpoints.answer_call)
    jobs = EndpointMethod(endpoints.jobs)
    job = EndpointMethod(endpoints.job)
    job_output = EndpointMethod(endpoints.job_output)
    kill_job = EndpointMethod(endpoints.kill_job)
    call_output = EndpointMethod(endpoints.call_output)
    export = EndpointMethod(endpoints.export)
    export_markdown = EndpointMethod(endpoints.export_markdown)
    clients = EndpointMethod(endpoints.clients)
    grants = EndpointMethod(endpoints.grants)
    remove_grants = EndpointMethod(endpoints.remove_grants)
    files = EndpointMethod(endpoints.files)
    mentions = EndpointMethod(endpoints.mentions)
    config = EndpointMethod(endpoints.config)
    change_config = EndpointMethod(endpoints.change_config)
    config_schema = EndpointMethod(endpoints.config_schema)
    models = EndpointMethod(endpoints.models)
    set_key = EndpointMethod(endpoints.set_key)
    try_provider = EndpointMethod(endpoints.try_provider)
    find_ids = EndpointMethod(endpoints.find_ids)
    stats = EndpointMethod(endpoints.stats)
    search = EndpointMethod(endpoints.search)
    pair = EndpointMethod(endpoints.pair)
    pairing_code = EndpointMethod(endpoints.pairing_code)
    own_device = EndpointMethod(endpoints.own_device)
    forget_own_device = EndpointMethod(endpoints.forget_own_device)
    devices = EndpointMethod(endpoints.devices)
    rename_device = EndpointMethod(endpoints.rename_device)
    revoke_device = EndpointMethod(endpoints.revoke_device)
    web = EndpointMethod(endpoints.web)
    listen_web = EndpointMethod(endpoints.listen_web)
    stop_web = EndpointMethod(endpoints.stop_web)

    def _call_retry(self) -> CallRetry:
        return CallRetry(
            RetryBudget(self._retry_seconds, clock=time.monotonic),
            can_revive=self._revive is not None,
            leave_stopped=self.leave_stopped,
        )

    def _stream_state(
        self, *, after: str | None, transcript: StreamedText | None, give_up_after: float | None, raise_when_full: bool
    ) -> StreamState:
        rules = ReconnectRules(
            RetryBudget(give_up_after, clock=time.monotonic),
            random=random.random,
            can_revive=self._revive is not None,
            leave_stopped=self.leave_stopped,
            raise_when_full=raise_when_full,
        )
        return StreamState(after=after, transcript=transcript or Transcript(), rules=rules)


def identity_headers(name: str, *, token: str | None) -> dict[str, str]:
    """Sent with every request: ``name/version id``, by which other clients see this one (`W7`), and the token."""
    headers = {"X-Holdfast-Client": f"{name}/{__version__} {Ids().new('cli')}"}
    if token:
        if not token.isascii() or not token.isprintable() or " " in token:
            raise ConfigError("the server's token must be printable ASCII without spaces; check HOLDFAST_TOKEN")
        headers["Authorization"] = f"Bearer {token}"
    return headers
