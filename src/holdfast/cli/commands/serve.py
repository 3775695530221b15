"""`holdfast serve`: the server in the foreground. The only command besides `demo` that loads it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from holdfast.cli.argument_parser import Parser
from holdfast.cli.error_messages import Problem
from holdfast.cli.exit_status import Exit
from holdfast.locations import Locations

ALREADY_RUNNING = 75
"""Another server owns the database (`EX_TEMPFAIL`): whoever started this one uses that one."""


def configure(parser: Parser) -> None:
    parser.explain(
        "Run the server until it is stopped. Other commands start it by themselves when they need it; do it by hand\n"
        "to watch it, or to listen on an address. It always listens on its own private socket as well.",
        examples=(
            ("holdfast serve", "on the private socket"),
            ("holdfast serve --listen 127.0.0.1:0", "also on a free port; prints the address and the token's file"),
            ("HOLDFAST_SERVER=http://127.0.0.1:8787 HOLDFAST_TOKEN=… holdfast run …", "use it from elsewhere"),
        ),
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="also here; needs a token (HOLDFAST_TOKEN, or a new one)")
    parser.add_argument("--token-file", metavar="FILE", help="where the token is, or is written to")
    parser.add_argument("--allow-remote", action="store_true", help="let --listen be reached from other machines")
    parser.add_argument("--idle-exit", action="store_true", help="leave when nobody has wanted anything for a while")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from holdfast.app import Listening, serve_until_stopped
    from holdfast.errors import ConfigError, StoreLocked

    locations = Locations.from_env(os.environ)
    token = os.environ.get("HOLDFAST_TOKEN") or None
    token_file = Path(args.token_file) if args.token_file else locations.state_dir / "token"
    listening = Listening(
        tcp=args.listen,
        allow_remote=args.allow_remote,
        token=None if args.token_file else token,
        token_file=token_file,
    )

    def ready(addresses: tuple[str, ...]) -> None:
        for address in addresses:
            print(address)
        if args.listen and listening.token is None:
            print(f"token in {token_file}")
        sys.stdout.flush()

    try:
        serve_until_stopped(locations, dict(os.environ), listening=listening, idle_exit=args.idle_exit, ready=ready)
    except ConfigError as error:
        if "option" not in error.detail:
            raise
        advice = "'holdfast serve --help' shows how it is used"
        raise Problem(error.message, advice=advice, status=Exit.USAGE) from None
    except StoreLocked as error:
        print(f"holdfast: {error.message}", file=sys.stderr)
        return ALREADY_RUNNING
    return Exit.COMPLETED
