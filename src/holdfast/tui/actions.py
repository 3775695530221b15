"""The table of everything that a key can do. Pure.

Key bindings, hints, help, the command palette and the tables in docs/tui.md are made from it. ``[tui] keys`` in the
configuration replaces the keys of an action by its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from holdfast.schema.base import Value

Scope = Literal[
    "everywhere", "composer", "transcript", "queue", "answer", "picker", "sessions", "models", "changes", "jobs"
]
"""The focus in which an action's keys work."""

SCOPE_TITLES: dict[Scope, str] = {
    "everywhere": "Everywhere",
    "composer": "While you write",
    "transcript": "In the transcript",
    "queue": "In the list of queued prompts",
    "answer": "When Holdfast asks you",
    "picker": "In a list that you filter",
    "sessions": "In the list of sessions",
    "models": "In the list of models",
    "changes": "In the list of changes",
    "jobs": "In the list of jobs",
}


class UserAction(Value, frozen=True):
    """One row of the table."""

    name: str
    scope: Scope
    keys: str
    """Comma-separated, as Textual names them."""
    does: str
    """What it does, in a few words that start with a verb."""
    command: str = ""
    """The slash command that does the same, without the slash."""
    hint: str = ""
    """A shorter text for the status line."""

    @property
    def first_key(self) -> str:
        return self.keys.partition(",")[0]


ACTIONS: tuple[UserAction, ...] = (
    UserAction("cancel", "everywhere", "escape", "Cancel the active run; again: drop the held queue", hint="cancel"),
    UserAction("help", "everywhere", "f1,ctrl+underscore", "Show all keys and commands", command="help", hint="keys"),
    UserAction("commands", "everywhere", "ctrl+p", "Find any command"),
    UserAction("sessions", "everywhere", "ctrl+s", "Switch to another session", command="sessions"),
    UserAction("new_session", "everywhere", "ctrl+n", "Start a new session", command="new"),
    UserAction("models", "everywhere", "ctrl+o", "Choose the model", command="model"),
    UserAction("cycle_mode", "everywhere", "shift+tab", "Switch between ask, accept edits, plan and auto"),
    UserAction("changes", "everywhere", "ctrl+r", "Show the changed files, undo or redo", command="changes"),
    UserAction("details", "everywhere", "ctrl+b", "Show or hide the details", command="details"),
    UserAction("jobs", "everywhere", "f2", "Show the background jobs and their output, or kill one", command="jobs"),
    UserAction(
        "extensions", "everywhere", "f3", "Show MCP and language servers, hooks and skills", command="extensions"
    ),
    UserAction(
        "continue_run", "everywhere", "f6", "Continue the run that was cut off", command="continue", hint="continue"
    ),
    UserAction("retry", "everywhere", "f7", "Send the prompt of that run again", command="retry", hint="send again"),
    UserAction(
        *("undo_and_retry", "everywhere", "f8", "Undo the changes of that run and send its prompt again"),
        command="undo-and-retry",
        hint="undo and send again",
    ),
    UserAction("focus_transcript", "everywhere", "ctrl+t", "Move between the transcript and the prompt"),
    UserAction("focus_queue", "everywhere", "ctrl+l", "Edit the queued prompts", command="queue"),
    UserAction("suspend", "everywhere", "ctrl+z", "Suspend Holdfast; 'fg' continues"),
    UserAction("interrupt", "everywhere", "ctrl+c", "Copy the selection, else clear the prompt; twice: leave"),
    UserAction("leave", "everywhere", "ctrl+q", "Leave; the work goes on", command="quit"),
    UserAction("send", "composer", "enter", "Send the prompt; while a run is active, queue it", hint="send"),
    UserAction("steer", "composer", "tab,ctrl+enter", "Send the prompt into the active run", hint="steer"),
    UserAction("newline", "composer", "ctrl+j,shift+enter", "Start a new line"),
    UserAction("history_older", "composer", "ctrl+up", "Take the previous prompt; also: up in the first line"),
    UserAction("history_newer", "composer", "ctrl+down", "Take the next prompt; also: down in the last line"),
    UserAction("edit_externally", "composer", "ctrl+g", "Write the prompt in your editor", command="editor"),
    UserAction("drop_attachment", "composer", "ctrl+backspace", "Remove the last attachment"),
    UserAction("block_next", "transcript", "j,ctrl+down", "Go to the next block"),
    UserAction("block_previous", "transcript", "k,ctrl+up", "Go to the previous block"),
    UserAction("block_toggle", "transcript", "space,enter", "Open or fold the block", hint="unfold"),
    UserAction("prompt_next", "transcript", "right_square_bracket", "Go to the next prompt"),
    UserAction("prompt_previous", "transcript", "left_square_bracket", "Go to the previous prompt"),
    UserAction("search", "transcript", "slash", "Search", hint="search"),
    UserAction("match_next", "transcript", "n", "Go to the next match"),
    UserAction("match_previous", "transcript", "N", "Go to the previous match"),
    UserAction("copy_block", "transcript", "c,y", "Copy the block or the selection", hint="copy"),
    UserAction("select_down", "transcript", "shift+down", "Extend the selection down"),
    UserAction("select_up", "transcript", "shift+up", "Extend the selection up"),
    UserAction("enter_subagent", "transcript", "right", "Show the sub-agent's own session"),
    UserAction("leave_subagent", "transcript", "left", "Go back to the session that started the sub-agent"),
    UserAction("open_target", "transcript", "o", "Open the first file place or link of the block", hint="open"),
    UserAction("follow_end", "transcript", "end,G", "Go to the end and follow it", hint="follow"),
    UserAction("queue_edit", "queue", "e,enter", "Take the prompt back into the composer", hint="edit"),
    UserAction("queue_up", "queue", "K,shift+up", "Move it up", hint="up"),
    UserAction("queue_down", "queue", "J,shift+down", "Move it down", hint="down"),
    UserAction("queue_remove", "queue", "x,delete", "Remove it", hint="remove"),
    UserAction("queue_pause", "queue", "p", "Pause or resume the queue", hint="pause"),
    UserAction("queue_cancel_all", "queue", "D", "Cancel the active run and every queued prompt", hint="cancel all"),
    UserAction("allow_once", "answer", "y", "Allow it once", hint="once"),
    UserAction("allow_session", "answer", "s", "Allow it for this session", hint="session"),
    UserAction("allow_always", "answer", "a", "Allow it always in this project, by the rule shown", hint="always"),
    UserAction("allow_everywhere", "answer", "A", "Allow it always in all projects, by the rule shown"),
    UserAction("edit_rule", "answer", "e", "Edit the rule that 'always' saves", hint="edit rule"),
    UserAction("deny", "answer", "n", "Deny it, and say why", hint="no"),
    UserAction("accept_choice", "picker", "enter", "Choose it", hint="open"),
    UserAction("session_rename", "sessions", "ctrl+e", "Rename it", hint="rename"),
    UserAction("session_fork", "sessions", "ctrl+f", "Fork it", hint="fork"),
    UserAction("session_archive", "sessions", "ctrl+x", "Archive it; again: restore it", hint="archive"),
    UserAction("session_delete", "sessions", "ctrl+d", "Delete it, after you confirm", hint="delete"),
    UserAction("session_content", "sessions", "ctrl+w", "Search in the content of sessions", hint="search content"),
    UserAction("model_default", "models", "ctrl+d", "Use it for new sessions too", hint="default"),
    UserAction("model_small", "models", "ctrl+t", "Use it for titles, summaries and pages", hint="small model"),
    UserAction("model_effort", "models", "ctrl+e", "Choose how hard it thinks", hint="effort"),
    UserAction("model_key", "models", "ctrl+k", "Add or replace the key of its provider", hint="key"),
    UserAction("undo", "changes", "u", "Undo the last run's changes", command="undo", hint="undo"),
    UserAction("redo", "changes", "r", "Redo what was undone", command="redo", hint="redo"),
    UserAction("job_kill", "jobs", "x,delete", "Kill it with all its processes, after you confirm", hint="kill"),
)

