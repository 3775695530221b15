"""What a program adds to its client: functions that decide, that answer, and that the agent can call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from holdfast.schema.approvals import Effect
from holdfast.sdk.event_handlers import ApprovalHandler, EventHandlers, QuestionHandler
from holdfast.sdk.python_tools import PythonTool

Function = TypeVar("Function", bound=Callable[..., Any])


class ProgramHandlers:
    """The decorators of both clients."""

    handlers: EventHandlers

    def on_approval(self, handler: ApprovalHandler) -> ApprovalHandler:
        """Have a function decide approvals of this client's sessions. A decorator.

        It gets an `Approval` and returns ``once``, ``session``, ``always``, ``deny``, an `ApprovalReply`, or
        ``None`` to leave it to a person at another client. It may be asynchronous; otherwise it runs in a thread.
        """
        self.handlers.on_approval = handler
        return handler

    def on_question(self, handler: QuestionHandler) -> QuestionHandler:
        """Have a function answer the agent's questions. A decorator. It returns one list of texts per item."""
        self.handlers.on_question = handler
        return handler

    @overload
    def tool(self, function: Function, /) -> Function: ...
    @overload
    def tool(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        effect: Effect = "runs",
        parallel: bool = False,
        seconds: float = 600.0,
    ) -> Callable[[Function], Function]: ...
    def tool(
        self,
        function: Function | None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        effect: Effect = "runs",
        parallel: bool = False,
        seconds: float = 600.0,
    ) -> Function | Callable[[Function], Function]:
        """Let the agent call a function of this program. A decorator, with or without arguments.

        The signature and the docstring describe it to the model. Calls need approval like other tools; with the effect
        ``none`` or ``reads`` they need none. Functions that are not asynchronous run in a thread.
        """

        def add(function: Function) -> Function:
            self.handlers.add_tool(
                PythonTool(
                    function, name=name, description=description, effect=effect, parallel=parallel, seconds=seconds
                )
            )
            return function

        return add if function is None else add(function)
