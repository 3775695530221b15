"""Reads and decides for one workspace; the one thing the turn asks before a tool runs."""

from __future__ import annotations

import asyncio

from holdfast.approvals.decision import Verdict, decide
from holdfast.approvals.path_location import Places
from holdfast.approvals.rules import Rules
from holdfast.approvals.shell.command_line import Shell
from holdfast.schema.approvals import Subject
from holdfast.schema.runs import Mode


class Approver:
    """Decides about calls in one workspace. Keeps nothing between calls but the parser."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._real: Places | None = None
        self._shell = Shell()

    async def consider(
        self, subject: Subject, *, mode: Mode, rules: Rules, trusted: bool = True, interactive: bool = True
    ) -> Verdict:
        """Decide about a call, in a thread: symlinks are followed, and a long line takes time to read."""
        return await asyncio.to_thread(
            self.decide, subject, mode=mode, rules=rules, trusted=trusted, interactive=interactive
        )

    def decide(
        self, subject: Subject, *, mode: Mode, rules: Rules, trusted: bool = True, interactive: bool = True
    ) -> Verdict:
        """The same in the caller's thread."""
        places = self._real = self._real or self._places.real()
        line = self._shell.read(subject.command) if subject.command is not None else None
        return decide(
            subject,
            line=line,
            mode=mode,
            rules=rules,
            places=places,
            trusted=trusted,
            interactive=interactive,
        )
