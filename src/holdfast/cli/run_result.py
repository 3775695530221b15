"""How a run ended: as a JSON object for programs, and as lines for users.

The object is versioned and described in docs/cli.md; fields are only added within a version.
"""

from __future__ import annotations

from typing import Any, Self

from holdfast.cli.exit_status import Exit, exit_of_run
from holdfast.cli.formatting import short_number
from holdfast.cli.screen import Screen, one_line
from holdfast.schema.base import Value
from holdfast.schema.runs import CoveredRun, EndReason, Receipt, Run, RunDecision, RunError, RunState
from holdfast.schema.usage import Usage

VERSION = 1


class ResultUsage(Value, frozen=True):
    """Tokens and cost. Zeros are written too."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    cost: float
    estimated: bool

    @classmethod
    def of(cls, usage: Usage) -> Self:
        return cls(usage.input, usage.output, usage.cache_read, usage.cache_write, usage.cost, usage.estimated)


class RunResult(Value, frozen=True, kw_only=True, tag_field="kind", tag="result"):
    """The object that ``--output json`` prints."""

    version: int = VERSION
    run_id: str
    session_id: str
    state: RunState
    reason: EndReason | None = None
    exit_code: int
    text: str = ""
    """The agent's last message."""
    output: Any = None
    """With ``--output-schema``: the text as JSON, which matches the schema."""
    error: RunError | None = None
    model: str | None = None
    steps: int = 0
    usage: ResultUsage
    decision: RunDecision | None = None
    """What the server decided when it accepted the prompt."""
    created_at: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    left_running: tuple[str, ...] = ()
    cancelled: tuple[CoveredRun, ...] = ()
    """The receipt, if this command cancelled the run."""


def make_result(
    run: Run,
    *,
    exit_code: int,
    decision: RunDecision | None = None,
    cancelled: tuple[CoveredRun, ...] = (),
) -> RunResult:
    return RunResult(
        run_id=run.id,
        session_id=run.session_id,
        state=run.state,
        reason=run.reason,
        exit_code=int(exit_code),
        text=run.text,
        output=run.output,
        error=run.error,
        model=run.model,
        steps=run.steps,
        usage=ResultUsage.of(run.usage),
        decision=decision,
        created_at=run.created_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
        left_running=run.left_running,
        cancelled=cancelled,
    )


def unsent_run(run_id: str | None, *, session_id: str | None) -> Run:
    """A run that was interrupted before it was sent."""
    error = RunError("not_sent", "nothing was sent")
    return Run(
        id=run_id or "", session_id=session_id or "", seq=0, state="cancelled", reason="user_cancel", error=error
    )


def print_failure(run: Run, screen: Screen) -> None:
    """Why the run did not complete, on one line of stderr."""
    if run.state != "completed":
        screen.warn(f"{run.state}: {one_line(run.error.message if run.error else run.reason or '', most=500)}")


def print_end(run: Run, screen: Screen, *, cancelled: tuple[CoveredRun, ...]) -> None:
    """Everything about the end of a run that goes to stderr: the receipt, the usage, the error and what to do."""
    for covered in cancelled:
        activity = f", was {covered.doing.what or covered.doing.phase}" if covered.doing else ""
        screen.note(f"{covered.run_id}: {covered.ended_as or 'has not ended yet'}{one_line(activity)}")
        for killed in covered.killed:
            screen.note(f"  killed: {one_line(killed)}")
    for job in run.left_running:
        screen.note(f"still running in the background: {one_line(job)}")
    if run.state == "completed" and screen.err_is_terminal:
        screen.note(screen.style.dim(summary(run)))
    if run.state == "completed" or (run.state == "cancelled" and cancelled):
        return
    message = f": {one_line(run.error.message, most=500)}" if run.error else ""
    reason = f" ({run.reason})" if run.reason else ""
    screen.warn(f"holdfast: the run {_ENDS.get(run.state, 'has not ended')}{reason}{message}")
    screen.warn(f"          {advice_for(run)}")


_ENDS = {"failed": "failed", "cancelled": "was cancelled", "interrupted": "was interrupted"}
_ADVICE = {
    "denied": "allow it with --mode or with a rule: 'holdfast config set approvals.allow …'",
    "limit_steps": "continue with: holdfast run --continue --max-steps N …",
    "limit_time": "continue with: holdfast run --continue --timeout TIME …",
    "limit_cost": "continue with: holdfast run --continue --max-cost DOLLARS …",
    "rejected": "the same request would fail again; check the model's name and base_url, or use another --model",
    "output_schema": "describe the answer in the prompt, simplify the schema, or use another --model",
    "loop": "rephrase the prompt: holdfast run --continue …",
    "max_tokens": 'let the model continue: holdfast run --continue "go on"',
    "auth": "'holdfast key set PROVIDER' stores a key; run 'holdfast stop' after a change of the environment",
    "no_model": "'holdfast models' lists the available models",
    "rate_limit": "wait, or use another model: 'holdfast models' lists them",
    "server_stop": 'its text so far is kept; continue with: holdfast run --continue "go on"',
    "server_crash": 'its text so far is kept; continue with: holdfast run --continue "go on"',
    "user_cancel": "it was cancelled by another client",
}


def advice_for(run: Run) -> str:
    if run.error is not None and run.error.code == "denied_by_rule":
        return "'holdfast config get approvals.deny --origin' shows where the rule is"
    if run.reason in _ADVICE:
        return _ADVICE[run.reason]
    if exit_of_run(run) is Exit.PROVIDER:
        return "try again later, or use another model: 'holdfast models' lists them"
    return f"'holdfast sessions show {run.session_id}' shows the conversation"


def summary(run: Run) -> str:
    """Session, steps, tokens and cost on one line."""
    used = run.usage.input + run.usage.cache_read + run.usage.cache_write + run.usage.output
    facts = [run.session_id, f"{run.steps} step{'s' * (run.steps != 1)}", f"{short_number(used)} tokens"]
    if run.usage.cost:
        facts.append(f"${run.usage.cost:.4f}")
    return " · ".join(facts)


def receipt_lines(receipt: Receipt) -> list[str]:
    """A cancel receipt for users."""
    if not receipt.runs:
        return ["no runs were active or queued"]
    lines = []
    for covered in receipt.runs:
        activity = f" ({one_line(covered.doing.what or covered.doing.phase)})" if covered.doing else ""
        end = covered.ended_as or ("is stopped" if covered.stopped else "is still stopping")
        lines.append(f"{covered.run_id}  was {covered.was}{activity}, {end}  {one_line(covered.prompt, most=60)}")
        lines += [f"  killed: {one_line(name)}" for name in covered.killed]
        lines += [f"  still running: {one_line(name)}" for name in covered.left_running]
    if receipt.error is not None:
        survives = "survives a crash" if receipt.durable else "would be lost in a crash"
        lines.append(f"the end is not stored yet, and the cancel {survives}: {one_line(receipt.error.message)}")
    return lines
