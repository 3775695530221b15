"""`holdfast devices`: the browsers and programs that were paired with the server."""

from __future__ import annotations

import argparse

from holdfast.cli.argument_parser import Parser, add_json_argument, add_subcommands
from holdfast.cli.argument_values import identifier
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import CommandError, Exit
from holdfast.cli.formatting import json_text, table
from holdfast.schema.devices import Device


def configure(parser: Parser) -> None:
    parser.explain(
        "List, rename and revoke the browsers that 'holdfast web' paired, and the tokens of people. A device that is\n"
        "revoked is cut off at once.",
        examples=(
            ("holdfast devices", "list them"),
            ('holdfast devices rename dev_1 "my phone"', "give one a name"),
            ("holdfast devices revoke dev_1", "let it in no longer; the beginning of an id is enough"),
            ("holdfast devices revoke --all", "let none in"),
        ),
    )
    add = add_subcommands(parser, default="list")
    listed = add("list", "list the devices")
    listed.set_defaults(run=show)
    renamed = add("rename", "rename a device")
    renamed.add_argument("device", type=identifier, metavar="DEVICE")
    renamed.add_argument("name", metavar="NAME")
    renamed.set_defaults(run=rename)
    revoked = add("revoke", "let a device in no longer")
    revoked.add_argument("device", type=identifier, nargs="?", metavar="DEVICE")
    revoked.add_argument("--all", action="store_true", help="revoke all devices")
    revoked.set_defaults(run=revoke)
    for each in (listed, renamed, revoked):
        add_json_argument(each)


def show(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        devices = context.client.devices().items
    if args.json:
        print(json_text({"devices": devices}))
    elif not devices:
        print("no device is paired; 'holdfast web' pairs a browser")
    else:
        rows = [
            (one.id, one.name, one.person or "-", one.scope, _minute(one.created_at), _minute(one.last_used_at))
            for one in devices
        ]
        print("\n".join(table([("DEVICE", "NAME", "PERSON", "SCOPE", "PAIRED", "LAST USED"), *rows])))
    return Exit.COMPLETED


def rename(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        device = context.client.rename_device(_find(context.client.devices().items, args.device).id, args.name)
    print(json_text(device) if args.json else f"{device.id} is now {device.name!r}")
    return Exit.COMPLETED


def revoke(args: argparse.Namespace) -> int:
    if args.all == bool(args.device):
        raise CommandError("name one device, or give --all", advice="'holdfast devices' lists them", status=Exit.USAGE)
    with CommandContext() as context:
        known = context.client.devices().items
        chosen = known if args.all else (_find(known, args.device),)
        revoked = [context.client.revoke_device(device.id) for device in chosen]
    if args.json:
        print(json_text({"devices": revoked}))
    else:
        print("\n".join(f"revoked {device.id} {device.name!r}" for device in revoked) or "no device is paired")
    return Exit.COMPLETED


def _find(devices: tuple[Device, ...], name: str) -> Device:
    """The device whose id begins with ``name``."""
    exact = [device for device in devices if device.id == name]
    found = exact or [device for device in devices if device.id.startswith((name, f"dev_{name}"))]
    if len(found) == 1:
        return found[0]
    problem = f"{name!r} is the beginning of several ids" if found else f"no paired device has the id {name!r}"
    raise CommandError(problem, advice="'holdfast devices' lists them", status=Exit.FAILED)


def _minute(time: str) -> str:
    """``2026-01-02 03:04``, in UTC."""
    return time[:16].replace("T", " ")
