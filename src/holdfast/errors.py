"""All errors that Holdfast raises. Each leaf has a stable code and an HTTP status; each branch says who must act.

::

    HoldfastError
    ├── CallerError                  the caller must change the request
    │   ├── BadRequest        400    invalid_request
    │   ├── ConfigError       400    config_invalid
    │   ├── Unauthorized      401    unauthorized
    │   ├── Forbidden         403    forbidden
    │   ├── PolicyDenied      403    policy_denied: the administrator's policy does not allow it
    │   ├── NotFound          404    not_found (session_not_found, run_not_found, …)
    │   ├── MethodNotAllowed  405    method_not_allowed
    │   ├── RequestTimeout    408    too_slow: the request did not arrive in time
    │   ├── Conflict          409    conflict (run_id_reused, run_joined, not_queued, …)
    │   ├── NoModel           409    no_model
    │   ├── WorkspaceClosing  409    workspace_closing
    │   ├── SubagentSession   409    child_session: a sub-agent's session takes no prompts
    │   ├── Gone              410    session_deleted
    │   ├── TooLarge          413    too_large
    │   └── TooMany           429    too_many
    ├── ServerError                  the caller may retry later; the cause is in the server
    │   ├── InternalError     500    internal
    │   ├── ServerStopping    503    stopping
    │   ├── OutOfDescriptors  503    no_descriptors: the server cannot open more files
    │   ├── WorkspaceElsewhere 503   workspace_elsewhere: another server owns the workspace and cannot be reached
    │   └── CommitRefused            a commit failed and changed nothing
    │       ├── StoreUnwritable  507 store_unwritable: the disk is full, read-only or broken
    │       ├── StoreLocked   503    store_locked: another server or process holds a lock on the database
    │       ├── StoreUnreachable 503 store_unreachable: the database server does not answer
    │       ├── OutcomeUnknown 503   outcome_unknown: the database was lost during the commit, which may have happened
    │       └── LeaseLost     503    lease_lost: another server owns the workspace now
    ├── StoreError                   the user must look at the database
    │   ├── StoreDamaged      500    store_damaged
    │   ├── StoreNewer        500    store_newer: a newer Holdfast wrote it
    │   └── StoreConflict     409    store_conflict: a conditional write found another state; our code must handle it
    ├── ModelError                   the provider failed; Holdfast retries if the class is ``retryable``
    │   ├── ModelAuth         502    auth: the user must set the key
    │   ├── ModelRateLimit    502    rate_limit (retryable)
    │   ├── ModelOverloaded   502    overloaded (retryable)
    │   ├── ModelContext      502    context: the request is too long
    │   ├── ModelRefused      502    refused
    │   ├── ModelInvalid      502    invalid_request_to_model
    │   ├── ModelNetwork      502    network (retryable)
    │   ├── ModelStall        502    stall (retryable): no data in time
    │   └── ModelMalformed    502    garbage (retryable): the response does not follow the protocol
    ├── ClientError                  raised by the client: there is no usable response
    │   ├── Unreachable       503    unreachable: the connection was refused or broke
    │   ├── NoAnswer          504    no_answer: timeout
    │   ├── NotHoldfast       502    not_ours: another program responded
    │   ├── StartFailed       503    start_failed: the local server did not start
    │   └── RunNotCompleted   502    run_not_completed: a run did not complete, and a program asked for its answer
    └── ToolError                    the model gets it as the result of the call; the run continues
"""

from __future__ import annotations

from typing import Any, ClassVar


