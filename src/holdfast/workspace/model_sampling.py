"""Answers requests of MCP servers to a model: with an approval, limited, and counted as usage of the run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

from holdfast.agent.message_builder import MessageBuilder
from holdfast.agent.protocol import Spent, TurnHandle
from holdfast.agent.turn_dependencies import CallDenied
from holdfast.errors import ModelError, NoModel, PolicyDenied, ToolError
from holdfast.models.pricing import add_cost
from holdfast.models.protocol import Model, ModelRequest, Stop
from holdfast.schema.messages import File, Message, ToolCall, text_of
from holdfast.schema.runs import Phase
from holdfast.tools.protocol import SampledAnswer, SamplingRequest, ToolPlan
from holdfast.workspace.call_approval import WorkspaceCallApprover


class RunSampling:
    """What MCP servers may ask of models during one run."""

    def __init__(
        self, approver: WorkspaceCallApprover, *, open_model: Callable[[str | None], Model], max_cost: float
    ) -> None:
        """``open_model`` opens the model with this name, or else the small one. ``max_cost``: 0 is no limit."""
        self.approver = approver
        self.open_model = open_model
        self.max_cost = max_cost
        self._requests: dict[str, int] = {}

    def of_call(self, handle: TurnHandle, call: ToolCall, progress: Callable[[Phase], None]) -> CallSampler:
        return CallSampler(self, handle, call, progress)

    def count(self, request: SamplingRequest) -> None:
        """Raises `ToolError` if the server has made all its requests."""
        made = self._requests.get(request.server, 0)
        if made >= request.max_requests:
            raise ToolError(f"only {request.max_requests} sampling requests are allowed in one run")
        self._requests[request.server] = made + 1


class CallSampler:
    """A `Sampler`."""

    def __init__(
        self, sampling: RunSampling, handle: TurnHandle, call: ToolCall, progress: Callable[[Phase], None]
    ) -> None:
        self._sampling = sampling
        self._handle = handle
        self._call = call
        self._progress = progress

    async def sample(self, request: SamplingRequest, plan: ToolPlan) -> SampledAnswer:
        self._sampling.count(request)
        try:
            model = self._sampling.open_model(request.model)
        except (NoModel, PolicyDenied) as error:
            raise ToolError(error.message) from None
        self._check(request, model)
        permission = await self._sampling.approver.permit(
            self._handle, self._call, plan, on_wait=lambda: self._progress("approval")
        )
        self._progress("tool")
        if isinstance(permission, CallDenied):
            raise ToolError(f"the request was denied: {permission.why or 'the user said no'}", code="denied")
        return await self._ask(request, model)

    def _check(self, request: SamplingRequest, model: Model) -> None:
        limit = self._sampling.max_cost
        if limit and (model.info.price is None or self._handle.run.usage.cost >= limit):
            raise ToolError("the cost limit of the run does not allow it")
        has_image = any(isinstance(part, File) for message in request.messages for part in message.parts)
        if has_image and not model.info.images:
            raise ToolError(f"the model {model.info.name!r} cannot see images")

    async def _ask(self, request: SamplingRequest, model: Model) -> SampledAnswer:
        """The usage is counted also if the request fails or is cancelled."""
        run = self._handle.run
        messages = tuple(
            Message(f"msg_sampling_{number}", run.session_id, run.id, message.role, number, "", message.parts)
            for number, message in enumerate(request.messages, 1)
        )
        system = (request.system,) if request.system.strip() else ()
        builder = MessageBuilder(lambda: "call_ignored")
        stop = "end_turn"
        try:
            async with aclosing(model.stream(ModelRequest(system, messages, max_output=request.max_tokens))) as stream:
                async for delta in stream:
                    builder.add(delta)
                    if isinstance(delta, Stop):
                        stop = delta.reason
        except ModelError as error:
            raise ToolError(f"the model failed: {error.message}") from None
        finally:
            if builder.usage is not None:
                usage = add_cost(builder.usage, model.info.price)
                await self._handle.commit([], spent=Spent(model.info.name, usage, steps=0))
        return SampledAnswer(text_of(builder.parts()), model.info.name, stop)
