"""What somebody reads who has no usable model yet."""

from __future__ import annotations

from holdfast.cli.exits import Exit
from holdfast.cli.here import Here
from holdfast.cli.problems import what_and_advice
from holdfast.cli.screen import Screen
from holdfast.client.answers import ModelsView
from holdfast.errors import HoldfastError, NoModel

_MOST_SHOWN = 3


def no_model(here: Here, error: NoModel, *, screen: Screen, asked: str | None) -> int:
    """How to get one: three lines, the local servers that answer, and the model that needs nothing."""
    what, advice = what_and_advice(error)
    if asked or "model" in error.detail:
        screen.warn(f"holdfast: {what}\n          {advice}")
        return Exit.CONFIGURATION
    screen.warn("holdfast: no model can be used yet. Give it a key, in one of these ways:")
    screen.warn("  export ANTHROPIC_API_KEY=…        (or OPENAI_API_KEY, GEMINI_API_KEY, OPENROUTER_API_KEY, …)")
    screen.warn("  holdfast key set anthropic        (asks for it, and keeps it out of files that you share)")
    screen.warn("or without a key:")
    for line in local_lines(_models(here)):
        screen.warn(f"  {line}")
    screen.warn("  holdfast run --model offline/demo …    (no brain, no network: shows how it works)")
    return Exit.CONFIGURATION


def local_lines(models: ModelsView | None) -> list[str]:
    """A line per local model server that answers."""
    lines = []
    for provider in models.providers if models else ():
        names = [model.name for model in models.models if model.provider == provider.id] if models else []
        if provider.local and provider.id != "offline" and names:
            shown = ", ".join(names[:_MOST_SHOWN]) + (f" and {len(names) - _MOST_SHOWN} more" * (len(names) > 3))
            lines.append(f"holdfast run --model {names[0]} …    ({provider.name or provider.id} answers here: {shown})")
    return lines or ["start a local model server (Ollama, LM Studio, llama.cpp); none answers here now"]


def _models(here: Here) -> ModelsView | None:
    try:
        return here.client.models(workspace_id=here.workspace.id)
    except HoldfastError:
        return None
