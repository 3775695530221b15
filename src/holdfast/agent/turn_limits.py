"""The limits of a run. Apart from the turn, because prompts are accepted before the code of turns is imported."""

from __future__ import annotations

from holdfast.schema.base import Value


class TurnLimits(Value, frozen=True, kw_only=True):
    """The limits of a run (`R12`): its own, or else the configured ones. 0 means no limit."""

    max_steps: int
    max_seconds: float
    max_cost: float
    last_answer_seconds: float
    """How long the last answer may take after the steps or the time are over. 0: there is none."""
    tool_parallel: int
    """Calls of one step that run in parallel."""
