"""The table of all commands. Imports none of them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final


class CliCommand:
    """A command. It is a plain class: others take longer to define than the whole table."""

    __slots__ = ("configure", "has_plain_arguments", "name", "summary")

    def __init__(self, name: str, configure: str, summary: str, *, has_plain_arguments: bool = False) -> None:
        self.name: Final = name
        self.configure: Final = configure
        """``module:function`` in `holdfast.cli.commands`. The function adds the command's arguments to its parser."""
        self.summary: Final = summary
        self.has_plain_arguments: Final = has_plain_arguments
        """`PlainArguments` can read its usual command lines."""

    def configure_function(self) -> Callable[[Any], None]:
        """Imports the command's module."""
        from importlib import import_module

        module, _, function = self.configure.partition(":")
        found: Callable[[Any], None] = getattr(import_module(f"holdfast.cli.commands.{module}"), function)
        return found


GROUPS: dict[str, tuple[CliCommand, ...]] = {
    "Work": (
        CliCommand("run", "run:configure", "send a prompt and print the answer", has_plain_arguments=True),
        CliCommand("attach", "attach:configure", "follow a session live and answer its questions"),
        CliCommand("web", "web:configure", "open the web page in the browser"),
        CliCommand("wait", "wait:configure", "wait until a run ends"),
        CliCommand("cancel", "cancel:configure", "cancel a run or all runs of a session"),
        CliCommand("review", "review:configure", "review changes, a commit, a branch or a pull request"),
        CliCommand("accept", "accept:configure", "carry out the plan of a run in plan mode"),
        CliCommand("compact", "compact:configure", "replace a long conversation by a summary"),
        CliCommand("queue", "queue:configure", "list, edit, move and remove queued runs"),
        CliCommand("jobs", "jobs:configure", "list, show and end background jobs"),
        CliCommand("pause", "queue:configure_pause", "pause a session's queue"),
        CliCommand("resume", "queue:configure_resume", "resume a session's queue"),
    ),
    "Look": (
        CliCommand("sessions", "sessions:configure", "list, show, rename, delete, export, search, fork"),
        CliCommand("changes", "changes:configure", "show the agent's file changes as a diff"),
        CliCommand("undo", "changes:configure_undo", "undo the file changes of the last run"),
        CliCommand("redo", "changes:configure_redo", "redo what was undone"),
        CliCommand("context", "context:configure", "show what every session begins with, and what was cut"),
        CliCommand("audit", "audit:configure", "show who changed what, and how it ended"),
        CliCommand("stats", "stats:configure", "show tokens, cost, runs and tools by day and model"),
    ),
    "Set up": (
        CliCommand("models", "models:configure", "list models and what providers need"),
        CliCommand("key", "key:configure", "list, store, test or remove API keys"),
        CliCommand("config", "config:configure", "read and change settings"),
        CliCommand("init", "init:configure", "let the agent write a first AGENTS.md"),
        CliCommand("memory", "memory:configure", "list and change what the agent should remember"),
        CliCommand("hooks", "hooks:configure", "list hooks, where they come from and what is not used"),
        CliCommand("skills", "skills:configure", "list skills and what is wrong with them"),
        CliCommand("commands", "skills:configure_commands", "list the commands that prompts call as /name"),
        CliCommand("agents", "skills:configure_agents", "list the agents and where they come from"),
        CliCommand("lsp", "lsp:configure", "list and restart language servers, and show their logs"),
        CliCommand("mcp", "mcp:configure", "list, add, remove and test MCP servers"),
        CliCommand("devices", "devices:configure", "list, rename and revoke browsers that were paired"),
        CliCommand("people", "people:configure", "who may use the server, what each may do, and where"),
        CliCommand("approvals", "approvals:configure", "list and answer approval requests"),
        CliCommand("trust", "config:configure_trust", "use this directory's own configuration"),
        CliCommand("doctor", "doctor:configure", "check the installation"),
        CliCommand("selftest", "selftest:configure", "prove the promises on this machine, in a minute"),
        CliCommand("completion", "completion:configure", "print a completion script for bash, zsh or fish"),
    ),
    "Editors": (CliCommand("acp", "acp:configure", "be the agent of an editor, on stdin and stdout"),),
    "Server": (
        CliCommand("serve", "serve:configure", "run the server in the foreground", has_plain_arguments=True),
        CliCommand("status", "server:configure_status", "show whether a server runs and what it does"),
        CliCommand("stop", "server:configure_stop", "stop the server; queued runs are kept"),
        CliCommand("fleet", "fleet:configure", "list the servers that share a database, and what each owns"),
        CliCommand("logs", "server:configure_logs", "show the server's log"),
        CliCommand("backup", "server:configure_backup", "copy the database of the running server"),
        CliCommand("restore", "restore:configure", "list backups, or put one in the place of a damaged database"),
        CliCommand("store", "store:configure", "where the sessions are; copy them to PostgreSQL or back"),
        CliCommand("gc", "gc:configure", "remove what has been kept long enough, and say what it frees"),
        CliCommand("demo", "demo:configure", "try it without a key and without a network"),
    ),
}


def all_commands() -> dict[str, CliCommand]:
    return {command.name: command for group in GROUPS.values() for command in group}


EXAMPLES = """\
examples:
  holdfast "fix the failing test"                 open the interface and send this prompt
  holdfast run "why does test_slug.py fail?"      print the answer instead
  git diff | holdfast run "review this"           add the diff to the prompt
  holdfast run --continue "now fix it"            continue the last session
  holdfast attach                                 watch it from another terminal
  holdfast demo                                   try it without a key"""


def overview() -> str:
    """The text of ``holdfast --help``."""
    lines = [
        'usage: holdfast [--debug] [-C DIR] [--continue | --session ID] ["PROMPT"]',
        "       holdfast [--debug] [-C DIR] COMMAND …",
        "",
        "A coding agent for the terminal. A local server owns the work; commands come and go.",
        "Without a command, the terminal interface opens; a quoted prompt is sent there at once. Without a terminal,",
        "the prompt is sent by 'run'.",
    ]
    for title, commands in GROUPS.items():
        lines += ["", f"{title}:"]
        lines += [f"  {command.name:<11} {command.summary}" for command in commands]
    lines += [
        *("", "options:"),
        "  --continue  open the last session of this directory",
        "  --session ID  open this session",
        "  --version   print the version",
        "  -C DIR      change to DIR first",
        "  --debug     print a traceback with errors",
        *("", EXAMPLES, "", "'holdfast COMMAND --help' shows the options and examples of a command."),
    ]
    return "\n".join(lines) + "\n"
