"""The scripted model: a `Model` that answers by a script. For tests, the demo, and use without a key."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Any, assert_never

from holdfast import errors
from holdfast.errors import ConfigError, ModelError
from holdfast.models.model_script import (
    ModelScript,
    RuleCondition,
    ScriptAction,
    ScriptedCall,
    ScriptedFailure,
    ScriptedPause,
    ScriptedReasoning,
    ScriptedStop,
    ScriptedText,
    ScriptedUsage,
    ScriptedWait,
    ScriptRule,
)
from holdfast.models.protocol import (
    CallArguments,
    CallEnd,
    CallStart,
    ModelDelta,
    ModelInfo,
    ModelRequest,
    ReasoningDelta,
    ReasoningEnd,
    Stop,
    TextDelta,
    UsageReport,
)
from holdfast.models.wires.json_values import compact_json
from holdfast.schema.base import Value
from holdfast.schema.messages import Message, ToolResult, text_of
from holdfast.schema.usage import Usage

_CHARACTERS_PER_TOKEN = 4
_MAX_KEPT_REQUESTS = 1000
_ORIGIN = "scripted"
_REMINDERS = re.compile(r"<reminder>\n.*?\n</reminder>\s*", re.DOTALL)
"""What Holdfast tells beside a prompt, or without one. It is not a prompt."""


class Barrier:
    """Lets a test wait for a script, and a script for a test."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.released = asyncio.Event()


