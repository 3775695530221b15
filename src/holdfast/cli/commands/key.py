"""`holdfast key`: store, forget or try a provider's key. Never shown, never taken from the command line's words."""

from __future__ import annotations

import argparse
import sys

from holdfast.cli.argument_parser import Parser, family
from holdfast.cli.command_context import CommandContext
from holdfast.cli.error_messages import Problem
from holdfast.cli.exit_status import Exit
from holdfast.cli.no_model_help import renew_server
from holdfast.cli.run_result import as_text
from holdfast.cli.screen import Screen, is_terminal

_SHORTEST = 4
_LONGEST = 4096


def configure(parser: Parser) -> None:
    parser.explain(
        "Store or try a provider's key. It is asked for, or read from a pipe; other users of this machine cannot see\n"
        "it, and no command shows it.",
        examples=(
            ("holdfast key set anthropic", "asks for it"),
            ("pass show openai | holdfast key set openai", "from a password manager"),
            ("holdfast key test anthropic", "whether the provider takes it"),
            ("holdfast key forget openai", "remove it"),
        ),
    )
    make = family(parser)
    stored = make("set", "store a provider's key")
    stored.set_defaults(run=store)
    forgotten = make("forget", "remove a provider's key")
    forgotten.set_defaults(run=forget)
    tried = make("test", "ask the provider for one word")
    tried.add_argument("--model", metavar="MODEL", help="with this model of the provider")
    tried.add_argument("--json", action="store_true")
    tried.set_defaults(run=test)
    for each in (stored, forgotten, tried):
        each.add_argument("provider", metavar="PROVIDER", help="such as anthropic, openai, gemini, openrouter")


def store(args: argparse.Namespace) -> int:
    key = _read(args.provider)
    if wrong := wrong_with(key):
        raise Problem(wrong, advice="paste the key when asked, or pipe it in", status=Exit.USAGE)
    with CommandContext() as here:
        here.client.set_key(args.provider, key)
    print(f"stored; 'holdfast key test {args.provider}' tries it")
    return Exit.COMPLETED


def wrong_with(key: str) -> str | None:
    """Why this cannot be a key, without repeating it. Pure."""
    if not key:
        return "no key was given"
    if len(key.splitlines()) > 1:
        return "what was given has several lines; a key is one"
    if not key.isascii() or not key.isprintable() or " " in key:
        return "what was given has characters that no key has: only letters, digits and signs of ASCII, no spaces"
    if len(key) < _SHORTEST:
        return f"what was given has {len(key)} characters, and is too short for a key"
    return f"what was given is longer than {_LONGEST} characters" if len(key) > _LONGEST else None


def _read(provider: str) -> str:
    if not is_terminal(sys.stdin):
        return sys.stdin.buffer.read(_LONGEST * 4).decode("utf-8", "replace").strip()
    import getpass

    return getpass.getpass(f"key for {provider} (not shown): ").strip()


def forget(args: argparse.Namespace) -> int:
    with CommandContext() as here:
        here.client.set_key(args.provider, None)
    print("forgotten")
    return Exit.COMPLETED


def test(args: argparse.Namespace) -> int:
    with CommandContext() as here:
        renew_server(here, screen=Screen())
        for provider in here.client.models(workspace_id=here.workspace.id).providers:
            if provider.id == args.provider and provider.missing:
                raise Problem(provider.missing, advice=f"then 'holdfast key test {provider.id}' again", status=3)
        tried = here.client.try_provider(args.provider, model=args.model)
    if args.json:
        print(as_text(tried))
    elif tried.ok:
        print(f"{tried.model} answered in {tried.seconds:.1f} s")
    else:
        print(f"{tried.model or args.provider}: {tried.message}", file=sys.stderr)
    if tried.ok:
        return Exit.COMPLETED
    return Exit.CONFIGURATION if tried.code in ("auth", "no_key") else Exit.PROVIDER
