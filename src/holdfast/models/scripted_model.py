"""The scripted model: a real `Model` that says what a script tells it. For tests, the demo and users without a key."""

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
    ScriptedAct,
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
from holdfast.models.wires.stream_json import as_json
from holdfast.schema.base import Value
from holdfast.schema.messages import Message, ToolResult, text_of
from holdfast.schema.usage import Usage

_CHARACTERS_PER_TOKEN = 4
_KEPT_REQUESTS = 1000
ORIGIN = "scripted"


class ScriptContext(Value, frozen=True):
    """What a script can see of a request."""

    step: int
    prompt: str
    result: ToolResult | None
    system: str
    offered: frozenset[str]


class Barrier:
    """Where a script waits for a test, and a test for a script."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.released = asyncio.Event()


class ScriptedModel:
    """Implements `Model`. Barriers, used-up rules and the requests it saw belong to this object."""

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
        self.requests: deque[ModelRequest] = deque(maxlen=_KEPT_REQUESTS)
        _check(self._script)

    @classmethod
    def answering(
        cls, *answers: str | ScriptedAct | tuple[ScriptedAct, ...], info: ModelInfo | None = None
    ) -> ScriptedModel:
        """One answer per request: a text, an act, or several acts."""
        return cls(ModelScript(answers=tuple(_acts(answer) for answer in answers)), info=info)

    @property
    def info(self) -> ModelInfo:
        return self._info

    def barrier(self, name: str) -> Barrier:
        """``await model.barrier("x").reached.wait()``, then ``model.barrier("x").released.set()``."""
        return self._barriers.setdefault(name, Barrier())

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        self.requests.append(request)
        situation = script_context(request)
        teller = _Teller(situation)
        for act in self._choose(situation):
            match act:
                case ScriptedPause(seconds=seconds):
                    await self._sleep(seconds)
                case ScriptedWait(barrier=name):
                    self.barrier(name).reached.set()
                    await self.barrier(name).released.wait()
                case ScriptedFailure():
                    raise _error(act)
                case ScriptedText() | ScriptedReasoning() | ScriptedCall():
                    for delta in teller.tell(act):
                        if act.pace:
                            await self._sleep(act.pace)
                        yield delta
                case ScriptedUsage(usage=usage):
                    teller.usage = usage
                case ScriptedStop(reason=reason, detail=detail):
                    teller.stop = Stop(reason, detail)
                case _:
                    assert_never(act)
        yield UsageReport(teller.usage or _estimate(request, teller.said))
        yield teller.stop or Stop("tool_use" if teller.calls else "end_turn")

    def _choose(self, situation: ScriptContext) -> tuple[ScriptedAct, ...]:
        if self._answers:
            return self._answers.popleft()
        for number, rule in enumerate(self._script.rules):
            if (not rule.times or self._used[number] < rule.times) and holds(rule.when, situation):
                self._used[number] += 1
                return rule.do
        return self._script.fallback


class _Teller:
    """Turns acts into deltas, and remembers what follows from them."""

    def __init__(self, situation: ScriptContext) -> None:
        self._situation = situation
        self.calls = 0
        self.said = 0
        self.usage: Usage | None = None
        self.stop: Stop | None = None

    def tell(self, act: ScriptedText | ScriptedReasoning | ScriptedCall) -> Iterator[ModelDelta]:
        match act:
            case ScriptedText(text=text, chunk=chunk):
                yield from (TextDelta(piece) for piece in self._cut(filled(text, self._situation), chunk))
            case ScriptedReasoning(text=text, chunk=chunk, opaque=opaque):
                yield from (ReasoningDelta(piece) for piece in self._cut(filled(text, self._situation), chunk))
                yield ReasoningEnd(opaque, ORIGIN)
            case ScriptedCall(name=name, arguments=arguments, raw=raw, chunk=chunk):
                index, self.calls = self.calls, self.calls + 1
                yield CallStart(index, name, act.id)
                text = raw if raw is not None else as_json(filled(arguments, self._situation))
                yield from (CallArguments(index, piece) for piece in self._cut(text, chunk))
                yield CallEnd(index)

    def _cut(self, text: str, chunk: int) -> Iterator[str]:
        self.said += len(text)
        size = chunk if chunk > 0 else max(1, len(text))
        return (text[start : start + size] for start in range(0, len(text), size))


def script_context(request: ModelRequest) -> ScriptContext:
    """Where a conversation stands: how often the model spoke since the user did, and who said what last."""
    since: list[Message] = []
    prompt = ""
    for message in reversed(request.messages):
        if message.role == "user":
            prompt = text_of(message.parts)
            break
        since.append(message)
    results = [part for message in since[:1] for part in message.parts if isinstance(part, ToolResult)]
    return ScriptContext(
        step=sum(message.role == "assistant" for message in since),
        prompt=prompt,
        result=results[-1] if results else None,
        system="\n\n".join(request.system),
        offered=frozenset(tool.name for tool in request.tools),
    )


def holds(when: RuleCondition, situation: ScriptContext) -> bool:
    """Whether every condition that is said holds."""
    result = situation.result
    return (
        (when.step is None or when.step == situation.step)
        and (when.prompt is None or re.search(when.prompt, situation.prompt) is not None)
        and (when.system is None or re.search(when.system, situation.system) is not None)
        and (when.offered is None or when.offered in situation.offered)
        and (when.result is None or (result is not None and re.search(when.result, result.text) is not None))
        and (when.tool is None or (result is not None and when.tool == result.name))
        and (when.status is None or (result is not None and when.status == result.status))
    )


def filled(value: Any, situation: ScriptContext) -> Any:
    """A text, or every text in a value, with ``{prompt}`` and ``{result}`` put in."""
    match value:
        case str():
            result = situation.result.text if situation.result else ""
            words = {"{prompt}": situation.prompt, "{result}": result}
            return re.sub(r"\{(?:prompt|result)\}", lambda found: words[found[0]], value)
        case dict():
            return {key: filled(item, situation) for key, item in value.items()}
        case list():
            return [filled(item, situation) for item in value]
    return value


def _acts(answer: str | ScriptedAct | tuple[ScriptedAct, ...]) -> tuple[ScriptedAct, ...]:
    if isinstance(answer, str):
        return (ScriptedText(answer),)
    return answer if isinstance(answer, tuple) else (answer,)


def _estimate(request: ModelRequest, said: int) -> Usage:
    asked = sum(len(block) for block in request.system)
    asked += sum(len(getattr(part, "text", None) or "") for message in request.messages for part in message.parts)
    return Usage(input=asked // _CHARACTERS_PER_TOKEN, output=said // _CHARACTERS_PER_TOKEN, estimated=True)


def _error_classes() -> dict[str, type[ModelError]]:
    return {kind.code: kind for kind in ModelError.__subclasses__() if kind.__module__ == errors.__name__}


def _error(act: ScriptedFailure) -> ModelError:
    return _error_classes()[act.code](act.message, retry_after=act.retry_after)


def _check(script: ModelScript) -> None:
    """A script's mistakes are found when it is loaded, not when it is in the middle of an answer."""
    for rule in script.rules:
        _check_patterns(rule)
    for acts in (*script.answers, *(rule.do for rule in script.rules), script.fallback):
        for act in acts:
            if isinstance(act, ScriptedFailure) and act.code not in _error_classes():
                known = ", ".join(sorted(_error_classes()))
                raise ConfigError(f"a script cannot fail with {act.code!r}; known: {known}")


def _check_patterns(rule: ScriptRule) -> None:
    for pattern in (rule.when.prompt, rule.when.result, rule.when.system):
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise ConfigError(f"{pattern!r} in a script is no regular expression: {error}") from None
