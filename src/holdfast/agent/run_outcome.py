"""The outcome of a run that ended with an error or was stopped. Pure."""

from __future__ import annotations

from holdfast.errors import CommitRefused, HoldfastError, ModelError, NoModel, StoreError, ToolError
from holdfast.schema.base import repair_text
from holdfast.schema.runs import EndReason, Outcome, RunError

_REASON_BY_MODEL_ERROR: dict[str, EndReason] = {
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
    """Return the failed outcome for an error. An unexpected error shows only its type; the log has the rest."""
    if isinstance(error, HoldfastError):
        run_error = RunError(code=error.error_code, message=repair_text(error.message))
    else:
        message = f"an unexpected {type(error).__name__} ended the run; see the server's log"
        run_error = RunError(code="internal", message=message)
    return Outcome(state="failed", reason=_reason_of(error), error=run_error)


def stopped_outcome(why: EndReason) -> Outcome:
    """Return the outcome of a run that was cancelled or interrupted."""
    return Outcome("interrupted" if why == "server_stop" else "cancelled", why)


def _reason_of(error: BaseException) -> EndReason:
    match error:
        case ModelError():
            return _REASON_BY_MODEL_ERROR.get(error.code, "provider")
        case CommitRefused() | StoreError():
            return "store"
        case NoModel():
            return "no_model"
        case ToolError():
            return "tool"
        case _:
            return "internal"
