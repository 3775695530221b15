"""`holdfast serve`: run the server in the foreground."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

from holdfast.cli.exit_status import CommandError, Exit
from holdfast.late_modules import import_without

if TYPE_CHECKING:
    import argparse

    from holdfast.cli.argument_parser import Parser
    from holdfast.cli.plain_arguments import PlainArguments

_UNUSED_BY_ASYNCIO = ("ssl", "asyncio.sslproto", "tokenize", "textwrap", "inspect", "locale")
"""TLS loads OpenSSL when it is first used. Tracebacks need tokenize and textwrap, and starting a command locale."""


def configure(parser: Parser | PlainArguments) -> None:
    parser.explain(
        "Run the server in the foreground until it is stopped. Other commands start the server in the background when\n"
        "they need it; run it yourself to watch it or to listen on TCP. It always listens on its private Unix socket.",
        examples=(
            ("holdfast serve", "listen on the private socket"),
            (
                "holdfast serve --listen 127.0.0.1:0",
                "also listen on a free port; prints the address and the token file",
            ),
            (
                "holdfast serve --crush auto",
                "also answer the clients of Crush, such as `CRUSH_CLIENT_SERVER=1 crush`",
            ),
            ("HOLDFAST_SERVER=http://127.0.0.1:8787 HOLDFAST_TOKEN=… holdfast run …", "connect from another place"),
        ),
    )
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="also listen on TCP; clients need the token (HOLDFAST_TOKEN, or a new one)",
    )
    parser.add_argument("--token-file", metavar="FILE", help="file to read the token from, or to write a new one to")
    parser.add_argument("--allow-remote", action="store_true", help="allow --listen on addresses other than loopback")
    parser.add_argument(
        "--crush",
        metavar="ADDRESS",
        help="also answer the clients of Crush, at unix:///path or at their default socket ('auto')",
    )
    parser.add_argument("--idle-exit", action="store_true", help="exit after some time without clients and runs")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    gc.disable()  # until the server answers: what is made until then lives as long as the process
    try:
        return _serve(args)
    finally:
        gc.enable()


def _serve(args: argparse.Namespace) -> int:
    import_without("urllib.parse", "ipaddress")  # pathlib imports it, and only addresses in brackets need the other
    import_without("asyncio", *_UNUSED_BY_ASYNCIO)
    from pathlib import Path

    from holdfast.app import ListenOptions, serve_until_stopped
    from holdfast.errors import ConfigError, StoreLocked
    from holdfast.locations import Locations

    locations = Locations.from_env(os.environ)
    token = os.environ.get("HOLDFAST_TOKEN") or None
    token_file = Path(args.token_file) if args.token_file else locations.state_dir / "token"
    listen = ListenOptions(
        tcp=args.listen,
        allow_remote=args.allow_remote,
        token=None if args.token_file else token,
        token_file=token_file,
        crush=args.crush,
    )

    def ready(addresses: tuple[str, ...]) -> None:
        gc.freeze()
        gc.enable()
        for address in addresses:
            print(address)
        if args.listen and listen.token is None:
            print(f"token in {token_file}")
        sys.stdout.flush()

    try:
        stop_is_written = serve_until_stopped(
            locations, dict(os.environ), listen=listen, idle_exit=args.idle_exit, ready=ready
        )
    except ConfigError as error:
        if "option" not in error.detail:
            raise
        advice = "'holdfast serve --help' shows the usage"
        raise CommandError(error.message, advice=advice, status=Exit.USAGE) from None
    except StoreLocked as error:
        from holdfast.client.local_server import ALREADY_RUNNING  # not above: a server needs no client

        print(f"holdfast: {error.message}", file=sys.stderr)
        return ALREADY_RUNNING
    if not stop_is_written:
        print(
            "holdfast: the server stopped, but the database could not be written; the next start ends the runs that "
            "were active. Free space on the disk of the database; the log has more",
            file=sys.stderr,
        )
        return Exit.FAILED
    return Exit.COMPLETED
