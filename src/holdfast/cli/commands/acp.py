"""`holdfast acp`: the agent of an editor."""

from __future__ import annotations

import argparse
import os

from holdfast.cli.argument_parser import Parser
from holdfast.cli.exit_status import Exit


def configure(parser: Parser) -> None:
    parser.explain(
        "Speak the Agent Client Protocol on stdin and stdout, so that editors use Holdfast as their agent: Zed,\n"
        "JetBrains IDEs, Neovim, Emacs, Toad. An editor starts this command; docs/acp.md says how to set each one up.\n"
        'In Zed\'s settings: "agent_servers": {"Holdfast": {"command": "holdfast", "args": ["acp"]}}\n'
        "Its sessions are the same as in the terminal: they go on when the editor is closed, and 'holdfast attach'\n"
        "and 'holdfast' show them. Changes that are not saved in the editor are read and never overwritten; the\n"
        "settings acp.files, acp.write_files and acp.terminals say what else is used of the editor.\n"
        "It needs the library: pip install 'holdfast[acp]'.",
        examples=(
            ("holdfast acp", "what an editor starts; it waits for messages"),
            ("holdfast acp --setup", "choose a provider and store its key, in a terminal"),
            ("holdfast key set anthropic", "the same for one provider"),
            ("holdfast config set acp.write_files true", "edit files through the editor, with its unsaved text"),
        ),
    )
    parser.add_argument("--setup", action="store_true", help="set up a provider in this terminal instead")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.setup:
        from holdfast.tui.open_tui import open_tui

        return open_tui()
    from holdfast.acp.open_acp import open_acp

    open_acp(dict(os.environ))
    return Exit.COMPLETED
