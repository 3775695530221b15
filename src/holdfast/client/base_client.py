"""The part that both clients share: the methods of the API, the identity headers, and the retry rules. No I/O."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, Self, TypeAlias, TypeVar, overload

from holdfast import __version__
from holdfast.client.api_call import ApiCall
from holdfast.client.retry import CallRetry, ReconnectRules, RetryBudget
from holdfast.client.server_address import ServerAddress
from holdfast.errors import ConfigError
from holdfast.ids import Ids

if TYPE_CHECKING:
    from holdfast.client.endpoints import (
        approval_endpoints,
        connect_endpoints,
        device_endpoints,
        extension_endpoints,
        people_endpoints,
        run_endpoints,
        server_endpoints,
        session_endpoints,
        setting_endpoints,
        workspace_endpoints,
    )
    from holdfast.client.stream_state import StreamState
    from holdfast.client.transcript import StreamedText

else:
    from holdfast.client.late_endpoints import (
        approval_endpoints,
        connect_endpoints,
        device_endpoints,
        extension_endpoints,
        people_endpoints,
        run_endpoints,
        server_endpoints,
        session_endpoints,
        setting_endpoints,
        workspace_endpoints,
    )

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

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return self._make.__doc__

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

    health = EndpointMethod(connect_endpoints.health)
    server = EndpointMethod(server_endpoints.server)
    sandbox = EndpointMethod(server_endpoints.sandbox)
    stop_server = EndpointMethod(server_endpoints.stop_server)
    backup = EndpointMethod(server_endpoints.backup)
    clean_up = EndpointMethod(server_endpoints.clean_up)
    open_workspace = EndpointMethod(connect_endpoints.open_workspace)
    workspaces = EndpointMethod(workspace_endpoints.workspaces)
    workspace = EndpointMethod(workspace_endpoints.workspace)
    close_workspace = EndpointMethod(workspace_endpoints.close_workspace)
    trust = EndpointMethod(workspace_endpoints.trust)
    diff = EndpointMethod(workspace_endpoints.diff)
    repository = EndpointMethod(workspace_endpoints.repository)
    context = EndpointMethod(workspace_endpoints.context)
    agents = EndpointMethod(workspace_endpoints.agents)
    commands = EndpointMethod(workspace_endpoints.commands)
    memory = EndpointMethod(workspace_endpoints.memory)
    extensions = EndpointMethod(extension_endpoints.extensions)
    restart_language_server = EndpointMethod(extension_endpoints.restart_language_server)
    language_server_log = EndpointMethod(extension_endpoints.language_server_log)
    mcp_server = EndpointMethod(extension_endpoints.mcp_server)
    log_in_to_mcp_server = EndpointMethod(extension_endpoints.log_in_to_mcp_server)
    finish_mcp_login = EndpointMethod(extension_endpoints.finish_mcp_login)
    log_out_of_mcp_server = EndpointMethod(extension_endpoints.log_out_of_mcp_server)
    use_session_servers = EndpointMethod(extension_endpoints.use_session_servers)
    session_servers = EndpointMethod(extension_endpoints.session_servers)
    restart_mcp_server = EndpointMethod(extension_endpoints.restart_mcp_server)
    remember = EndpointMethod(workspace_endpoints.remember)
    forget = EndpointMethod(workspace_endpoints.forget)
    create_session = EndpointMethod(session_endpoints.create_session)
    sessions = EndpointMethod(session_endpoints.sessions)
    session = EndpointMethod(session_endpoints.session)
    change_session = EndpointMethod(session_endpoints.change_session)
    delete_session = EndpointMethod(session_endpoints.delete_session)
    messages = EndpointMethod(session_endpoints.messages)
    changes = EndpointMethod(session_endpoints.changes)
    start_run = EndpointMethod(run_endpoints.start_run)
    start_session = EndpointMethod(run_endpoints.start_session)
    runs = EndpointMethod(session_endpoints.runs)
    get_run = EndpointMethod(run_endpoints.run)
    change_run = EndpointMethod(run_endpoints.change_run)
    cancel_run = EndpointMethod(run_endpoints.cancel_run)
    cancel_session = EndpointMethod(run_endpoints.cancel_session)
    pause = EndpointMethod(run_endpoints.pause)
    resume = EndpointMethod(run_endpoints.resume)
    shell = EndpointMethod(run_endpoints.shell)
    compact = EndpointMethod(run_endpoints.compact)
    accept_plan = EndpointMethod(run_endpoints.accept_plan)
    undo = EndpointMethod(run_endpoints.undo)
    preview_undo = EndpointMethod(session_endpoints.preview_undo)
    redo = EndpointMethod(run_endpoints.redo)
    fork = EndpointMethod(session_endpoints.fork)
    approvals = EndpointMethod(approval_endpoints.approvals)
    approval = EndpointMethod(approval_endpoints.approval)
    answer_approval = EndpointMethod(approval_endpoints.answer_approval)
    questions = EndpointMethod(approval_endpoints.questions)
    question = EndpointMethod(approval_endpoints.question)
    answer_question = EndpointMethod(approval_endpoints.answer_question)
    attach_tools = EndpointMethod(extension_endpoints.attach_tools)
    attached_tools = EndpointMethod(extension_endpoints.attached_tools)
    answer_call = EndpointMethod(extension_endpoints.answer_call)
    jobs = EndpointMethod(workspace_endpoints.jobs)
    job = EndpointMethod(workspace_endpoints.job)
    job_output = EndpointMethod(workspace_endpoints.job_output)
    kill_job = EndpointMethod(workspace_endpoints.kill_job)
    call_output = EndpointMethod(session_endpoints.call_output)
    export = EndpointMethod(session_endpoints.export)
    export_markdown = EndpointMethod(session_endpoints.export_markdown)
    clients = EndpointMethod(workspace_endpoints.clients)
    grants = EndpointMethod(approval_endpoints.grants)
    remove_grants = EndpointMethod(approval_endpoints.remove_grants)
    files = EndpointMethod(workspace_endpoints.files)
    mentions = EndpointMethod(workspace_endpoints.mentions)
    config = EndpointMethod(setting_endpoints.config)
    change_config = EndpointMethod(setting_endpoints.change_config)
    config_schema = EndpointMethod(setting_endpoints.config_schema)
    models = EndpointMethod(setting_endpoints.models)
    set_key = EndpointMethod(setting_endpoints.set_key)
    try_provider = EndpointMethod(setting_endpoints.try_provider)
    find_ids = EndpointMethod(server_endpoints.find_ids)
    fleet = EndpointMethod(server_endpoints.fleet)
    stats = EndpointMethod(server_endpoints.stats)
    metrics = EndpointMethod(server_endpoints.metrics)
    search = EndpointMethod(server_endpoints.search)
    pair = EndpointMethod(device_endpoints.pair)
    pairing_code = EndpointMethod(device_endpoints.pairing_code)
    own_device = EndpointMethod(device_endpoints.own_device)
    forget_own_device = EndpointMethod(device_endpoints.forget_own_device)
    devices = EndpointMethod(device_endpoints.devices)
    rename_device = EndpointMethod(device_endpoints.rename_device)
    revoke_device = EndpointMethod(device_endpoints.revoke_device)
    people = EndpointMethod(people_endpoints.people)
    add_person = EndpointMethod(people_endpoints.add_person)
    change_person = EndpointMethod(people_endpoints.change_person)
    remove_person = EndpointMethod(people_endpoints.remove_person)
    audit = EndpointMethod(people_endpoints.audit)
    make_person_token = EndpointMethod(people_endpoints.make_person_token)
    web = EndpointMethod(device_endpoints.web)
    listen_web = EndpointMethod(device_endpoints.listen_web)
    stop_web = EndpointMethod(device_endpoints.stop_web)

    def _call_retry(self) -> CallRetry:
        return CallRetry(
            RetryBudget(self._retry_seconds, clock=time.monotonic),
            can_revive=self._revive is not None,
            leave_stopped=self.leave_stopped,
        )

    def _stream_state(
        self, *, after: str | None, transcript: StreamedText | None, give_up_after: float | None, raise_when_full: bool
    ) -> StreamState:
        from holdfast.client.stream_state import StreamState
        from holdfast.client.transcript import Transcript

        rules = ReconnectRules(
            RetryBudget(give_up_after, clock=time.monotonic),
            random=_random,
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


def _random() -> float:
    """A number below 1. The module is imported by those who wait before they try again."""
    import random

    return random.random()
