"""How a command ends: its exit status, and the two lines that explain an error.

The first line says what is wrong, the second what to do. docs/cli.md has the table of statuses. Pure.
"""

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


_EXIT_BY_REASON: dict[EndReason, Exit] = {
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

ADVICE = {
    "no_model": "'holdfast models' lists the available models; '--model offline/demo' needs no key",
    "config_invalid": "correct the value and try again",
    "policy_denied": "the administrator of this machine decides about it; 'holdfast doctor' shows the policy",
    "policy_invalid": "the administrator of this machine must correct the policy",
    "invalid_request": "'holdfast COMMAND --help' shows the expected arguments",
    "unauthorized": "set HOLDFAST_TOKEN to the server's token; 'holdfast serve' prints the file that contains it",
    "session_not_found": "'holdfast sessions' shows the sessions of this directory",
    "session_deleted": "'holdfast sessions' shows the sessions of this directory",
    "run_not_found": "'holdfast queue' shows the active and queued runs of a session",
    "run_id_reused": "choose another --run-id, or send the same prompt with it",
    "run_joined": "cancel the run that it joined",
    "not_queued": "only a queued run can be changed; 'holdfast queue' shows them",
    "child_session": "a sub-agent's session accepts no prompts; send the prompt to its parent session",
    "workspace_closing": "try again in a moment",
    "too_many": "wait until some runs have ended, or cancel some with 'holdfast cancel'",
    "too_large": "send less, or put the file into the directory so that the agent can read it",
    "not_trusted": "'holdfast trust' trusts this directory",
    "unknown_agent": "'holdfast agents' lists them; '--agent main' chooses none",
    "unknown_command": "'holdfast commands' lists them",
    "unusable_command": "correct the file; 'holdfast commands' shows what is wrong with it",
    "job_not_found": "'holdfast jobs' shows the background jobs of this directory",
    "approval_not_found": "'holdfast approvals' shows the pending ones",
    "provider_not_found": "'holdfast models --all' shows the providers",
    "other_config": "the server is busy; when it is idle, run 'holdfast stop' and try again, or unset HOLDFAST_CONFIG",
    "no_descriptors": "close some clients, or raise the limit of open files (ulimit -n) and restart the server",
    "store_unwritable": "free disk space or correct the file permissions; nothing was lost and nothing was started",
    "store_removed": "put the file back, or run 'holdfast stop' and try again; 'holdfast restore' lists the backups",
    "store_locked": "end the other program that uses the database; 'holdfast status' shows a running server",
    "store_damaged": "'holdfast restore' lists the backups and restores one; the damaged file was not changed",
    "store_newer": "install the newer Holdfast again, or set HOLDFAST_HOME to another directory",
    "unreachable": "'holdfast status' shows whether a server is running; HOLDFAST_SERVER selects another server",
    "no_answer": "run 'holdfast logs' where the server runs; stop that server and try again",
    "not_ours": "check HOLDFAST_SERVER: another program listens at this address",
    "start_failed": "'holdfast logs' and 'holdfast doctor' show more",
    "stopping": "try again in a moment",
}
_DEFAULT_ADVICE = "run it again with --debug to see more"
_MAX_LINES = 6


class CommandError(Exception):
    """An error found by a command: what is wrong, what to do, and the exit status."""

    def __init__(self, message: str, *, advice: str, status: int) -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice
        self.status = status


def message_and_advice(error: HoldfastError) -> tuple[str, str]:
    """What is wrong, and what to do. Only the output of a server that could not start has more than one line."""
    lines = [line for line in error.message.splitlines() if line.strip()] or [type(error).__name__]
    if len(lines) > _MAX_LINES:
        lines = [lines[0], "…", *lines[2 - _MAX_LINES :]]
    message = "\n".join(lines)
    if error_id := error.detail.get("id"):
        return message, f"'holdfast logs' shows the details under {error_id}"
    if error.error_code == "config_invalid" and str(error.detail.get("file")).endswith(".toml"):
        return message, "'holdfast config edit' opens your settings file, 'holdfast config path' prints its path"
    if error.code == "no_answer" and (pid := error.detail.get("pid")):
        return message, f"'kill -CONT {pid}' resumes a halted process, 'kill -9 {pid}' ends it; accepted runs are kept"
    return message, ADVICE.get(error.error_code, ADVICE.get(error.code, _DEFAULT_ADVICE))


def exit_of_run(run: Run, *, timed_out: bool = False) -> Exit:
    """``timed_out``: the run was ended because the time given on the command line is over."""
    match run.state:
        case "completed":
            return Exit.COMPLETED
        case "cancelled":
            return Exit.TIMED_OUT if timed_out else Exit.CANCELLED
        case "failed":
            if timed_out and run.reason == "limit_time":
                return Exit.TIMED_OUT
            return _EXIT_BY_REASON.get(run.reason, Exit.FAILED) if run.reason else Exit.FAILED
        case _:
            return Exit.INTERRUPTED  # also for a run that has not ended: the command lost track of it


def exit_of_error(error: HoldfastError) -> Exit:
    match error:
        case NoModel() | ConfigError() | Unauthorized():
            return Exit.CONFIGURATION
        case BadRequest():
            return Exit.USAGE
        case ClientError():
            # A server that this command started and that failed reports a wrong configuration by its own status.
            server_status = error.detail.get("exit_status")
            return Exit.CONFIGURATION if server_status == Exit.CONFIGURATION else Exit.INTERRUPTED
        case ModelError():
            if error.code == "auth":
                return Exit.CONFIGURATION
            return Exit.FAILED if error.code == "invalid_request_to_model" else Exit.PROVIDER
        case _:
            return Exit.FAILED
