"""How a check ends."""

from __future__ import annotations

from typing import Literal, TypeAlias

from holdfast.schema.base import Value

CheckState: TypeAlias = Literal["waiting", "running", "held", "broken", "skipped"]


class PromiseBroken(Exception):
    """A promise was not kept. The text says what was expected and what happened."""


class CheckSkipped(Exception):
    """The check is not possible here. The text says why."""


class CheckResult(Value, frozen=True):
    """The state of a check, as the table shows it and ``--json`` prints it."""

    name: str
    title: str
    promises: tuple[str, ...]
    state: CheckState = "waiting"
    counts: dict[str, int] = {}
    seconds: float = 0.0
    detail: str = ""
    """What broke, or why the check was skipped."""