COMMANDS: tuple[tuple[str, str], ...] = (
    ("compact", "Replace the past messages by a summary: /compact keep the test commands"),
    ("accept", "Carry out the plan that a prompt in plan mode ended with; a note may follow"),
    ("review", "Review the uncommitted changes, or: /review commit HEAD, /review branch main"),
    ("init", "Let the agent write or improve AGENTS.md: /init mention that we release on Fridays"),
    ("remember", "Remember something for this project: /remember the tests need a database"),
    ("rewind", "Go back to an earlier prompt"),
    ("fork", "Continue in a copy of this session"),
    ("rename", "Rename this session: /rename NAME"),
    ("agent", "Choose an agent for this session: /agent explore, /agent main for none"),
    ("mode", "Choose when to ask: /mode ask, accept_edits, plan or auto"),
    ("effort", "Choose how hard the model thinks: /effort high"),
    ("theme", "Choose the colours"),
    ("key", "Set up a provider or change its key"),
    ("trust", "Trust this directory, so that its configuration takes effect"),
    ("pause", "Pause the queue; the active run continues"),
    ("resume", "Resume the queue"),
    ("export", "Write this session to a Markdown file"),
    ("clear", "Start a new session"),
)
"""Slash commands that have no key."""

_BY_NAME = {action.name: action for action in ACTIONS}


def action_named(name: str) -> UserAction:
    return _BY_NAME[name]


def actions_in(scope: Scope) -> tuple[UserAction, ...]:
    return tuple(action for action in ACTIONS if action.scope == scope)


def slash_commands() -> tuple[tuple[str, str], ...]:
    """Every built-in slash command with what it does, sorted."""
    with_keys = ((action.command, action.does) for action in ACTIONS if action.command)
    return tuple(sorted((*with_keys, *COMMANDS)))


def check_keys(configured: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The configured keys that name an action, and a message for each one that does not."""
    known = {name: keys for name, keys in configured.items() if name in _BY_NAME and keys.strip()}
    wrong = [name for name in configured if name not in known]
    return known, [f"tui.keys.{name}: there is no action {name!r}; /help lists the actions" for name in sorted(wrong)]


def shown_key(keys: str) -> str:
    """The first of the keys, as people write it."""
    key = keys.partition(",")[0].strip()
    return {
        "ctrl+underscore": "ctrl+_",
        "escape": "esc",
        "question_mark": "?",
        "slash": "/",
        "left_square_bracket": "[",
        "right_square_bracket": "]",
    }.get(key, key)


def key_table(scopes: Iterable[Scope] = tuple(SCOPE_TITLES)) -> str:
    """The Markdown tables of docs/tui.md."""
    parts = []
    for scope in scopes:
        rows = [f"| {_all_keys(action.keys)} | {action.does} | `{action.name}` |" for action in actions_in(scope)]
        parts.append("\n".join((f"### {SCOPE_TITLES[scope]}", "", "| key | does | name |", "|---|---|---|", *rows)))
    rows = [f"| `/{name}` | {does} |" for name, does in slash_commands()]
    parts.append("\n".join(("### Commands", "", "| command | does |", "|---|---|", *rows)))
    return "\n\n".join(parts)


def _all_keys(keys: str) -> str:
    return ", ".join(f"`{shown_key(key)}`" for key in keys.split(","))
