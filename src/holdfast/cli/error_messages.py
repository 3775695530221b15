"""Problems as a person reads them: one line says what, one line says what to do."""

from __future__ import annotations

from holdfast.errors import HoldfastError

_ADVICE = {
    "no_model": "'holdfast models' lists what can be used; '--model offline/demo' needs no key",
    "config_invalid": "correct that and try again",
    "invalid_request": "'holdfast COMMAND --help' shows what is expected",
    "unauthorized": "set HOLDFAST_TOKEN to the server's token; 'holdfast serve' says which file holds it",
    "session_not_found": "'holdfast sessions list' shows the sessions of this directory",
    "session_deleted": "'holdfast sessions list' shows the sessions of this directory",
    "run_not_found": "'holdfast queue list' shows what runs and waits in a session",
    "run_id_reused": "choose another --run-id, or send the same prompt with it again",
    "run_joined": "cancel the run that it joined",
    "not_queued": "only a run that is still queued can be changed; 'holdfast queue list' shows them",
    "child_session": "a sub-agent's session takes no prompts; prompt its parent",
    "workspace_closing": "try again in a moment",
    "too_many": "wait until some of the runs have ended, or cancel some: 'holdfast cancel'",
    "too_large": "send less, or attach a file that the agent can read in the directory",
    "approval_not_found": "'holdfast approvals list' shows what is open",
    "provider_not_found": "'holdfast models --all' shows the providers",
    "store_unwritable": "make room on the disk or mend its permissions; nothing was lost, and nothing was begun",
    "store_locked": "'holdfast status' shows the server that runs; 'holdfast stop' ends it",
    "store_damaged": "restore a copy that 'holdfast backup' made; the damaged file was not touched",
    "store_newer": "install the newer Holdfast again, or set HOLDFAST_HOME to another directory",
    "unreachable": "'holdfast status' shows whether a server runs; HOLDFAST_SERVER names another than the local one",
    "no_answer": "'holdfast logs', where the server runs, shows what it does; end it there and try again",
    "not_ours": "check HOLDFAST_SERVER: what answers there is no Holdfast server",
    "start_failed": "'holdfast logs' and 'holdfast doctor' show more",
    "stopping": "try again in a moment",
}
_OTHERWISE = "--debug shows more"
_MOST_LINES = 6


class Problem(Exception):
    """Found by the command line itself: what is wrong, what to do, and the status to leave with."""

    def __init__(self, what: str, *, advice: str, status: int) -> None:
        super().__init__(what)
        self.what = what
        self.advice = advice
        self.status = status


def what_and_advice(error: HoldfastError) -> tuple[str, str]:
    """Two texts for two lines. Only what a server said when it could not start may need more than one."""
    lines = [line for line in error.message.splitlines() if line.strip()] or [type(error).__name__]
    if len(lines) > _MOST_LINES:
        lines = [lines[0], "…", *lines[2 - _MOST_LINES :]]
    if fault := error.detail.get("id"):
        return "\n".join(lines), f"'holdfast logs' has it as {fault}"
    if error.error_code == "config_invalid" and str(error.detail.get("file")).endswith(".toml"):
        return "\n".join(lines), "'holdfast config edit' opens your file, 'holdfast config path' says where it is"
    if error.code == "no_answer" and (pid := error.detail.get("pid")):
        return "\n".join(lines), f"'kill -CONT {pid}' if it was halted; else 'kill -9 {pid}': what was accepted is kept"
    return "\n".join(lines), _ADVICE.get(error.error_code, _ADVICE.get(error.code, _OTHERWISE))
