"""`holdfast skills`, `commands` and `agents`: the files of these kinds, and what is wrong with them."""

from __future__ import annotations

import argparse
import os

from holdfast.cli.argument_parser import Parser, add_json_argument
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import Exit
from holdfast.cli.formatting import json_text, table
from holdfast.cli.screen import one_line, plain
from holdfast.schema.extensions import ExtensionKind, ExtensionStatus

_SHOWN = 90
_SERVER_SECONDS = 10.0


def configure(parser: Parser) -> None:
    parser.explain(
        "List the skills of this directory and your own: folders with a SKILL.md, which the agent loads when a task\n"
        "calls for them. They are read from .holdfast/skills, .agents/skills, .claude/skills and .cursor/skills of\n"
        "the project, from ~/.agents/skills and ~/.claude/skills, and from Holdfast's configuration directory.",
        examples=(
            ("holdfast skills", "what is there, and what is wrong with it"),
            ("holdfast skills --json", "for a script"),
        ),
    )
    _add(parser, "skill")


def configure_commands(parser: Parser) -> None:
    parser.explain(
        "List the commands that you can call as /name in a prompt: Markdown files of this directory and your own.\n"
        "They are read from the folder 'commands' in .holdfast, .claude, .opencode and .crush of the project, from\n"
        "those of these agents in your home directory, and from Holdfast's configuration directory. Prompts of MCP\n"
        "servers are commands as well. Skills can be called, too.",
        examples=(
            ("holdfast commands", "what is there, and what is wrong with it"),
            ("holdfast run /fix-issue 123", "call one"),
        ),
    )
    _add(parser, "command")


def configure_agents(parser: Parser) -> None:
    parser.explain(
        "List the agents, with where each comes from: built in, your configuration, or a file. The agent tool starts\n"
        "them as sub-agents, and you can choose one for a session. Files are read from the folder 'agents' in\n"
        ".holdfast, .claude and .opencode of the project, from those of these agents in your home directory, and\n"
        "from Holdfast's configuration directory.",
        examples=(
            ("holdfast agents", "what is there, and what is wrong with it"),
            ("holdfast run --agent explore …", "choose one for a session"),
        ),
    )
    add_json_argument(parser)
    parser.set_defaults(run=show_agents)


def _add(parser: Parser, kind: ExtensionKind) -> None:
    add_json_argument(parser)
    parser.set_defaults(run=show, kind=kind)


def show(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        listed = context.client.extensions(context.workspace.id).items
        found = [status for status in listed if status.kind == args.kind]
        if args.kind == "command" and any(status.kind == "mcp" for status in listed):
            found += _prompts_of_servers(context)
    if args.json:
        print(json_text(found))
        return Exit.COMPLETED
    if not found:
        print(f"there are no {args.kind}s; docs/extensions.md says where they are read from")
        return Exit.COMPLETED
    print("\n".join(table([("NAME", "STATE", "WHAT", "FILE"), *map(_row, found)])))
    return Exit.COMPLETED


def _prompts_of_servers(context: CommandContext) -> list[ExtensionStatus]:
    """The prompts of MCP servers, which are commands. Waits a moment for servers that are starting."""
    context.client.extensions(context.workspace.id, wait=_SERVER_SECONDS)
    return [
        ExtensionStatus("command", one.name, "ready", one.description, f"MCP server {one.source}")
        for one in context.client.commands(context.workspace.id).items
        if one.kind == "mcp"
    ]


def show_agents(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        found = context.client.agents(context.workspace.id).items
    if args.json:
        print(json_text(found))
    else:
        rows = [(agent.name, agent.state, agent.problem or agent.description, agent.source) for agent in found]
        print("\n".join(table([("NAME", "STATE", "WHAT", "FROM"), *(_cells(*row) for row in rows)])))
    return Exit.COMPLETED


def _row(status: ExtensionStatus) -> tuple[str, str, str, str]:
    return _cells(status.name, status.state, status.detail, status.source)


def _cells(name: str, state: str, what: str, source: str) -> tuple[str, str, str, str]:
    home = os.path.expanduser("~")
    shown = f"~{source[len(home) :]}" if source.startswith(f"{home}/") else source
    return plain(name), state, one_line(what, most=_SHOWN), plain(shown)
