"""The result of parsing a line, and the result of unwrapping a command that runs others."""

from __future__ import annotations

from typing import Final, TypeAlias

from holdfast.approvals.shell.shell_words import Arg, Assign
from holdfast.schema.base import Value

Argv: TypeAlias = tuple[Arg, ...]

UNKNOWN_WORDS: Final = Arg("…", "dynamic")
"""Further words that are known only when the command runs."""


class Command(Value, frozen=True):
    """One program with its words, without wrappers."""

    argv: Argv
    assigns: tuple[Assign, ...] = ()
    may_run: tuple[Argv, ...] = ()
    """Other commands that it may run. Only deny rules are compared with them."""
    directories: tuple[Arg, ...] = ()
    """Directories that it runs in instead of the current one."""

    @property
    def name(self) -> str:
        return self.argv[0].text


class Redirect(Value, frozen=True):
    """A file that the shell itself opens."""

    target: Arg
    writes: bool


class ParsedLine(Value, frozen=True):
    """Everything that a line is known to do."""

    commands: tuple[Command, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    wrappers: tuple[str, ...] = ()
    """Programs that run the commands and are not listed themselves, as they are named in the line."""
    globs: tuple[Arg, ...] = ()
    """Words of loops whose globs the shell expands: patterns, and words whose value is not known."""
    uncertain: tuple[str, ...] = ()
    """Variables that the line sets to values in which the shell may expand globs."""
    unclear: tuple[str, ...] = ()
    """Reasons why the line may run commands that are not listed. Empty if it does not."""
    cautions: tuple[str, ...] = ()
    """Parts that are understood but change how the commands behave."""


class InnerCommand(Value, frozen=True):
    """The wrapper has no effect of its own: only the inner command counts."""

    argv: Argv
    assigns: tuple[Assign, ...] = ()


class InnerScript(Value, frozen=True):
    """The wrapper runs this text as shell code."""

    text: str
    posix: bool = False
    """Whether the shell may be another one than bash."""
    login: bool = False
    """Whether the shell runs the start-up files of a login first."""


class CommandWithInner(Value, frozen=True):
    """The command has an effect of its own and runs other commands."""

    outer: Argv
    """The command as rules see it."""
    inners: tuple[Argv, ...] = ()
    scripts: tuple[str, ...] = ()
    directories: tuple[Arg, ...] = ()
    """Directories that it runs in instead of the current one."""
    unclear: str = ""
    """Why it may run more commands than these."""


class Runner(Value, frozen=True):
    """The command stays as it is. Any later word may be the start of the command that it runs."""

    name: str
    """The name of the program that it is, or claims to be."""


class UnknownInner(Value, frozen=True):
    """The command runs something unknown."""

    why: str


Unwrapped: TypeAlias = InnerCommand | InnerScript | CommandWithInner | Runner | UnknownInner | None
"""``None``: the command runs no other command."""
