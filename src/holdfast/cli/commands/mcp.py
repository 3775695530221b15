"""`holdfast mcp`: list, add, remove, test MCP servers and show their logs."""

from __future__ import annotations

import argparse
import select
import sys
import time
from typing import Any

from holdfast.cli.argument_parser import Parser, add_json_argument, add_subcommands
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import CommandError, Exit
from holdfast.cli.formatting import json_text, table
from holdfast.cli.screen import one_line, plain
from holdfast.errors import BadRequest
from holdfast.schema.extensions import ExtensionStatus, McpServerView
from holdfast.schema.runs import MODES_BY_FREEDOM

_ADD = "'holdfast mcp add --help' shows the forms"
_LIST_SECONDS = 10.0
_SHOWN_RESOURCES = 20
_TEST_SECONDS = 120.0
_LOGIN_SECONDS = 330.0


def configure(parser: Parser) -> None:
    parser.explain(
        "List, add, remove and test servers of the Model Context Protocol, which give the agent more tools. They are\n"
        "in your config.toml as [mcp.NAME]. The .mcp.json of a trusted project is used as well.",
        examples=(
            ("holdfast mcp", "list the servers, their states and where they are configured"),
            ("holdfast mcp add docs -- npx -y @example/docs-mcp", "a command to start"),
            ("holdfast mcp add tracker https://mcp.example.org/mcp", "an address to connect to"),
            ("holdfast mcp add --env TOKEN=env:MY_TOKEN docs -- docs-mcp", "with a variable of yours"),
            ("holdfast mcp test docs", "start it again and list its tools"),
            ("holdfast mcp login tracker", "log in with a browser, here or on another machine"),
            ("holdfast mcp logs docs", "show what it wrote and why it failed"),
            ("holdfast mcp serve", "the command of Holdfast as an MCP server, for other agents"),
            ("holdfast mcp serve --max-mode accept_edits", "the same; they may let it edit files without asking you"),
            ("holdfast mcp remove docs", "remove it from config.toml"),
        ),
    )
    add = add_subcommands(parser, default="list")
    listed = add("list", "list the servers and their states")
    listed.set_defaults(run=show)
    added = add("add", "add a server to your config.toml")
    added.add_argument("name", metavar="NAME")
    added.add_argument("target", nargs="+", metavar="COMMAND|URL", help="program and arguments after --, or an address")
    added.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="a variable; env:NAME is yours")
    added.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="sent with each request")
    added.add_argument("--transport", choices=("http", "sse"), help="how to talk to an address; both are tried")
    added.set_defaults(run=add_server)
    removed = add("remove", "remove a server from your config.toml")
    removed.set_defaults(run=remove)
    tried = add("test", "start a server again, wait until it is ready, and list its tools")
    tried.set_defaults(run=test)
    login = add("login", "log in to a server with a browser; its tokens are kept with your keys")
    login.add_argument("--answer", metavar="URL", help="finish a login: the address that the browser shows at the end")
    login.set_defaults(run=log_in)
    logout = add("logout", "forget the login to a server")
    logout.set_defaults(run=log_out)
    logs = add("logs", "show what a server wrote to stderr and what happened to its connection")
    logs.set_defaults(run=show_logs)
    offered = add("serve", "offer Holdfast to other agents as an MCP server, on stdin and stdout")
    offered.add_argument(
        "--max-mode",
        choices=MODES_BY_FREEDOM,
        default="ask",
        help="the freest mode that the other agent may choose; 'ask', the default, denies what needs approval",
    )
    offered.set_defaults(run=serve)
    for each in (removed, tried, login, logout, logs):
        each.add_argument("name", metavar="NAME")
    for each in (listed, added, removed, tried, login, logout, logs):
        add_json_argument(each)


