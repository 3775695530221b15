"""`holdfast models`: the available models, and help for users who have none yet."""

from __future__ import annotations

import argparse
import os

from holdfast.cli.argument_parser import Parser
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import Exit, message_and_advice
from holdfast.cli.formatting import json_text, short_number, table
from holdfast.cli.screen import Screen
from holdfast.client.client_environment import with_shell_models
from holdfast.errors import NoModel
from holdfast.schema.api.response_bodies import ModelsView

_MAX_NAMES = 3


def configure(parser: Parser) -> None:
    parser.explain(
        "List the available models, including those of local model servers that respond. '*' marks the default model.",
        examples=(
            ("holdfast models --all", "also list providers without a key, and how to set one"),
            ("holdfast config set models.large anthropic/claude-sonnet-4-5", "change the default model"),
        ),
    )
    parser.add_argument("--all", action="store_true", help="also list providers that are not set up yet")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        found = with_shell_models(context.client.models(workspace_id=context.workspace.id), os.environ)
    if args.json:
        print(json_text(found))
        return Exit.COMPLETED
    print("\n".join(model_lines(found)))
    if args.all:
        for provider in found.providers:
            print(f"{provider.id:<12} {provider.missing or (f'key from {provider.key}' if provider.key else 'ready')}")
    elif found.large is None:
        print("\nno key is set; 'holdfast models --all' shows how to set one")
        print("\n".join(local_server_lines(found)))
    return Exit.COMPLETED


def model_lines(found: ModelsView) -> list[str]:
    rows = [
        (
            "*" if model.name == found.large else "",
            model.name,
            short_number(model.context_window) if model.context_window else "",
            "images" if model.images else "",
            ",".join(model.reasoning),
            "local" if model.local else "",
        )
        for model in found.models
    ]
    return table([("", "MODEL", "WINDOW", "INPUT", "REASONING", ""), *rows], right=frozenset({2}))


def print_no_model_help(context: CommandContext, error: NoModel, *, screen: Screen, requested: str | None) -> int:
    """How to set a key, which local model servers respond, and the model that needs neither."""
    message, advice = message_and_advice(error)
    if requested or "model" in error.detail:
        screen.warn(f"holdfast: {message}\n          {advice}")
        return Exit.CONFIGURATION
    screen.warn("holdfast: no model is available yet. Set an API key in one of these ways:")
    screen.warn("  export ANTHROPIC_API_KEY=…        (or OPENAI_API_KEY, GEMINI_API_KEY, OPENROUTER_API_KEY, …)")
    screen.warn("  holdfast key set anthropic        (asks for the key and stores it in a private file)")
    screen.warn("or use a model that needs no key:")
    for line in local_server_lines(context.models()):
        screen.warn(f"  {line}")
    screen.warn("  holdfast run --model offline/demo …    (a scripted model, to try the commands offline)")
    return Exit.CONFIGURATION


def local_server_lines(models: ModelsView | None) -> list[str]:
    """One line per local model server that responds."""
    lines = []
    for provider in models.providers if models else ():
        names = [model.name for model in models.models if model.provider == provider.id] if models else []
        if provider.local and provider.id != "offline" and names:
            rest = len(names) - _MAX_NAMES
            shown = ", ".join(names[:_MAX_NAMES]) + (f" and {rest} more" if rest > 0 else "")
            lines.append(f"holdfast run --model {names[0]} …    ({provider.name or provider.id} is running: {shown})")
    return lines or ["start a local model server (Ollama, LM Studio, llama.cpp); none is running now"]
