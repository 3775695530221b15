"""`holdfast config`: read and change settings."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from typing import Any

from holdfast.cli.argument_parser import Parser, family
from holdfast.cli.command_context import CommandContext
from holdfast.cli.error_messages import Problem
from holdfast.cli.exit_status import Exit
from holdfast.cli.formatting import table
from holdfast.cli.run_result import as_text
from holdfast.locations import Locations


def configure(parser: Parser) -> None:
    parser.explain(
        "Settings in effect here, where each comes from, and changing yours. docs/configuration.md lists them all.",
        examples=(
            ("holdfast config get", "everything that somebody said, and where"),
            ("holdfast config get limits.max_steps", "one value"),
            ("holdfast config set models.large openai/gpt-5", "in your own file, comments kept"),
            ("holdfast config set approvals.allow '[\"bash: pytest *\"]'", "a list"),
            ("holdfast config set models.large --unset", "as if it was never said"),
        ),
    )
    make = family(parser)
    got = make("get", "settings in effect, and where they come from")
    got.add_argument("key", nargs="?", metavar="KEY", help="a dotted key, such as limits.max_steps")
    got.add_argument("--all", action="store_true", help="also what nobody changed")
    got.add_argument("--json", action="store_true")
    got.set_defaults(run=get)
    changed = make("set", "change a setting in your own file")
    changed.add_argument("key", metavar="KEY")
    changed.add_argument("value", nargs="?", metavar="VALUE", help="a word, number, true, false or [list]")
    changed.add_argument("--unset", action="store_true", help="remove it")
    changed.set_defaults(run=change)
    make("edit", "open your own file in an editor").set_defaults(run=edit)
    make("path", "where your own file is").set_defaults(run=path)
    make("schema", "JSON Schema of all settings, for editors").set_defaults(run=schema)


def get(args: argparse.Namespace) -> int:
    with CommandContext() as here:
        found = here.client.config(here.workspace.id)
        schema_of = here.client.config_schema() if args.key else {}
    for warning in found.warnings:
        print(f"holdfast: {warning}", file=sys.stderr)
    if args.key:
        value = value_at(found.values, args.key, known=schema_of)
        if value is None and not args.json:
            print("(not set)")
            return Exit.COMPLETED
        print(as_text(value) if args.json or not isinstance(value, str) else value)
    elif args.json:
        print(as_text(found))
    else:
        rows = [
            (key, shown(value), found.origins.get(key, ""))
            for key, value in flat(found.values)
            if args.all or found.origins.get(key, "default") not in ("default", "defaults", "")
        ]
        print("\n".join(table(rows)) if rows else "everything is as it comes; --all shows it")
        for file in found.untrusted:
            print(f"not read, since this directory is not trusted: {file}; 'holdfast trust' changes that")
    return Exit.COMPLETED


def flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value by its dotted key."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def value_at(values: dict[str, Any], key: str, *, known: dict[str, Any]) -> Any:
    """``None`` for what could be set and is not; ``known`` is the JSON Schema of all settings."""
    found: Any = values
    for step in key.split("."):
        if not isinstance(found, dict) or step not in found:
            if is_known(known, key, root=known):
                return None
            raise _unknown(values, key)
        found = found[step]
    return found


def is_known(schema: dict[str, Any], key: str, *, root: dict[str, Any]) -> bool:
    """Whether a JSON Schema has a place for a dotted key; ``root`` has its definitions. Pure."""
    if name := schema.get("$ref", "").removeprefix("#/$defs/"):
        return is_known(root["$defs"][name], key, root=root)
    if any(is_known(each, key, root=root) for each in (*schema.get("anyOf", ()), *schema.get("oneOf", ()))):
        return True
    step, _, rest = key.partition(".")
    place = schema.get("properties", {}).get(step, schema.get("additionalProperties"))
    return isinstance(place, dict) and (not rest or is_known(place, rest, root=root))


def _unknown(values: dict[str, Any], key: str) -> Problem:
    import difflib

    close = difflib.get_close_matches(key, [name for name, _ in flat(values)], n=1)
    advice = f"did you mean {close[0]!r}?" if close else "'holdfast config get --all' lists them"
    return Problem(f"there is no setting {key!r}", advice=advice, status=Exit.CONFIGURATION)


def shown(value: Any) -> str:
    return value if isinstance(value, str) else as_text(value).replace("\n", " ")


def change(args: argparse.Namespace) -> int:
    if args.unset == (args.value is not None):
        raise Problem("give a value, or --unset", advice="holdfast config set limits.max_steps 50", status=Exit.USAGE)
    value = None if args.unset else read_value(args.value)
    with CommandContext() as here:
        found = here.client.change_config(here.workspace.id, {args.key: value})
    now = dict(flat(found.values)).get(args.key)
    print(f"{args.key} = {shown(now) if now is not None else '(not set)'}")
    return Exit.COMPLETED


def read_value(text: str) -> Any:
    """As it would stand in the file; what is nothing else is a text."""
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
        raise Problem(
            f"cannot run the editor {editor!r}: {error}", advice="set EDITOR to one that you have", status=Exit.USAGE
        ) from None
    if done.returncode:
        raise Problem(
            f"the editor left with status {done.returncode}", advice="nothing was checked", status=Exit.FAILED
        )
    with CommandContext() as here:
        here.client.models()  # reads the file as it is now, which a workspace does a moment later
    print("the settings are fine")
    return Exit.COMPLETED


def path(args: argparse.Namespace) -> int:
    print(Locations.from_env(os.environ).config_file)
    return Exit.COMPLETED


def schema(args: argparse.Namespace) -> int:
    with CommandContext() as here:
        print(as_text(here.client.config_schema()))
    return Exit.COMPLETED
