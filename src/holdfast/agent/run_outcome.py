"""The outcome of a run that ended with an error or was stopped. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.errors import CommitRefused, HoldfastError, ModelError, NoModel, PolicyDenied, StoreError, ToolError
from holdfast.schema.base import repair_text
from holdfast.schema.runs import EndReason, Outcome, RunError

if TYPE_CHECKING:
    from holdfast.agent.answer_schema import CheckedAnswer
    from holdfast.agent.turn_dependencies import CallDenied

_REASON_BY_MODEL_ERROR: dict[str, EndReason] = {
    "auth": "auth",
    "rate_limit": "rate_limit",
    "overloaded": "provider",
    "context": "context",
    "refused": "refused",
    "invalid_request_to_model": "rejected",
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


def checked_outcome(outcome: Outcome, checked: CheckedAnswer) -> Outcome:
    """Return the outcome of a run whose answer was compared with its schema."""
    if not checked.problem:
        return replace(outcome, output=checked.value)
    error = RunError("output_schema", f"the answer does not match the schema: {checked.problem}")
    return replace(outcome, state="failed", reason="output_schema", error=error)


def denial_error(unasked: CallDenied | None, denied_last: CallDenied | None) -> RunError | None:
    """Return why a run that came to its end counts as denied, or None.

    ``unasked``: a call that nobody could be asked about, in any step. ``denied_last``: a call that was denied in the
    last step of a run that cannot ask.
    """
    if unasked is not None:
        return RunError("denied", f"a call was denied: {unasked.why}; allow it with a rule or another mode")
    if denied_last is None or denied_last.cause == "plan":
        return None
    if denied_last.cause == "rule":
        return RunError("denied_by_rule", f"a call was denied by a rule: {denied_last.why}")
    if denied_last.cause == "hook":
        return RunError("denied_by_hook", f"a call was denied: {denied_last.why}")
    return RunError("denied", denied_last.why or "a call was denied")


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
        case PolicyDenied():
            return "denied"
        case ToolError():
            return "denied" if error.error_code == "denied" else "tool"
        case _:
            return "internal"
