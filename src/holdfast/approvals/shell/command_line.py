"""A shell line as the commands it would run, found with tree-sitter.

Everything is walked: pipes, lists, subshells, control flow, function bodies, and substitutions wherever they stand. The
grammar is not the shell, so nothing is believed that was not expected: a node, an operator or a gap that is not known
here makes the line *unclear*, and an unclear line is asked. Commands that were found in an unclear line are still
reported, so that deny rules see them.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from holdfast.approvals.shell.shell_words import Arg, Assign, not_readable
from holdfast.schema.base import Value

if TYPE_CHECKING:
    import tree_sitter


class Command(Value, frozen=True):
    """One program with its words, wrappers taken away."""

    argv: tuple[Arg, ...]
    assigns: tuple[Assign, ...] = ()
    also: tuple[tuple[Arg, ...], ...] = ()
    """Other commands it may stand for or run; only deny rules look at them."""
    dirs: tuple[Arg, ...] = ()
    """Directories it works in instead of the present one."""

    @property
    def name(self) -> str:
        return self.argv[0].text


class Redirect(Value, frozen=True):
    """A file that the shell itself opens."""

    target: Arg
    writes: bool


class Line(Value, frozen=True):
    """What a shell line does, as far as it can be told."""

    commands: tuple[Command, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    globs: tuple[Arg, ...] = ()
    """Patterns that the shell looks up for itself, outside of any command's words."""
    unclear: tuple[str, ...] = ()
    """Why it may run commands that are not in the list. Empty: it does not."""
    cautions: tuple[str, ...] = ()
    """What is understood but changes how the commands behave."""


class Shell:
    """Reads shell lines. The parser is made on first use and kept; reading is safe from several threads."""

    def __init__(self) -> None:
        self._parser: tree_sitter.Parser | None = None
        self._lock = threading.Lock()

    def read(self, line: str) -> Line:
        """The commands of a line. Never raises: what cannot be read is unclear."""
        from holdfast.approvals.shell.syntax_walk import Walk

        if problem := not_readable(line):
            return Line(unclear=(problem,))
        with self._lock:
            if self._parser is None:
                self._parser = _new_parser()
            try:
                return Walk(self._parser).line(line)
            except RecursionError:
                return Line(unclear=("the line is too deep to follow",))


def _new_parser() -> tree_sitter.Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
