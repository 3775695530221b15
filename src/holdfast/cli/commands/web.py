"""`holdfast web`: serve the web page on this machine, or share it on the network, and open it in the browser."""

from __future__ import annotations

import argparse
import ipaddress
import os
import sys

from holdfast.cli.argument_parser import Parser, add_json_argument
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import CommandError, Exit
from holdfast.cli.formatting import json_text
from holdfast.cli.screen import can_show, is_terminal
from holdfast.client.server_address import address_from_env
from holdfast.errors import Unreachable
from holdfast.locations import Locations
from holdfast.schema.api.response_bodies import PairingCodeView, WebListenerView

SCOPES = ("watch", "answer", "drive", "admin")


def configure(parser: Parser) -> None:
    parser.explain(
        "Open the web page: the same sessions as in the terminal. The server serves it on this machine only, to\n"
        "browsers that were paired. The address that is printed contains a code that works once, for five minutes.\n"
        "With --share, other machines reach it too, over TLS.",
        examples=(
            ("holdfast web", "open the page in the browser"),
            ("holdfast web --no-open", "only print the address"),
            ("holdfast web --share", "for your phone: asks first, then prints a QR code"),
            ("holdfast web --share --scope answer", "a phone that may look and answer, but not prompt"),
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
        "--person", metavar="NAME", help="the browser belongs to this person, and may do no more ('holdfast people')"
    )
    parser.add_argument(
        "--listen",
        type=host_and_port,
        metavar="HOST:PORT",
        help="listen at this address of this machine; by default 127.0.0.1, with --share the address in the network, "
        "and the last port or a free one",
    )
    parser.add_argument(
        "--share", action="store_true", help="let other machines of the network reach the page, over TLS"
    )
    parser.add_argument("--yes", action="store_true", help="share without asking")
    parser.add_argument("--certificate", metavar="FILE", help="with --share: a certificate of yours, as PEM")
    parser.add_argument("--key", metavar="FILE", help="with --certificate: its key, as PEM without a password")
    parser.add_argument("--stop", action="store_true", help="serve the page no longer; paired browsers stay paired")
    add_json_argument(parser)
    parser.set_defaults(run=run)


def host_and_port(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise ValueError
        return str(ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)), int(port)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an IP address and a port; write 127.0.0.1:8080, or port 0 for a free one"
        ) from None


def run(args: argparse.Namespace) -> int:
    _check_options(args)
    if args.stop:
        return _stop(args)
    if not has_page():
        raise CommandError(
            "this installation has no web page", advice="install a release of Holdfast", status=Exit.CONFIGURATION
        )
    return _share(args) if args.share else _open_here(args)


def _check_options(args: argparse.Namespace) -> None:
    if address_from_env(os.environ) is not None:
        raise CommandError(
            "HOLDFAST_SERVER is set, and that server decides itself where it serves its page",
            advice="run 'holdfast web' on its machine",
            status=Exit.USAGE,
        )
    if bool(args.certificate) != bool(args.key) or (args.certificate and not args.share):
        raise CommandError(
            "--certificate and --key belong together, with --share",
            advice="'holdfast web --help' shows the usage",
            status=Exit.USAGE,
        )
    if args.listen and not args.share and not ipaddress.ip_address(args.listen[0]).is_loopback:
        raise CommandError(
            f"{args.listen[0]} can be reached from other machines",
            advice="add --share to let them, over TLS",
            status=Exit.USAGE,
        )


def has_page() -> bool:
    from importlib.resources import files

    return files("holdfast.web").joinpath("static", "index.html").is_file()


def _open_here(args: argparse.Namespace) -> int:
    host, port = args.listen or (None, None)
    with CommandContext() as context:
        listener = context.client.listen_web(host=host, port=port)
        code = context.client.pairing_code(scope=args.scope, person=args.person)
    address = f"{listener.address}/#pair={code.code}"
    if args.json:
        print(json_text({"address": address, "listener": listener, "code": code}))
    else:
        print(address)
    if not args.no_open:
        sys.stdout.flush()
        _open_browser(address)
    return Exit.COMPLETED


def _share(args: argparse.Namespace) -> int:
    from holdfast.cli.web_certificate import given_certificate, own_certificate, primary_address, require_cryptography

    require_cryptography()
    host, port = args.listen or (primary_address(), 0)
    shown = primary_address() if ipaddress.ip_address(host).is_unspecified else host
    _confirm(args, shown)
    if args.certificate:
        certificate = given_certificate(args.certificate, args.key)
    else:
        certificate = own_certificate(Locations.from_env(os.environ).state_dir, shown)
    with CommandContext() as context:
        listener = context.client.listen_web(
            host=host, port=port, certificate=certificate.certificate, key=certificate.key, names=certificate.names
        )
        code = context.client.pairing_code(scope=args.scope, person=args.person)
    if args.certificate and certificate.names:
        shown = certificate.names[0]
    bracketed = f"[{shown}]" if ":" in shown else shown
    address = f"https://{bracketed}:{listener.address.rpartition(':')[2]}/#pair={code.code}"
    if args.json:
        print(json_text({"address": address, "listener": listener, "code": code}))
    else:
        _print_shared(address, listener, code, is_own=not args.certificate)
    return Exit.COMPLETED


def _confirm(args: argparse.Namespace, address: str) -> None:
    """Say what sharing means, and ask."""
    meaning = (
        f"This lets every machine that reaches {address} see the page's address, until 'holdfast web --stop'.\n"
        "Only browsers that you pair get in. A browser that may 'drive' can run commands as you. The server\n"
        "stays up while it is shared."
    )
    if args.yes:
        return
    if not is_terminal(sys.stdin):
        raise CommandError("sharing needs your consent", advice="add --yes to give it", status=Exit.USAGE)
    print(meaning, file=sys.stderr)
    print("Share it? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was shared", advice="'holdfast web' serves this machine only", status=Exit.FAILED)


def _print_shared(address: str, listener: WebListenerView, code: PairingCodeView, *, is_own: bool) -> None:
    from holdfast.cli.qr_code import qr_lines

    print(address)
    lines = qr_lines(address) if is_terminal(sys.stdout) and can_show(sys.stdout, "▀") else None
    if lines is not None:
        print("\n" + "\n".join(lines) + "\n")
    elif is_terminal(sys.stdout):
        print("(pip install 'holdfast[web]' adds a QR code)")
    print(f"certificate SHA-256 {listener.fingerprint}")
    if is_own:
        print("The browser will warn, because the certificate was made here: compare this fingerprint, then go on.")
    print(
        f"The code is for one browser (scope {code.scope}), for five minutes. 'holdfast web --stop' ends the sharing."
    )


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
