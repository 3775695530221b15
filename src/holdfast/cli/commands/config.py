"""`holdfast config` and `trust`: read and change settings, and use those of a directory."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from holdfast.cli.argument_parser import Parser, add_json_argument, add_subcommands
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import CommandError, Exit
from holdfast.cli.formatting import json_text, table
from holdfast.cli.screen import one_line
from holdfast.locations import Locations
from holdfast.schema.api.response_bodies import ConfigView


def configure(parser: Parser) -> None:
    parser.explain(
        "Show the settings in effect in this directory and where each comes from, or change your own.\n"
        "docs/configuration.md lists all settings.",
        examples=(
            ("holdfast config", "all settings that differ from the defaults"),
            ("holdfast config get limits.max_steps", "one value"),
            ("holdfast config get limits --origin", "some values, and where each comes from"),
            ("holdfast config set models.large openai/gpt-6-sol", "write to your settings file; comments are kept"),
            ("holdfast config set approvals.allow '[\"bash: pytest *\"]'", "a list"),
            ("holdfast config set models.large --unset", "return to the default"),
        ),
    )
    add = add_subcommands(parser, default="get")
    got = add("get", "show the settings in effect and where they come from")
    got.add_argument("key", nargs="?", metavar="KEY", help="a dotted key, such as limits.max_steps")
    got.add_argument("--all", action="store_true", help="also settings at their defaults")
    got.add_argument("--origin", action="store_true", help="with KEY: also print where the value comes from")
    add_json_argument(got)
    got.set_defaults(run=get)
    changed = add("set", "change a setting in your settings file")
    changed.add_argument("key", metavar="KEY")
    changed.add_argument("value", nargs="?", metavar="VALUE", help="a word, number, true, false or [list]")
    changed.add_argument("--unset", action="store_true", help="remove it")
    add_json_argument(changed)
    changed.set_defaults(run=change)
    add("edit", "open your settings file in an editor").set_defaults(run=edit)
    add("path", "print the path of your settings file").set_defaults(run=path)
    add("schema", "print the JSON Schema of all settings, for editors").set_defaults(run=schema)


def configure_trust(parser: Parser) -> None:
    parser.explain(
        "Use what this directory brings along: its configuration (.holdfast/), MCP servers, hooks, language servers, "
        "skills, commands and agents. None of it is read or run before you trust the directory. Instruction files "
        "such as AGENTS.md are sent to the model in any case. The output lists what is used from now on.",
        examples=(
            ("holdfast trust", "trust this directory"),
            ("holdfast trust --revoke", "stop trusting it"),
        ),
    )
    parser.add_argument("--revoke", action="store_true", help="stop trusting this directory")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=trust)


def get(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        found = with_shell_settings(context.client.config(context.workspace.id), os.environ)
        json_schema = context.client.config_schema() if args.key else {}
    for warning in (*found.warnings, *unused_config(found, os.environ)):
        print(f"holdfast: {warning}", file=sys.stderr)
    if args.key:
        _print_setting(found, args, schema=json_schema)
    elif args.json:
        print(json_text(found))
    else:
        rows = [
            (key, format_value(value), found.origins.get(key, ""))
            for key, value in flatten(found.values)
            if args.all or found.origins.get(key, "default") not in ("default", "defaults", "")
        ]
        print("\n".join(table(rows)) if rows else "all settings are at their defaults; --all lists them")
        for file in found.untrusted:
            print(f"ignored, because this directory is not trusted: {file}; 'holdfast trust' changes that")
    return Exit.COMPLETED


_SHELL_SETTINGS = {"HOLDFAST_MODEL": "large", "HOLDFAST_SMALL_MODEL": "small"}


def with_shell_settings(found: ConfigView, env: Mapping[str, str]) -> ConfigView:
    """The settings for runs from this shell, whose variables are sent with each prompt."""
    given = {key: env[name] for name, key in _SHELL_SETTINGS.items() if env.get(name)}
    origins = {f"models.{key}": f"environment ({name})" for name, key in _SHELL_SETTINGS.items() if key in given}
    models = {**found.values.get("models", {}), **given}
    return replace(found, values={**found.values, "models": models}, origins={**found.origins, **origins})


def unused_config(found: ConfigView, env: Mapping[str, str]) -> list[str]:
    """A warning if this shell names a file that the server does not read. The next prompt applies or refuses it."""
    named = os.path.abspath(env["HOLDFAST_CONFIG"]) if env.get("HOLDFAST_CONFIG") else ""
    if not named or named in found.files:
        return []
    return [f"HOLDFAST_CONFIG names {named!r}, which the server does not use; 'holdfast stop' lets it start anew"]


def _print_setting(found: ConfigView, args: argparse.Namespace, *, schema: dict[str, Any]) -> None:
    value = value_at(found.values, args.key, schema=schema)
    if args.origin:
        below = {key: value for key, value in flatten(found.values) if f"{key}.".startswith(f"{args.key}.")}
        rows = [(key, value, found.origins.get(key, "default")) for key, value in below.items()]
        rows = rows or [(args.key, value, found.origins.get(args.key, "default"))]
        if args.json:
            print(json_text({key: {"value": value, "origin": origin} for key, value, origin in rows}))
        else:
            print("\n".join(table([(key, format_value(value), origin) for key, value, origin in rows])))
    elif value is None and not args.json:
        print("(not set)")
    else:
        print(json_text(value) if args.json or not isinstance(value, str) else value)


def flatten(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """All values by their dotted keys."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def value_at(values: dict[str, Any], key: str, *, schema: dict[str, Any]) -> Any:
    """The value of a setting; ``None`` if it is not set. ``schema`` is the JSON Schema of all settings."""
    found: Any = values
    for step in key.split("."):
        if not isinstance(found, dict) or step not in found:
            if is_setting(schema, key, root=schema):
                return None
            raise _unknown(values, key)
        found = found[step]
    return found


