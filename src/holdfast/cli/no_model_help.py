"""What somebody reads who has no usable model yet."""

from __future__ import annotations

import os
from collections.abc import Mapping

from holdfast.cli.command_context import CommandContext
from holdfast.cli.error_messages import what_and_advice
from holdfast.cli.exit_status import Exit
from holdfast.cli.screen import Screen
from holdfast.client.server_address import address_from_env
from holdfast.errors import Conflict, HoldfastError, NoModel
from holdfast.schema.api.response_bodies import ModelsView

_MOST_SHOWN = 3


def no_model(here: CommandContext, error: NoModel, *, screen: Screen, asked: str | None) -> int:
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


def unseen_variables(models: ModelsView | None, env: Mapping[str, str]) -> list[str]:
    """Variables that are set here and would give the server a key, but that it was started without. Pure."""
    providers = models.providers if models else ()
    return [name for provider in providers for name in provider.missing_variables if env.get(name)]


def renew_server(here: CommandContext, *, screen: Screen) -> bool:
    """If the local server lacks a key that is set here: another one in its place, with this environment."""
    unseen = unseen_variables(_models(here), os.environ)
    if not unseen or address_from_env(os.environ) is not None:
        return False
    names = ", ".join(unseen)
    try:
        here.client.stop_server(if_idle=True)
    except Conflict:
        screen.warn(f"the server was started without {names}, and is busy; 'holdfast stop' lets the next one have it")
        return False
    screen.note(f"the server was started without {names}; starting it anew")
    here.reopen()
    return True


def _models(here: CommandContext) -> ModelsView | None:
    try:
        return here.client.models(workspace_id=here.workspace.id)
    except HoldfastError:
        return None
