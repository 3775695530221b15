"""Random fault schedules: what clients, the model, the disk and the clock do, drawn from one seed."""

import random
from dataclasses import dataclass
from functools import cached_property

from holdfast.models.model_script import (
    ModelScript,
    RuleCondition,
    ScriptAction,
    ScriptedCall,
    ScriptedFailure,
    ScriptedReasoning,
    ScriptedStop,
    ScriptedText,
    ScriptedWait,
    ScriptRule,
)
from holdfast.schema.runs import RunRequest

_WORDS = ("over ", "the ", "café ", "żółw ", "🐢 ", "line\n", "and ", "so ")
_FAILURES = ("overloaded", "rate_limit", "network", "garbage", "context", "auth")
_AT_ONCE = 0.0005
"""Seconds before a retry, as the provider asks for it."""

ACTIONS = {
    "prompt": 30,
    "repeat": 5,
    "change": 4,
    "cancel_session": 5,
    "cancel_active": 3,
    "cancel_run": 4,
    "pause": 2,
    "resume": 3,
    "answer": 8,
    "break_store": 8,
    "jump": 4,
    "cut_reader": 4,
    "read": 4,
    "crash": 3,
    "restart": 2,
}
"""What happens in a schedule, with its relative frequency."""


@dataclass(frozen=True, slots=True)
class Action:
    """One action. The numbers between 0 and 1 choose what it acts on, how, and how long the next one waits."""

    kind: str
    which: float
    how: float
    wait: float

    def choose(self, items: "list[str]") -> str:
        return items[int(self.which * len(items))]


@dataclass(frozen=True, slots=True)
class PromptPlan:
    """A prompt and how the model answers it."""

    request: RunRequest
    rules: tuple[ScriptRule, ...]
    texts: tuple[str, ...]
    """What the model says to it, if nothing fails."""
    hangs: bool


class FaultPlan:
    """Everything that one seed decides."""

    def __init__(self, seed: int, *, actions: int = 14, asking: float = 0.3) -> None:
        """``asking``: the part of the prompts whose tools need approval."""
        chance = random.Random(seed)
        self.seed = seed
        self.sessions = chance.randint(1, 2)
        kinds = chance.choices(list(ACTIONS), weights=list(ACTIONS.values()), k=actions)
        self.actions = [Action(kind, chance.random(), chance.random(), chance.random()) for kind in kinds]
        self.prompts = [_plan_prompt(f"tag{number}x", chance, asking) for number in range(kinds.count("prompt"))]

    @cached_property
    def script(self) -> ModelScript:
        title = ScriptRule((ScriptedText("A title"),), RuleCondition(system="^Give this coding task a title"))
        return ModelScript(
            rules=(title, *(rule for prompt in self.prompts for rule in prompt.rules)),
            fallback=(ScriptedText("That is all."),),
        )

    @cached_property
    def texts(self) -> frozenset[str]:
        """Everything that the model may say."""
        return frozenset({"That is all.", *(text for prompt in self.prompts for text in prompt.texts)})


def _plan_prompt(tag: str, chance: random.Random, asking: float) -> PromptPlan:
    rules: list[ScriptRule] = []
    texts: list[str] = []
    steps = chance.choice((1, 1, 2, 2, 3))
    hang_at = chance.randrange(steps) if chance.random() < 0.15 else None
    for step in range(steps):
        said = f"{tag}.{step} " + "".join(chance.choices(_WORDS, k=chance.randint(0, 12)))
        texts.append(said)
        when = RuleCondition(prompt=f"{tag}\\b", step=step)
        spoken = ScriptedText(said, chunk=chance.choice((1, 7, 24)), pace=chance.choice((0, 0, 0, 0.0005)))
        if (failure := _failure(said, chance)) is not None:
            rules.append(ScriptRule(failure, when, times=chance.choice((1, 1, 2, 4))))
        answer: list[ScriptAction] = [ScriptedReasoning("hm")] if chance.random() < 0.3 else []
        answer.append(spoken)
        if step == hang_at:
            answer.append(ScriptedWait("never released"))
        elif step < steps - 1:
            calls = chance.choice((1, 1, 2))
            answer += [ScriptedCall("bash", {"command": f"touch {tag}.{step}.{call}"}) for call in range(calls)]
        rules.append(ScriptRule(tuple(answer), when))
    asks = chance.random() < asking
    request = RunRequest(
        prompt=f"please do {tag}",
        run_id=f"run-{tag}" if chance.random() < 0.5 else None,
        delivery="steer" if chance.random() < 0.25 else "queue",
        after="success" if chance.random() < 0.1 else "any",
        model="offline/demo",
        mode="ask" if asks else "auto",
        interactive=asks,
    )
    return PromptPlan(request, tuple(rules), tuple(texts), hang_at is not None)


def _failure(said: str, chance: random.Random) -> tuple[ScriptAction, ...] | None:
    """An answer that fails, before or after some text. (An empty one is retried after a second, too long for here.)"""
    if chance.random() > 0.3:
        return None
    begun = ScriptedText(said[: chance.randrange(1, len(said) + 1)], chunk=5)
    if chance.random() < 0.15:
        return (begun, ScriptedStop(chance.choice(("refused", "max_tokens"))))
    return (begun, ScriptedFailure(chance.choice(_FAILURES), retry_after=_AT_ONCE))
