"""Exit statuses: what a script can decide by. Pure; the same table is in docs/cli.md."""

from __future__ import annotations

from enum import IntEnum

from holdfast.errors import BadRequest, ClientError, ConfigError, HoldfastError, ModelError, NoModel, Unauthorized
from holdfast.schema.runs import EndReason, Run


class Exit(IntEnum):
    COMPLETED = 0
    FAILED = 1
    USAGE = 2
    CONFIGURATION = 3
    DENIED = 4
    LIMIT = 5
    PROVIDER = 6
    INTERRUPTED = 7
    TIMED_OUT = 124
    CANCELLED = 130


_REASONS: dict[EndReason, Exit] = {
    "auth": Exit.CONFIGURATION,
    "no_model": Exit.CONFIGURATION,
    "denied": Exit.DENIED,
    "limit_steps": Exit.LIMIT,
    "limit_time": Exit.LIMIT,
    "limit_cost": Exit.LIMIT,
    "loop": Exit.LIMIT,
    "max_tokens": Exit.LIMIT,
    "rate_limit": Exit.PROVIDER,
    "provider": Exit.PROVIDER,
    "network": Exit.PROVIDER,
    "stall": Exit.PROVIDER,
}


def exit_of_run(run: Run, *, timed_out: bool = False) -> Exit:
    """``timed_out``: it was given a time, and that is why it was ended. Only a run that completed is a success."""
    match run.state:
        case "completed":
            return Exit.COMPLETED
        case "cancelled":
            return Exit.TIMED_OUT if timed_out else Exit.CANCELLED
        case "failed":
            if timed_out and run.reason == "limit_time":
                return Exit.TIMED_OUT
            return _REASONS.get(run.reason, Exit.FAILED) if run.reason else Exit.FAILED
        case _:
            return Exit.INTERRUPTED  # also a run that has not ended: whoever waited for it lost it


def exit_of_error(error: HoldfastError) -> Exit:
    match error:
        case NoModel() | ConfigError() | Unauthorized():
            return Exit.CONFIGURATION
        case BadRequest():
            return Exit.USAGE
        case ClientError():
            # A server that was started here and ended says with its own status whose turn it is.
            started = error.detail.get("exit_status")
            return Exit.CONFIGURATION if started == Exit.CONFIGURATION else Exit.INTERRUPTED
        case ModelError():
            return Exit.CONFIGURATION if error.code == "auth" else Exit.PROVIDER
        case _:
            return Exit.FAILED
