"""What a command that runs other commands comes down to."""

from __future__ import annotations

from typing import Final, TypeAlias

from holdfast.approvals.shell.shell_words import Arg, Assign
from holdfast.schema.base import Value

Argv: TypeAlias = tuple[Arg, ...]


class Through(Value, frozen=True):
    """Only the inner command counts."""

    argv: Argv
    assigns: tuple[Assign, ...] = ()


class Script(Value, frozen=True):
    """Shell text that is run as a line of its own."""

    text: str


class Branch(Value, frozen=True):
    """The command itself, as rules shall see it, and others that it runs."""

    outer: Argv
    inners: tuple[Argv, ...] = ()
    scripts: tuple[str, ...] = ()
    dirs: tuple[Arg, ...] = ()
    """Directories it works in instead of the present one."""
    unclear: str = ""
    """Why it may run yet others."""


class Runner(Value, frozen=True):
    """The command as it is; any later word might start what it runs."""


class Opaque(Value, frozen=True):
    """Runs something that cannot be told."""

    why: str


Peel: TypeAlias = Through | Script | Branch | Runner | Opaque | None

MORE: Final = Arg("…", "dynamic")
"""Words that are only known when it runs."""