class HoldfastError(Exception):
    """Base of all errors that are raised on purpose."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500

    def __init__(self, message: str, *, code: str | None = None, detail: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.error_code = code or self.code
        """The stable code. It may be more specific than the class (``session_not_found``)."""
        self.detail = detail or {}


class CallerError(HoldfastError):
    status = 400


class BadRequest(CallerError):
    code, status = "invalid_request", 400


class ConfigError(CallerError):
    code, status = "config_invalid", 400


class Unauthorized(CallerError):
    code, status = "unauthorized", 401


class Forbidden(CallerError):
    code, status = "forbidden", 403


class PolicyDenied(CallerError):
    """The managed policy does not allow it. The message names the policy."""

    code, status = "policy_denied", 403


class NotFound(CallerError):
    code, status = "not_found", 404


class MethodNotAllowed(CallerError):
    code, status = "method_not_allowed", 405


class RequestTimeout(CallerError):
    code, status = "too_slow", 408


class Conflict(CallerError):
    code, status = "conflict", 409


class NoModel(CallerError):
    code, status = "no_model", 409


class WorkspaceClosing(CallerError):
    code, status = "workspace_closing", 409


class SubagentSession(CallerError):
    code, status = "child_session", 409


class Gone(CallerError):
    code, status = "session_deleted", 410


class TooLarge(CallerError):
    code, status = "too_large", 413


class TooMany(CallerError):
    code, status = "too_many", 429


class ServerError(HoldfastError):
    status = 500


class InternalError(ServerError):
    code, status = "internal", 500


class ServerStopping(ServerError):
    code, status = "stopping", 503


class OutOfDescriptors(ServerError):
    code, status = "no_descriptors", 503


class WorkspaceElsewhere(ServerError):
    """Another server of the fleet owns the workspace, and the request did not reach it. Nothing was done."""

    code, status = "workspace_elsewhere", 503


class CommitRefused(ServerError):
    """A commit failed. It changed nothing, unless that is not known (`OutcomeUnknown`)."""


class StoreUnwritable(CommitRefused):
    """The disk is full or read-only, or has an I/O error."""

    code, status = "store_unwritable", 507


class StoreLocked(CommitRefused):
    """Another server owns the database, or another process has locked it."""

    code, status = "store_locked", 503


class StoreUnreachable(CommitRefused):
    """The database server does not answer. Waiting helps: the connection is made again by itself."""

    code, status = "store_unreachable", 503


class OutcomeUnknown(CommitRefused):
    """The answer to a commit was lost, and the database does not answer: only then it tells whether it happened."""

    code, status = "outcome_unknown", 503

    def __init__(self, message: str, *, look_up: Any = None, **given: Any) -> None:
        """``look_up``: a `store.OutcomeLookUp`; None if this server will not learn what became of the commit."""
        super().__init__(message, **given)
        self.look_up = look_up


class LeaseLost(CommitRefused):
    """The server does not own the workspace any more: another one took it over, or may do so."""

    code, status = "lease_lost", 503


class StoreError(HoldfastError):
    status = 500


class StoreDamaged(StoreError):
    code, status = "store_damaged", 500


class StoreNewer(StoreError):
    code, status = "store_newer", 500


class StoreConflict(StoreError):
    code, status = "store_conflict", 409


class ModelError(HoldfastError):
    """A model request failed. The retry policy reads ``retryable`` and ``retry_after``."""

    status = 502
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        detail: dict[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, code=code, detail=detail)
        self.retry_after = retry_after
        """Seconds to wait, if the provider sent them."""


class ModelAuth(ModelError):
    code = "auth"


class ModelRateLimit(ModelError):
    code, retryable = "rate_limit", True


class ModelOverloaded(ModelError):
    code, retryable = "overloaded", True


class ModelContext(ModelError):
    code = "context"


class ModelRefused(ModelError):
    code = "refused"


class ModelInvalid(ModelError):
    code = "invalid_request_to_model"


class ModelNetwork(ModelError):
    code, retryable = "network", True


class ModelStall(ModelError):
    code, retryable = "stall", True


class ModelMalformed(ModelError):
    code, retryable = "garbage", True


class ClientError(HoldfastError):
    """Raised by the client, never sent by a server."""

    status = 503


class Unreachable(ClientError):
    code, status = "unreachable", 503


class NoAnswer(ClientError):
    code, status = "no_answer", 504


class NotHoldfast(ClientError):
    code, status = "not_ours", 502


class StartFailed(ClientError):
    code, status = "start_failed", 503


class RunNotCompleted(ClientError):
    """A run did not complete, and a program asked for its answer."""

    code, status = "run_not_completed", 502


class ToolError(HoldfastError):
    """A tool call failed. It becomes an error result and does not end the run."""

    code, status = "tool_error", 400
