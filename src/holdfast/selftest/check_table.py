"""All checks of the self-test, in their order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from holdfast.selftest import fault_checks, run_checks, stream_checks, tool_checks
from holdfast.selftest.check_context import CheckContext


class Check(NamedTuple):
    name: str
    title: str
    promises: tuple[str, ...]
    """Ids of docs/promises.md."""
    run: Callable[[CheckContext], Awaitable[None]]
    share: float = 1.0
    """Its share of the time, relative to the other checks."""
    own_server: bool = False
    """Whether it kills or configures the server, so that it cannot be tried on a server that is in use."""


CHECKS = (
    Check(
        "durable-accept",
        "accepted prompts survive kill -9, once each",
        ("R1", "R3", "R7", "W6"),
        run_checks.durable_accept,
        share=2.0,
        own_server=True,
    ),
    Check(
        "cancel-races",
        "a cancel covers what came before it, nothing later",
        ("C1", "C2", "C3"),
        run_checks.cancel_races,
        share=1.5,
    ),
    Check("queue-order", "the queue starts in its order", ("R4", "R5"), run_checks.queue_order),
    Check(
        "replay-after-cuts",
        "cut streams resume without loss or repetition",
        ("E1", "E2", "E5"),
        stream_checks.replay_after_cuts,
    ),
    Check("exact-text", "text is exact on all four wires", ("E3",), stream_checks.exact_text),
    Check("slow-reader", "a reader that never reads harms nobody", ("E4",), stream_checks.slow_reader),
    Check("approvals", "the first answer to an approval wins", ("W4",), tool_checks.approval_first_wins),
    Check("processes", "cancelled commands leave no process", ("C7", "R8"), tool_checks.process_cleanup),
    Check("undo", "undo and redo restore files byte for byte", ("R4",), tool_checks.undo_restores, share=0.5),
    Check("secrets", "keys are masked everywhere", ("W8",), tool_checks.secrets_masked, share=0.5, own_server=True),
    Check(
        "crash-in-answer",
        "shown text survives kill -9",
        ("E3", "W6", "C6"),
        fault_checks.recovery_of_text,
        own_server=True,
    ),
    Check(
        "crash-in-command",
        "commands are not repeated after kill -9",
        ("W6", "C6"),
        fault_checks.recovery_of_tools,
        own_server=True,
    ),
    Check("clock-jumps", "clock jumps change nothing", ("E1", "C1"), fault_checks.clock_jumps, own_server=True),
    Check(
        "full-disk",
        "on a full disk nothing is lost and cancels work",
        ("R14", "C7"),
        fault_checks.full_disk,
        own_server=True,
    ),
    Check("one-end", "every run of this test ended exactly once", ("R7",), run_checks.one_end, share=0.0),
)