def is_setting(schema: dict[str, Any], key: str, *, root: dict[str, Any]) -> bool:
    """Whether a JSON Schema allows a dotted key; ``root`` has its definitions. Pure."""
    if name := schema.get("$ref", "").removeprefix("#/$defs/"):
        return is_setting(root["$defs"][name], key, root=root)
    if any(is_setting(each, key, root=root) for each in (*schema.get("anyOf", ()), *schema.get("oneOf", ()))):
        return True
    step, _, rest = key.partition(".")
    found = schema.get("properties", {}).get(step, schema.get("additionalProperties"))
    return isinstance(found, dict) and (not rest or is_setting(found, rest, root=root))


def _unknown(values: dict[str, Any], key: str) -> CommandError:
    import difflib

    close = difflib.get_close_matches(key, [name for name, _ in flatten(values)], n=1)
    advice = f"did you mean {close[0]!r}?" if close else "'holdfast config get --all' lists them"
    return CommandError(f"unknown setting {key!r}", advice=advice, status=Exit.CONFIGURATION)


def format_value(value: Any) -> str:
    if value is None:
        return "(not set)"
    return value if isinstance(value, str) else json_text(value).replace("\n", " ")


def change(args: argparse.Namespace) -> int:
    if args.unset == (args.value is not None):
        raise CommandError(
            "give either a value or --unset",
            advice="for example: holdfast config set limits.max_steps 50",
            status=Exit.USAGE,
        )
    value = None if args.unset else parse_value(args.value)
    with CommandContext() as context:
        found = context.client.change_config(context.workspace.id, {args.key: value})
    if args.json:
        print(json_text(found))
        return Exit.COMPLETED
    now = dict(flatten(found.values)).get(args.key)
    print(f"{args.key} = {format_value(now) if now is not None else '(not set)'}")
    return Exit.COMPLETED


def parse_value(text: str) -> Any:
    """Parse a value as TOML; anything that is not TOML is a string."""
    import tomllib

    try:
        found = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return found["value"] if set(found) == {"value"} else text


def edit(args: argparse.Namespace) -> int:
    import shlex
    import subprocess

    locations = Locations.from_env(os.environ)
    locations.prepare()
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        done = subprocess.run([*shlex.split(editor), str(locations.config_file)], check=False)
    except (OSError, ValueError) as error:
        raise CommandError(
            f"cannot run the editor {editor!r}: {error}", advice="set EDITOR to an installed editor", status=Exit.USAGE
        ) from None
    if done.returncode:
        raise CommandError(
            f"the editor exited with status {done.returncode}", advice="the file was not checked", status=Exit.FAILED
        )
    with CommandContext() as context:
        context.client.models()  # makes the server read the file at once
    print("the settings are valid")
    return Exit.COMPLETED


def path(args: argparse.Namespace) -> int:
    print(Locations.from_env(os.environ).config_file)
    return Exit.COMPLETED


def schema(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        print(json_text(context.client.config_schema()))
    return Exit.COMPLETED


def trust(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        view = context.client.trust(context.workspace.id, trusted=not args.revoke)
        used = () if args.revoke or args.json else context.client.extensions(context.workspace.id).items
    if args.json:
        print(json_text(view))
        return Exit.COMPLETED
    print(f"{view.path} is {'trusted' if view.trusted else 'not trusted'}")
    for one in used:
        if one.source.startswith(os.path.join(view.path, "")):
            print(f"used from now on: {one.kind} {one_line(one.name)} ({one_line(one.source)})")
    for file in view.instructions:
        print(f"sent to the model, trusted or not: {file}")
    for file in view.ignored_instructions:
        print(f"not read, because it is a link that leaves the repository: {file}")
    return Exit.COMPLETED
