"""The settings of a run: whether a model can fulfil them, and which are in effect."""

from __future__ import annotations

from holdfast.agent.turn_limits import TurnLimits
from holdfast.config.agent_types import AgentType
from holdfast.config.model_catalogue import ResolvedModel
from holdfast.config.reasoning_effort import OFF, choose_effort
from holdfast.errors import BadRequest
from holdfast.schema.runs import Limits, RunRequest, RunSettings
from holdfast.workspace.workspace_setup import Setup


def check_request(request: RunRequest, model: ResolvedModel) -> None:
    """Raise `BadRequest` if the model cannot do what a request asks for."""
    if request.effort and request.effort not in (*model.reasoning, OFF):
        known = ", ".join((*model.reasoning, OFF))
        raise BadRequest(f"{model.name!r} has no effort {request.effort!r}; known: {known}")
    _check_cost_limit(request, model)
    _check_attachments(request, model)


def settings_in_effect(given: RunSettings, setup: Setup, *, agent: AgentType | None) -> RunSettings:
    """The settings with which a run works if it starts now: what it leaves open is as configured."""
    settings, model = setup.settings, setup.model(given.model)
    limits = turn_limits(given, setup, agent=agent)
    return RunSettings(
        model=model.name,
        mode=given.mode or settings.approvals.mode,
        interactive=given.interactive,
        limits=Limits(limits.max_steps, limits.max_seconds, limits.max_cost),
        effort=choose_effort(given.effort or settings.models.effort, model.reasoning),
        output_schema=given.output_schema,
        agent=None if agent is None else given.agent,
    )


def turn_limits(given: RunSettings, setup: Setup, *, agent: AgentType | None) -> TurnLimits:
    configured, own, policy = setup.settings.limits, given.limits, setup.config.policy
    steps = own.max_steps or (agent.max_steps if agent else None) or configured.max_steps
    seconds = configured.max_time if own.max_seconds is None else own.max_seconds
    cost = configured.max_cost if own.max_cost is None else own.max_cost
    return TurnLimits(
        max_steps=min(steps, configured.max_steps) if policy.fixes("limits", "max_steps") else steps,
        max_seconds=_smaller(seconds, configured.max_time) if policy.fixes("limits", "max_time") else seconds,
        max_cost=_smaller(cost, configured.max_cost) if policy.fixes("limits", "max_cost") else cost,
        last_answer_seconds=configured.last_answer,
        tool_parallel=configured.tool_parallel,
    )


def _check_cost_limit(request: RunRequest, model: ResolvedModel) -> None:
    """Refuse a limit that could not be kept."""
    if request.limits.max_cost and model.price is None:
        raise BadRequest(
            f"the price of {model.name!r} is not known, so the limit of {request.limits.max_cost:g} US dollars cannot"
            f" be kept; set providers.{model.provider}.models.{model.model}.price, or leave out the limit",
            detail={"field": "limits.max_cost"},
        )


def _check_attachments(request: RunRequest, model: ResolvedModel) -> None:
    """Refuse files that the model would not get."""
    for index, file in enumerate(request.attachments):
        if file.data is None:
            continue
        field = {"field": f"attachments[{index}]"}
        if not file.media_type.startswith("image/"):
            raise BadRequest(
                f"{file.name!r} ({file.media_type}) is neither text nor an image, so no model can read it; put it into"
                " the directory, where tools can read it",
                detail=field,
            )
        if not model.images:
            raise BadRequest(
                f"{model.name!r} cannot read images, so {file.name!r} cannot be attached; choose another model, or set"
                f" providers.{model.provider}.models.{model.model}.images to true if it can",
                detail=field,
            )


def _smaller(one: float, other: float) -> float:
    """The smaller limit; 0 is no limit."""
    return min(one, other) if one and other else one or other
