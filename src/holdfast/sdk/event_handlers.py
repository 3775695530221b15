"""Answers what runs ask of a program: approvals, questions, and calls of its tools.

One stream brings the requests of all sessions of a program. It reconnects by itself, and the tools are attached again
after each connection. A request is handled once. If the handler of approvals fails, the approval is denied.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, get_args

from holdfast.client.async_client import AsyncClient
from holdfast.client.transcript import StreamedText
from holdfast.errors import BadRequest, Conflict, Forbidden, HoldfastError, NotFound
from holdfast.schema.approvals import Approval, ApprovalDecision, Question, RuleScope
from holdfast.schema.base import Value
from holdfast.schema.client_tools import ClientCall
from holdfast.schema.events import (
    ApprovalRequested,
    CallClosed,
    CallRequested,
    Event,
    Hello,
    QuestionAsked,
    RunFinished,
)
from holdfast.sdk.python_tools import PythonTool

_DETACH_SECONDS = 2.0
_MAX_HANDLED = 10_000
_DECISIONS: tuple[ApprovalDecision, ...] = get_args(ApprovalDecision)
_log = logging.getLogger("holdfast.sdk")


class ApprovalReply(Value, frozen=True):
    """A decision with its details."""

    decision: ApprovalDecision
    feedback: str = ""
    """Told to the model, for example what it should do instead."""
    pattern: tuple[str, ...] = ()
    """The rules that ``session`` and ``always`` save; empty: those that are offered."""
    scope: RuleScope = "project"


AnyApprovalReply: TypeAlias = ApprovalReply | ApprovalDecision | None
"""``None``: leave it open, for a person at another client."""
QuestionReply: TypeAlias = Sequence[Sequence[str]] | None
"""One list of answers per item; ``None`` dismisses the question."""
ApprovalHandler: TypeAlias = Callable[[Approval], AnyApprovalReply | Awaitable[AnyApprovalReply]]
QuestionHandler: TypeAlias = Callable[[Question], QuestionReply | Awaitable[QuestionReply]]


class EventHandlers:
    """The handlers and tools of one client."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self.on_approval: ApprovalHandler | None = None
        self.on_question: QuestionHandler | None = None
        self._tools: dict[str, PythonTool] = {}
        self._sessions: dict[str, int] = {}
        """The sessions, with the number of tools that are attached to each."""
        self._shared_sessions: set[str] = set()
        """Sessions in which a person may answer what this program has no handler for."""
        self._handled: dict[str, None] = {}
        """The latest requests that were taken, in order."""
        self._tasks: dict[asyncio.Task[None], ClientCall | None] = {}
        """What is being handled, with the call if it is one."""
        self._listener: asyncio.Task[None] | None = None
        self._connected = asyncio.Event()
        """Set while the stream is open and the tools are attached."""
        self._was_connected = False

    @property
    def answers(self) -> bool:
        """Whether runs may ask."""
        return self.on_approval is not None or self.on_question is not None

    @property
    def is_needed(self) -> bool:
        return self.answers or bool(self._tools)

    @property
    def has_tools(self) -> bool:
        return bool(self._tools)

    def add_tool(self, tool: PythonTool) -> None:
        self._tools[tool.definition.name] = tool

    async def serve(self, session_id: str, *, workspace_id: str, shared: bool | None) -> None:
        """Handle what a session asks from now on.

        ``shared``: whether a person may answer what has no handler here; ``None``: as before.
        """
        if not self.is_needed:
            return
        if shared is not None:
            (self._shared_sessions.add if shared else self._shared_sessions.discard)(session_id)
        if self._listener is None:
            self._sessions.setdefault(session_id, 0)
            self._listener = asyncio.create_task(self._listen(workspace_id), name="sdk:events")
        await self.run_unless_lost(self._connected.wait())
        if session_id not in self._sessions:
            self._sessions[session_id] = 0
            await self._take_open_requests(session_id, workspace_id)
        if self._sessions[session_id] != len(self._tools):
            await self._attach(session_id)

    async def run_unless_lost(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Wait for something. If the event stream ends for good, nothing would be answered: raise its error."""
        if self._listener is None:
            return await work
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, self._listener}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                self._listener.result()
            return await task
        finally:
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def close(self) -> None:
        """Detach the tools and end everything that is being handled."""
        if self._listener is None:
            return
        with suppress(HoldfastError, TimeoutError):
            async with asyncio.timeout(_DETACH_SECONDS):
                for session_id, tools in self._sessions.items():
                    if tools:
                        await self._client.attach_tools(session_id, ())
        tasks = [self._listener, *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener = None

    async def _listen(self, workspace_id: str) -> None:
        stream = self._client.events(workspace_id=workspace_id, transcript=StreamedText(), on_lost=self._lost)
        async with stream:
            async for event in stream:
                self._take(event)

    def _lost(self, error: Exception, seconds: float) -> None:
        """Prompts wait until the tools are attached again: the server may have been started again without them."""
        self._connected.clear()

    def _take(self, event: Event) -> None:
        match event:
            case Hello():
                if self._was_connected:
                    self._spawn(self._attach_again(), name="attach")
                else:
                    self._was_connected = True
                    self._connected.set()
            case ApprovalRequested(approval=approval) if approval.root_session_id in self._sessions:
                self._take_once(approval.id, lambda: self._answer_approval(approval))
            case QuestionAsked(question=question) if question.root_session_id in self._sessions:
                self._take_once(question.id, lambda: self._answer_question(question))
            case CallRequested(call=call) if call.client_id == self._client.client_id:
                self._take_once(call.id, lambda: self._run_call(call), call=call)
            case CallClosed(call=closed) if closed.state != "answered":
                self._cancel_calls(lambda call: call.id == closed.id)
            case RunFinished(run=run):  # after a lost connection, or a crash of the server, this is the only sign
                self._cancel_calls(lambda call: call.run_id == run.id)
            case _:
                pass

    def _cancel_calls(self, concerns: Callable[[ClientCall], bool]) -> None:
        for task, call in self._tasks.items():
            if call is not None and concerns(call):
                task.cancel()

    def _take_once(
        self, request_id: str, handle: Callable[[], Coroutine[Any, Any, None]], *, call: ClientCall | None = None
    ) -> None:
        if request_id not in self._handled:
            self._handled[request_id] = None
            if len(self._handled) > _MAX_HANDLED:
                del self._handled[next(iter(self._handled))]
            self._spawn(handle(), name=request_id, call=call)

    def _spawn(self, work: Coroutine[Any, Any, None], *, name: str, call: ClientCall | None = None) -> None:
        task = asyncio.create_task(_log_errors(work), name=f"sdk:{name}")
        self._tasks[task] = call
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def _take_open_requests(self, session_id: str, workspace_id: str) -> None:
        for approval in (await self._client.approvals(workspace_id)).items:
            if approval.root_session_id == session_id:
                self._take(ApprovalRequested("", session_id, approval))
        for question in (await self._client.questions(workspace_id)).items:
            if question.root_session_id == session_id:
                self._take(QuestionAsked("", session_id, question))

    async def _attach(self, session_id: str) -> None:
        tools = [tool.definition for tool in self._tools.values()]
        await self._client.attach_tools(session_id, tools)
        self._sessions[session_id] = len(tools)

    async def _attach_again(self) -> None:
        """After a new connection: the server may have been started again."""
        for session_id, attached in tuple(self._sessions.items()):
            if attached:
                try:
                    await self._attach(session_id)
                except HoldfastError as error:
                    self._sessions[session_id] = 0  # the next prompt tries again
                    _log.warning("the tools cannot be attached to %s again: %s", session_id, error.message)
        self._connected.set()

    async def _answer_approval(self, approval: Approval) -> None:
        if self.on_approval is None:
            if approval.root_session_id in self._shared_sessions:
                return
            reply: ApprovalReply | None = ApprovalReply("deny", "this program cannot decide that")
        else:
            try:
                reply = _checked_reply(await _call(self.on_approval, approval))
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a policy that fails must not allow anything
                _log.exception("the approval handler failed; %r is denied", approval.title)
                reply = ApprovalReply("deny", f"the program that decides failed with {type(error).__name__}")
        if reply is None:
            return
        with suppress(Conflict, NotFound):  # another client was first, or the run has ended
            try:
                await self._client.answer_approval(
                    approval.id, reply.decision, pattern=reply.pattern, scope=reply.scope, feedback=reply.feedback
                )
            except BadRequest as error:  # it must not wait for ever
                _log.error("the reply of the approval handler is invalid; %r is denied: %s", approval.title, error)
                await self._client.answer_approval(approval.id, "deny", feedback="the program that decides failed")

    async def _answer_question(self, question: Question) -> None:
        answers: QuestionReply = None
        if self.on_question is not None:
            try:
                answers = await _call(self.on_question, question)
            except (Exception, SystemExit):  # noqa: BLE001 - code of the program
                _log.exception("the question handler failed; the question is dismissed")
        elif question.root_session_id in self._shared_sessions:
            return
        with suppress(Conflict, NotFound):
            try:
                await self._client.answer_question(question.id, answers)
            except BadRequest as error:
                _log.error("the reply of the question handler is invalid; it is dismissed: %s", error)
                await self._client.answer_question(question.id, None)

    async def _run_call(self, call: ClientCall) -> None:
        tool = self._tools.get(call.tool)
        if tool is None:
            return
        result = await tool.run(call.arguments)
        with suppress(Conflict, NotFound, Forbidden):  # it was cancelled meanwhile
            await self._client.answer_call(call.id, result)


def _checked_reply(reply: object) -> ApprovalReply | None:
    if reply is None or isinstance(reply, ApprovalReply):
        return reply
    decision = next((one for one in _DECISIONS if one == reply), None)
    if decision is None:
        raise TypeError(f"an approval handler returns {', '.join(_DECISIONS)}, an ApprovalReply or None, not {reply!r}")
    return ApprovalReply(decision)


async def _call(handler: Callable[[Any], Any], value: Any) -> Any:
    """Call a handler, in a thread if it is not asynchronous."""
    if inspect.iscoroutinefunction(handler):
        return await handler(value)
    returned = await asyncio.to_thread(handler, value)
    return await returned if inspect.isawaitable(returned) else returned


async def _log_errors(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except HoldfastError as error:
        _log.warning("an answer could not be sent: %s", error.message)
