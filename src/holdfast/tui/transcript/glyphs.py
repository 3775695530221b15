"""The signs that the transcript draws beside its text: symbols, or words in plain mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.client.view_values import CallState


@dataclass(frozen=True, slots=True)
class Glyphs:
    prompt: str
    command: str
    call: Mapping[CallState, str]
    todo: Mapping[str, str]
    bar: str
    """Left of output and arguments."""
    end: str
    """Left of the last line of a folded output."""
    rule: str
    folded: str
    unfolded: str
    quote: str = "│ "


SYMBOLS = Glyphs(
    prompt=" ▌ ",
    command=" ! ",
    call={
        "writing": "…",
        "waiting": "?",
        "running": "●",
        "ok": "✓",
        "error": "✗",
        "denied": "✗",
        "cancelled": "■",
        "unknown": "?",
    },
    todo={"completed": "✓", "in_progress": "●", "pending": "○"},
    bar="│ ",
    end="└ ",
    rule=" ── ",
    folded="▸",
    unfolded="▾",
)
WORDS = Glyphs(
    prompt="You: ",
    command="You ran: ",
    call={
        "writing": "Tool being written:",
        "waiting": "Tool waits for you:",
        "running": "Tool runs:",
        "ok": "Tool done:",
        "error": "Tool failed:",
        "denied": "Tool denied:",
        "cancelled": "Tool stopped:",
        "unknown": "Tool, result unknown:",
    },
    todo={"completed": "done:", "in_progress": "now:", "pending": "to do:"},
    bar="  ",
    end="  ",
    rule="Note: ",
    folded="Folded:",
    unfolded="Open:",
)
"""For screen readers: no drawing characters, and every state is a word."""