class ScriptedModel:
    """Implements `Model`. Barriers, used rules and received requests belong to this object."""

    def __init__(
        self,
        script: ModelScript | None = None,
        *,
        info: ModelInfo | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._script = script or ModelScript()
        self._info = info or ModelInfo("offline/demo", context_window=200_000, max_output=32_000)
        self._sleep = sleep
        self._answers = deque(self._script.answers)
        self._used = [0] * len(self._script.rules)
        self._barriers: dict[str, Barrier] = {}
        self.requests: deque[ModelRequest] = deque(maxlen=_MAX_KEPT_REQUESTS)
        _check(self._script)

    @classmethod
    def answering(
        cls, *answers: str | ScriptAction | tuple[ScriptAction, ...], info: ModelInfo | None = None
    ) -> ScriptedModel:
        """A model with one answer per request: a text, an action, or several actions."""
        return cls(ModelScript(answers=tuple(_actions(answer) for answer in answers)), info=info)

    @property
    def info(self) -> ModelInfo:
        return self._info

    def barrier(self, name: str) -> Barrier:
        """``await model.barrier("x").reached.wait()``, then ``model.barrier("x").released.set()``."""
        return self._barriers.setdefault(name, Barrier())

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        self.requests.append(request)
        context = _context(request)
        answer = _Answer(context)
        for action in self._choose(context):
            match action:
                case ScriptedPause(seconds=seconds):
                    await self._sleep(seconds)
                case ScriptedWait(barrier=name):
                    self.barrier(name).reached.set()
                    await self.barrier(name).released.wait()
                case ScriptedFailure():
                    raise _error_classes()[action.code](action.message, retry_after=action.retry_after)
                case ScriptedText() | ScriptedReasoning() | ScriptedCall():
                    for delta in answer.deltas(action):
                        if action.pace:
                            await self._sleep(action.pace)
                        yield delta
                case ScriptedUsage(usage=usage):
                    answer.usage = usage
                case ScriptedStop(reason=reason, detail=detail):
                    answer.stop = Stop(reason, detail)
                case _:
                    assert_never(action)
        yield UsageReport(answer.usage or _estimate_usage(request, answer.characters))
        yield answer.stop or Stop("tool_use" if answer.calls else "end_turn")

    def _choose(self, context: _ScriptContext) -> tuple[ScriptAction, ...]:
        if self._answers:
            return self._answers.popleft()
        for number, rule in enumerate(self._script.rules):
            if (not rule.times or self._used[number] < rule.times) and _matches(rule.when, context):
                self._used[number] += 1
                return rule.do
        return self._script.fallback


class _ScriptContext(Value, frozen=True):
    """The parts of a request that conditions and texts refer to."""

    step: int
    prompt: str
    result: ToolResult | None
    system: str
    offered: frozenset[str]


class _Answer:
    """Turns the actions of one answer into deltas, and counts what it sent."""

    def __init__(self, context: _ScriptContext) -> None:
        self._context = context
        self.calls = 0
        self.characters = 0
        self.usage: Usage | None = None
        self.stop: Stop | None = None

    def deltas(self, action: ScriptedText | ScriptedReasoning | ScriptedCall) -> Iterator[ModelDelta]:
        match action:
            case ScriptedText(text=text, chunk=chunk):
                yield from (TextDelta(piece) for piece in self._split(_fill(text, self._context), chunk))
            case ScriptedReasoning(text=text, chunk=chunk, opaque=opaque):
                yield from (ReasoningDelta(piece) for piece in self._split(_fill(text, self._context), chunk))
                yield ReasoningEnd(opaque, _ORIGIN)
            case ScriptedCall(name=name, arguments=arguments, raw=raw, chunk=chunk):
                index, self.calls = self.calls, self.calls + 1
                yield CallStart(index, name, action.id)
                text = raw if raw is not None else compact_json(_fill(arguments, self._context))
                yield from (CallArguments(index, piece) for piece in self._split(text, chunk))
                yield CallEnd(index)

    def _split(self, text: str, chunk: int) -> Iterator[str]:
        self.characters += len(text)
        size = chunk if chunk > 0 else max(1, len(text))
        return (text[start : start + size] for start in range(0, len(text), size))


def _context(request: ModelRequest) -> _ScriptContext:
    since_prompt: list[Message] = []
    prompt = ""
    for message in reversed(request.messages):
        text = _REMINDERS.sub("", text_of(message.parts))
        if message.role == "user" and text:
            prompt = text
            break
        since_prompt.append(message)
    latest = [message for message in since_prompt if message.role != "user"][:1]
    results = [part for message in latest for part in message.parts if isinstance(part, ToolResult)]
    return _ScriptContext(
        step=sum(message.role == "assistant" for message in since_prompt),
        prompt=prompt,
        result=results[-1] if results else None,
        system="\n\n".join(request.system),
        offered=frozenset(tool.name for tool in request.tools),
    )


def _matches(condition: RuleCondition, context: _ScriptContext) -> bool:
    result = context.result
    return (
        (condition.step is None or condition.step == context.step)
        and (condition.prompt is None or re.search(condition.prompt, context.prompt) is not None)
        and (condition.system is None or re.search(condition.system, context.system) is not None)
        and (condition.offered is None or condition.offered in context.offered)
        and (condition.result is None or (result is not None and re.search(condition.result, result.text) is not None))
        and (condition.tool is None or (result is not None and condition.tool == result.name))
        and (condition.status is None or (result is not None and condition.status == result.status))
    )


def _fill(value: Any, context: _ScriptContext) -> Any:
    """Replace ``{prompt}`` and ``{result}`` in a text, or in every text inside a value."""
    match value:
        case str():
            result = context.result.text if context.result else ""
            values = {"{prompt}": context.prompt, "{result}": result}
            return re.sub(r"\{(?:prompt|result)\}", lambda found: values[found[0]], value)
        case dict():
            return {key: _fill(item, context) for key, item in value.items()}
        case list():
            return [_fill(item, context) for item in value]
    return value


def _actions(answer: str | ScriptAction | tuple[ScriptAction, ...]) -> tuple[ScriptAction, ...]:
    if isinstance(answer, str):
        return (ScriptedText(answer),)
    return answer if isinstance(answer, tuple) else (answer,)


def _estimate_usage(request: ModelRequest, characters: int) -> Usage:
    given = sum(len(block) for block in request.system)
    given += sum(len(getattr(part, "text", None) or "") for message in request.messages for part in message.parts)
    return Usage(input=given // _CHARACTERS_PER_TOKEN, output=characters // _CHARACTERS_PER_TOKEN, estimated=True)


def _error_classes() -> dict[str, type[ModelError]]:
    return {kind.code: kind for kind in ModelError.__subclasses__() if kind.__module__ == errors.__name__}


def _check(script: ModelScript) -> None:
    """Find mistakes when the script is loaded, not in the middle of an answer."""
    for rule in script.rules:
        _check_patterns(rule)
    for actions in (*script.answers, *(rule.do for rule in script.rules), script.fallback):
        for action in actions:
            if isinstance(action, ScriptedFailure) and action.code not in _error_classes():
                known = ", ".join(sorted(_error_classes()))
                raise ConfigError(f"a script cannot fail with {action.code!r}; known: {known}")


def _check_patterns(rule: ScriptRule) -> None:
    for pattern in (rule.when.prompt, rule.when.result, rule.when.system):
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise ConfigError(f"{pattern!r} in a script is not a regular expression: {error}") from None
