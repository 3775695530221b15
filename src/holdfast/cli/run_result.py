"""The result record of `holdfast run` and `holdfast wait`: one JSON object, its schema versioned and in docs/cli.md."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from holdfast.schema.base import Value, encode
from holdfast.schema.runs import CoveredRun, EndReason, Run, RunDecision, RunError, RunState
from holdfast.schema.usage import Usage

VERSION = 1


class Used(Value, frozen=True):
    """What it took, every number said."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    cost: float
    estimated: bool

    @classmethod
    def of(cls, usage: Usage) -> Self:
        return cls(usage.input, usage.output, usage.cache_read, usage.cache_write, usage.cost, usage.estimated)


class Result(Value, frozen=True, kw_only=True, tag_field="kind", tag="result"):
    """Fields are only ever added within a version."""

    version: int = VERSION
    run_id: str
    session_id: str
    state: RunState
    reason: EndReason | None = None
    exit_code: int
    text: str = ""
    """The last thing the agent said."""
    output: Any = None
    """With ``--output-schema``: the text as the JSON it is."""
    error: RunError | None = None
    model: str | None = None
    steps: int = 0
    usage: Used
    decision: RunDecision | None = None
    """What was decided when the prompt was accepted."""
    created_at: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    left_running: tuple[str, ...] = ()
    cancelled: tuple[CoveredRun, ...] = ()
    """The receipt, where this command cancelled the run."""


def result_of(
    run: Run,
    *,
    exit_code: int,
    decision: RunDecision | None = None,
    output: Any = None,
    cancelled: tuple[CoveredRun, ...] = (),
) -> Result:
    return Result(
        run_id=run.id,
        session_id=run.session_id,
        state=run.state,
        reason=run.reason,
        exit_code=int(exit_code),
        text=run.text,
        output=output,
        error=run.error,
        model=run.model,
        steps=run.steps,
        usage=Used.of(run.usage),
        decision=decision,
        created_at=run.created_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
        left_running=run.left_running,
        cancelled=cancelled,
    )


def as_line(value: object) -> str:
    return encode(value).decode()


def as_text(value: object) -> str:
    """For people and for pipes that end in a file."""
    return msgspec.json.format(encode(value), indent=2).decode()


def as_json(text: str) -> Any:
    """What an answer by a schema says; ``None`` if it is no JSON."""
    try:
        return msgspec.json.decode(text.strip())
    except (msgspec.DecodeError, RecursionError):
        return None
