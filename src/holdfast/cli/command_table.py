"""Every command once: its name, where it lives, and one line about it. Loads none of them."""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    name: str
    home: str
    """``module:function`` below this package; the function configures the command's parser."""
    summary: str


GROUPS: dict[str, tuple[Command, ...]] = {
    "Work": (
        Command("run", "run:configure", "one prompt to its end, streamed"),
        Command("attach", "attach:configure", "follow a session live, answer what it asks"),
        Command("wait", "wait:configure", "wait for a run's end"),
        Command("cancel", "cancel:configure", "cancel a run, or all that a session was asked"),
        Command("queue", "queue:configure", "show and change what is waiting"),
        Command("pause", "queue:configure_pause", "hold a session's queue"),
        Command("resume", "queue:configure_resume", "let it go on"),
    ),
    "Look": (
        Command("sessions", "sessions:configure", "list, show, rename, delete, export, search, fork"),
        Command("changes", "changes:configure", "what the agent changed, as a diff"),
        Command("undo", "changes:configure_undo", "give files back what they were before the last run"),
        Command("redo", "changes:configure_redo", "take an undo back"),
        Command("stats", "stats:configure", "tokens, cost, runs and tools, by day and model"),
    ),
    "Set up": (
        Command("models", "models:configure", "what can be used, and what is missing"),
        Command("key", "key:configure", "store or try a provider's key"),
        Command("config", "config:configure", "read and change settings"),
        Command("approvals", "approvals:configure", "what waits for your word"),
        Command("trust", "trust:configure", "let this directory's own configuration take part"),
        Command("doctor", "doctor:configure", "what is found, what is missing, what to do"),
        Command("completion", "completion:configure", "completion for bash, zsh or fish"),
    ),
    "Server": (
        Command("serve", "serve:configure", "run the server in the foreground"),
        Command("status", "server:configure_status", "whether it runs, and what it does"),
        Command("stop", "server:configure_stop", "stop it; nothing is lost"),
        Command("logs", "server:configure_logs", "what it says"),
        Command("backup", "backup:configure", "copy the database, also while it is used"),
        Command("demo", "demo:configure", "the offline tour: no key, no network"),
    ),
}


def all_commands() -> dict[str, Command]:
    return {command.name: command for group in GROUPS.values() for command in group}


EXAMPLES = """\
examples:
  holdfast run "why does test_slug.py fail?"      one prompt here, answered live
  git diff | holdfast run "review this"           what is piped is added to the prompt
  holdfast run --continue "now fix it"            go on where the last session was
  holdfast attach                                 watch it from another terminal
  holdfast demo                                   try it without a key"""


def overview() -> str:
    """The help of the command itself."""
    lines = [
        "usage: holdfast [--debug] [-C DIR] COMMAND …",
        "",
        "A coding agent for people who live in the terminal, and that loses nothing.",
    ]
    for title, commands in GROUPS.items():
        lines += ["", f"{title}:"]
        lines += [f"  {command.name:<11} {command.summary}" for command in commands]
    lines += [
        *("", "options:"),
        "  --version   the version, and nothing else",
        "  -C DIR      as if it was started in DIR",
        "  --debug     errors with all there is to know",
        *("", EXAMPLES, "", "'holdfast COMMAND --help' shows each command's options and examples."),
    ]
    return "\n".join(lines) + "\n"
