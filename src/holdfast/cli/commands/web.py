"""`holdfast web`: serve the web page and open it in the browser."""

from __future__ import annotations

import argparse
import os
import sys

from holdfast.cli.argument_parser import Parser, add_json_argument
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import CommandError, Exit
from holdfast.cli.formatting import json_text
from holdfast.client.server_address import address_from_env
from holdfast.errors import Unreachable
from holdfast.locations import Locations

SCOPES = ("watch", "answer", "drive", "admin")


def configure(parser: Parser) -> None:
    parser.explain(
        "Open the web page: the same sessions as in the terminal. The server serves it on this machine only, to\n"
        "browsers that were paired. The address that is printed contains a code that works once, for five minutes.",
        examples=(
            ("holdfast web", "open the page in the browser"),
            ("holdfast web --no-open", "only print the address"),
            ("holdfast web --scope watch --no-open", "for a browser that may only look"),
            ("holdfast web --stop", "serve the page no longer"),
            ("holdfast devices", "list the browsers that were paired"),
        ),
    )
    parser.add_argument("--no-open", action="store_true", help="print the address, and do not open a browser")
    parser.add_argument(
        "--scope",
        choices=SCOPES,
        default="drive",
        help="what the browser may do: watch; answer approvals and questions; drive sessions (default); "
        "admin changes settings, keys and trust too",
    )
    parser.add_argument(
        "--port", type=int, metavar="PORT", help="listen on this port; by default the last one or a free one"
    )
    parser.add_argument("--stop", action="store_true", help="serve the page no longer; paired browsers stay paired")
    add_json_argument(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if address_from_env(os.environ) is not None:
        raise CommandError(
            "HOLDFAST_SERVER is set, and that server decides itself where it serves its page",
            advice="run 'holdfast web' on its machine",
            status=Exit.USAGE,
        )
    if args.stop:
        return _stop(args)
    if not has_page():
        raise CommandError(
            "this installation has no web page", advice="install a release of Holdfast", status=Exit.CONFIGURATION
        )
    with CommandContext() as context:
        listener = context.client.listen_web(port=args.port)
        code = context.client.pairing_code(scope=args.scope)
    address = f"{listener.address}/#pair={code.code}"
    if args.json:
        print(json_text({"address": address, "listener": listener, "code": code}))
    else:
        print(address)
    if not args.no_open:
        sys.stdout.flush()
        _open_browser(address)
    return Exit.COMPLETED


def has_page() -> bool:
    from importlib.resources import files

    return files("holdfast.web").joinpath("static", "index.html").is_file()


def _stop(args: argparse.Namespace) -> int:
    try:
        with CommandContext(start=False) as context:
            view = context.client.stop_web()
    except Unreachable:
        Locations.from_env(os.environ).web_file.unlink(missing_ok=True)
        print("no server is running; the next one serves no page")
        return Exit.COMPLETED
    print(json_text(view) if args.json else "the page is not served any more; paired browsers stay paired")
    return Exit.COMPLETED


def _open_browser(address: str) -> None:
    import webbrowser

    if not webbrowser.open(address):
        print("no browser could be opened; open the address yourself", file=sys.stderr)
