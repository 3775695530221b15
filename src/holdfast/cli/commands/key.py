"""`holdfast key`: store, test or remove a provider's API key. Keys are never arguments and never printed."""

from __future__ import annotations

import argparse
import sys

from holdfast.cli.argument_parser import Parser, add_json_argument, add_subcommands
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import CommandError, Exit
from holdfast.cli.formatting import json_text, table
from holdfast.cli.screen import Screen, is_terminal

_SHORTEST = 4
_LONGEST = 4096


def configure(parser: Parser) -> None:
    parser.explain(
        "List, store, test or remove providers' API keys. A key is asked for or read from stdin. Other users of this\n"
        "machine cannot read it, and no command prints it.",
        examples=(
            ("holdfast key", "list the providers and where their keys come from"),
            ("holdfast key set anthropic", "ask for the key and store it"),
            ("pass show openai | holdfast key set openai", "read it from a password manager"),
            ("holdfast key test anthropic", "check that the provider accepts it"),
            ("holdfast key forget openai", "remove it"),
        ),
    )
    add = add_subcommands(parser, default="list")
    listed = add("list", "list the providers and where their keys come from")
    listed.set_defaults(run=show)
    stored = add("set", "store a provider's key")
    stored.set_defaults(run=store)
    forgotten = add("forget", "remove a provider's key")
    forgotten.set_defaults(run=forget)
    tried = add("test", "send a short request to the provider")
    tried.add_argument("--model", metavar="PROVIDER/MODEL", help="use this model of the provider")
    tried.set_defaults(run=test)
    for each in (listed, stored, forgotten, tried):
        add_json_argument(each)
    for each in (stored, forgotten, tried):
        each.add_argument("provider", metavar="PROVIDER", help="for example anthropic, openai, gemini, openrouter")


def show(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        providers = context.client.models(workspace_id=context.workspace.id).providers
    if args.json:
        print(json_text({"providers": providers}))
        return Exit.COMPLETED
    rows = [
        (provider.id, provider.missing or (f"key from {provider.key}" if provider.key else "needs no key"))
        for provider in providers
    ]
    print("\n".join(table([("PROVIDER", "KEY"), *rows])))
    return Exit.COMPLETED


def store(args: argparse.Namespace) -> int:
    key = _read(args.provider)
    if wrong := key_problem(key):
        raise CommandError(wrong, advice="paste the key when asked, or pipe it to this command", status=Exit.USAGE)
    with CommandContext() as context:
        stored = context.client.set_key(args.provider, key)
    print(json_text(stored) if args.json else f"stored; 'holdfast key test {args.provider}' tests it")
    return Exit.COMPLETED


def key_problem(key: str) -> str | None:
    """Why this cannot be a key. The message does not contain the key. Pure."""
    if not key:
        return "no key was given"
    if len(key.splitlines()) > 1:
        return "the input has several lines; a key has one"
    if not key.isascii() or not key.isprintable() or " " in key:
        return "the input has characters that no key has: a key is printable ASCII without spaces"
    if len(key) < _SHORTEST:
        return f"the input has {len(key)} characters and is too short for a key"
    return f"the input is longer than {_LONGEST} characters" if len(key) > _LONGEST else None


def _read(provider: str) -> str:
    if not is_terminal(sys.stdin):
        return sys.stdin.buffer.read(_LONGEST * 4).decode("utf-8", "replace").strip()
    import getpass

    return getpass.getpass(f"key for {provider} (not shown): ").strip()


def forget(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        removed = context.client.set_key(args.provider, None)
    print(json_text(removed) if args.json else "removed")
    return Exit.COMPLETED


def test(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        context.restart_with_new_keys(Screen())
        for provider in context.client.models(workspace_id=context.workspace.id).providers:
            if provider.id == args.provider and provider.missing:
                raise CommandError(
                    provider.missing,
                    advice=f"then run 'holdfast key test {provider.id}' again",
                    status=Exit.CONFIGURATION,
                )
        model = args.model.removeprefix(f"{args.provider}/") if args.model else None
        tried = context.client.try_provider(args.provider, model=model)
    if args.json:
        print(json_text(tried))
    elif tried.ok:
        print(f"{tried.model} answered in {tried.seconds:.1f} s")
    else:
        print(f"{tried.model or args.provider}: {tried.message}", file=sys.stderr)
    if tried.ok:
        return Exit.COMPLETED
    return Exit.CONFIGURATION if tried.code in ("auth", "no_key") else Exit.PROVIDER
