"""What a hook's exit code and output mean, and what the answers of several hooks mean together. Pure.

Exit code 0: the output may be one JSON object with an answer. Exit code 2: a denial, with stderr as the reason.
Everything else is a failure of the hook, which is shown and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.config.setting_validation import unknown
from holdfast.extend.hooks.hook_definitions import Hook
from holdfast.schema.base import Value, repair_text
from holdfast.schema.hooks import HookDecision, HookEvent, HookOutcome, HookRecord, HookVerdict

MAX_REASON: Final = 4_000
"""Characters of a reason or of an error."""
MAX_CONTEXT: Final = 20_000
"""Characters of added context of one hook."""
_MAX_DETAIL: Final = 300
_STRENGTH: Final[dict[HookDecision | None, int]] = {None: 0, "allow": 1, "ask": 2, "deny": 3}
_TEXT_IS_CONTEXT: Final = frozenset({"session_start", "prompt"})
_KEYS: Final = ("decision", "reason", "input", "context", "stop")
_POSSIBLE: Final[dict[HookEvent, frozenset[str]]] = {
    "session_start": frozenset({"context"}),
    "prompt": frozenset({"deny", "context", "stop"}),
    "before_tool": frozenset({"allow", "ask", "deny", "input", "context", "stop"}),
    "after_tool": frozenset({"deny", "context", "stop"}),
    "before_end": frozenset({"deny", "stop"}),
    "end": frozenset(),
    "approval": frozenset({"allow", "deny"}),
    "compaction": frozenset({"context"}),
    "notification": frozenset(),
}
"""What hooks can answer to each event."""


class ProcessResult(Value, frozen=True, kw_only=True):
    """How a hook's program ended."""

    exit_code: int | None = None
    """None: it was not started, or was ended because its time was over."""
    output: bytes = b""
    errors: bytes = b""
    seconds: float = 0.0
    problem: str = ""
    """Why there is no exit code."""


class HookAnswer(Value, frozen=True, kw_only=True):
    """What one hook answered."""

    decision: HookDecision | None = None
    reason: str = ""
    input: dict[str, Any] | None = None
    context: str = ""
    stop: str = ""
    failure: str = ""
    """Why there is no usable answer."""


class AnsweredHook(NamedTuple):
    hook: Hook
    answer: HookAnswer
    seconds: float


class _AnswerObject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    decision: HookDecision | None = None
    reason: str = ""
    input: dict[str, Any] | None = None
    context: str = ""
    stop: str | bool = ""


def plain_text(data: bytes, *, most: int) -> str:
    """Output as text, cut to a length."""
    text = repair_text(data.decode("utf-8", "replace")).replace("\0", "").strip()
    return text if len(text) <= most else f"{text[:most]} […]"


def process_failure(result: ProcessResult) -> str:
    """Why a program that did not exit with 0 or 2 counts as failed; empty if it did."""
    if result.exit_code is None:
        return result.problem or "it did not run"
    if result.exit_code in (0, 2):
        return ""
    ended = f"exit code {result.exit_code}" if result.exit_code > 0 else f"ended by signal {-result.exit_code}"
    errors = plain_text(result.errors, most=_MAX_DETAIL)
    return f"{ended}: {errors}" if errors else ended


def read_answer(event: HookEvent, result: ProcessResult) -> HookAnswer:
    """Read the answer of a hook that was written for Holdfast."""
    found = read_object(event, result)
    if isinstance(found, HookAnswer):
        return found
    for key in found:
        if key not in _KEYS:
            return HookAnswer(failure=f"its answer is not used: {unknown(str(key), _KEYS, what='key')}")
    try:
        answer = msgspec.convert(found, _AnswerObject)
    except msgspec.ValidationError as error:
        return HookAnswer(failure=f"its answer is not used: {error}")
    stop = "it stopped the run" if answer.stop is True else answer.stop or ""
    return possible_answer(
        event,
        HookAnswer(
            decision=answer.decision,
            reason=answer.reason[:MAX_REASON],
            input=answer.input,
            context=answer.context[:MAX_CONTEXT],
            stop=stop[:MAX_REASON],
        ),
    )


def read_object(event: HookEvent, result: ProcessResult) -> dict[str, Any] | HookAnswer:
    """The JSON object that a program printed, in whatever dialect; or its answer, if there is none to read."""
    if failure := process_failure(result):
        return HookAnswer(failure=failure)
    if result.exit_code == 2:
        return possible_answer(event, HookAnswer(decision="deny", reason=plain_text(result.errors, most=MAX_REASON)))
    text = plain_text(result.output, most=len(result.output) + 1)
    if not text.startswith("{"):
        return HookAnswer(context=text[:MAX_CONTEXT]) if event in _TEXT_IS_CONTEXT else HookAnswer()
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return HookAnswer(failure="its output begins like JSON but is not valid JSON")
    return found if isinstance(found, dict) else HookAnswer(failure="its output is not a JSON object")


def possible_answer(event: HookEvent, answer: HookAnswer) -> HookAnswer:
    """Keep what a hook can answer to this event. The rest is told as a failure, because its author expects more."""
    possible = _POSSIBLE[event]
    given = {
        *([answer.decision] if answer.decision else []),
        *(key for key in ("input", "context", "stop") if getattr(answer, key)),
    }
    if extra := sorted(given - possible):
        return HookAnswer(failure=f"its answer is not used: {event} cannot be answered with {', '.join(extra)}")
    return answer


def combine(event: HookEvent, answered: Sequence[AnsweredHook]) -> HookVerdict:
    """Join the answers, given in the order of the hooks: deny beats ask beats allow, the first new input counts."""
    decision: HookDecision | None = None
    for one in answered:
        if _STRENGTH[one.answer.decision] > _STRENGTH[decision]:
            decision = one.answer.decision
    reasons = [
        _told(one.hook.name, one.answer.reason or "no reason given")
        for one in answered
        if decision is not None and one.answer.decision == decision
    ]
    contexts = [_told(one.hook.name, one.answer.context) for one in answered if one.answer.context]
    inputs = (one.answer.input for one in answered if one.answer.input is not None)
    stops = (_told(one.hook.name, one.answer.stop) for one in answered if one.answer.stop)
    return HookVerdict(
        decision=decision,
        reason="; ".join(reasons),
        input=None if decision == "deny" else next(inputs, None),
        context="\n".join(contexts),
        stop=next(stops, ""),
        records=tuple(_record(event, one) for one in answered),
    )


def _told(name: str, text: str) -> str:
    return f"hook {name}: {text}"


def _record(event: HookEvent, one: AnsweredHook) -> HookRecord:
    answer = one.answer
    detail = answer.failure or answer.stop or answer.reason
    detail = " ".join(detail.split())
    detail = detail if len(detail) <= _MAX_DETAIL else f"{detail[:_MAX_DETAIL]} […]"
    return HookRecord(one.hook.name, event, _outcome(answer), round(one.seconds, 3), detail)


def _outcome(answer: HookAnswer) -> HookOutcome:
    if answer.failure:
        return "failed"
    if answer.decision == "deny":
        return "denied"
    if answer.stop:
        return "stopped"
    if answer.input is not None:
        return "changed"
    if answer.decision is not None:
        return "asked" if answer.decision == "ask" else "allowed"
    return "added" if answer.context else "ok"