def show(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        found = context.client.extensions(context.workspace.id, wait=_LIST_SECONDS).items
    servers = [status for status in found if status.kind == "mcp"]
    if args.json:
        print(json_text({"servers": servers}))
    elif not servers:
        print("no MCP server is configured; 'holdfast mcp add' adds one")
    else:
        rows = [(one.name, one.state.replace("_", " "), one_line(one.detail), one.source) for one in servers]
        print("\n".join(table([("SERVER", "STATE", "DETAIL", "CONFIGURED IN"), *rows])))
    return Exit.COMPLETED


def add_server(args: argparse.Namespace) -> int:
    changes = server_settings(args.name, args.target, env=args.env, headers=args.header, transport=args.transport)
    with CommandContext() as context:
        if args.name in context.client.config(context.workspace.id).values.get("mcp", {}):
            advice = f"'holdfast mcp remove {args.name}' removes it first"
            raise CommandError(f"there is a server {args.name!r} already", advice=advice, status=Exit.USAGE)
        context.client.change_config(context.workspace.id, changes)
    print(json_text({"added": args.name}) if args.json else f"added; 'holdfast mcp test {args.name}' tests it")
    return Exit.COMPLETED


def server_settings(
    name: str, target: list[str], *, env: list[str], headers: list[str], transport: str | None
) -> dict[str, Any]:
    """The changes of the configuration that add a server, by dotted key. Pure."""
    is_url = len(target) == 1 and target[0].startswith(("http://", "https://"))
    if is_url and env:
        raise CommandError("--env is for a command, and this is an address", advice=_ADD, status=Exit.USAGE)
    if not is_url and (headers or transport):
        raise CommandError("--header and --transport are for an address", advice=_ADD, status=Exit.USAGE)
    table: dict[str, Any] = {"url": target[0]} if is_url else {"command": target}
    for key, pairs in (("env", env), ("headers", headers)):
        if pairs:
            table[key] = dict(_pair(pair) for pair in pairs)
    if transport:
        table["transport"] = transport
    return {f'mcp."{name}"' if "." in name else f"mcp.{name}": table}


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise CommandError(f"{text!r} is not NAME=VALUE", advice=_ADD, status=Exit.USAGE)
    return name, value


def remove(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        context.client.mcp_server(context.workspace.id, args.name)
        key = f'mcp."{args.name}"' if "." in args.name else f"mcp.{args.name}"
        left = context.client.change_config(context.workspace.id, {key: None}).values.get("mcp", {})
    if args.name in left:
        message = f"{args.name!r} is not in your config.toml but in a file of the project"
        raise CommandError(message, advice="remove it there", status=Exit.FAILED)
    print(json_text({"removed": args.name}) if args.json else "removed")
    return Exit.COMPLETED


def test(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        found = context.client.restart_mcp_server(context.workspace.id, args.name, wait=_TEST_SECONDS)
    if args.json:
        print(json_text(found))
    else:
        _print(found)
    return Exit.COMPLETED if found.status.state == "ready" else Exit.FAILED


def _print(found: McpServerView) -> None:
    status = found.status
    if status.state != "ready":
        print(f"{status.name}: {_described(status)}", file=sys.stderr)
        for line in found.log[-10:]:
            print(f"  {plain(line)}", file=sys.stderr)
        return
    print(f"{status.name}: {_described(status)}")
    for tool in found.tools:
        hint = " (reads only, says the server)" if tool.read_only else ""
        print(f"  {tool.name}{hint}  {one_line(tool.description)}")
    for prompt in found.prompts:
        print(f"  /{status.name}:{one_line(prompt)}")
    for resource in found.resources[:_SHOWN_RESOURCES]:
        print(f"  @{status.name}:{one_line(resource)}")
    if len(found.resources) > _SHOWN_RESOURCES:
        print(f"  … and {len(found.resources) - _SHOWN_RESOURCES} more resources")


def _described(status: ExtensionStatus) -> str:
    state = status.state.replace("_", " ")
    return one_line(f"{state}, {status.detail}" if status.detail else state)


def log_in(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        if args.answer is not None:
            found = context.client.finish_mcp_login(context.workspace.id, args.name, args.answer)
        else:
            begun = context.client.log_in_to_mcp_server(context.workspace.id, args.name)
            if begun.url:
                print(f"open this address in a browser:\n\n  {begun.url}\n", file=sys.stderr)
            found = _wait_for_login(context, args.name)
    if args.json:
        print(json_text(found))
    else:
        _print(found)
    return Exit.COMPLETED if found.status.state == "ready" else Exit.FAILED


def _wait_for_login(context: CommandContext, name: str) -> McpServerView:
    """Wait until the login is finished, in a browser on this machine or by an address that is pasted here."""
    workspace_id, client = context.workspace.id, context.client
    until = time.monotonic() + _LOGIN_SECONDS
    can_paste = sys.stdin.isatty()
    found = client.mcp_server(workspace_id, name)
    if can_paste and found.status.state == "starting":
        print("if it cannot reach this machine, paste the address that it shows at the end here:", file=sys.stderr)
    while found.status.state == "starting" and time.monotonic() < until:
        found = client.mcp_server(workspace_id, name, wait=1.0 if can_paste else _LOGIN_SECONDS)
        if not can_paste or found.status.state != "starting" or not select.select([sys.stdin], [], [], 0)[0]:
            continue
        pasted = sys.stdin.readline()
        can_paste = bool(pasted)
        if pasted.strip():
            try:
                found = client.finish_mcp_login(workspace_id, name, pasted.strip())
            except BadRequest as error:
                print(one_line(error.message), file=sys.stderr)
    return found


def log_out(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        found = context.client.log_out_of_mcp_server(context.workspace.id, args.name)
    print(json_text(found) if args.json else "logged out")
    return Exit.COMPLETED


def serve(args: argparse.Namespace) -> int:
    import os

    from holdfast.cli.mcp_offer import make_server

    make_server(os.getcwd(), max_mode=args.max_mode).run("stdio")
    return Exit.COMPLETED


def show_logs(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        found = context.client.mcp_server(context.workspace.id, args.name)
    if args.json:
        print(json_text({"log": found.log}))
    else:
        print("\n".join(plain(line) for line in found.log) or "the log is empty")
    return Exit.COMPLETED
