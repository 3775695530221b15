"""An exception that ended a turn, as the run's end. Pure."""

from __future__ import annotations

from holdfast.errors import HoldfastError, ModelError, NoModel, StoreError, StoreUnwritable, ToolError
from holdfast.schema.base import repair_text
from holdfast.schema.runs import EndReason, Outcome, RunError

_REASONS: dict[str, EndReason] = {
    "auth": "auth",
    "rate_limit": "rate_limit",
    "overloaded": "provider",
    "context": "context",
    "refused": "refused",
    "invalid_request_to_model": "provider",
    "network": "network",
    "stall": "stall",
    "garbage": "provider",
}


def outcome_of(error: BaseException) -> Outcome:
    """Failed, with the reason that the error's place in the tree gives. Faults of ours say only their kind."""
    if isinstance(error, HoldfastError):
        told = RunError(code=error.error_code, message=repair_text(error.message))
    else:
        told = RunError(code="internal", message=f"an unexpected {type(error).__name__} ended the run; the log has it")
    return Outcome(state="failed", reason=reason_of(error), error=told)


def stopped(why: EndReason) -> Outcome:
    """The end of a run that was told to stop."""
    return Outcome("interrupted" if why == "server_stop" else "cancelled", why)


def reason_of(error: BaseException) -> EndReason:
    match error:
        case ModelError():
            return _REASONS.get(error.code, "provider")
        case StoreUnwritable() | StoreError():
            return "store"
        case NoModel():
            return "no_model"
        case ToolError():
            return "tool"
        case _:
            return "internal"
