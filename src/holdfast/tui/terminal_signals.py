"""Sequences for the terminal around the UI: title, progress, notifications. Pure.

All text in them is stripped of control characters, because titles and commands come from models and files.
"""

from __future__ import annotations

from typing import Literal

NotifyBy = Literal["terminal", "bell", "off"]
ProgressState = Literal["none", "busy", "waiting", "failed"]

_LONGEST = 200
_PROGRESS: dict[ProgressState, str] = {"none": "0;0", "busy": "3;0", "waiting": "4;100", "failed": "2;100"}

RESTORE = (
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[?1004l\x1b[?2004l\x1b[?2048l"
    "\x1b[?1049l\x1b[?7h\x1b[?25h\x1b[0m"
)
"""Turn off everything the UI turned on. Harmless if it is off already.

The keyboard protocol is not in it: its modes are a stack for each screen. Leaving the second screen leaves its stack;
one more pop would take away what the shell has set.
"""


def plain_text(text: str, *, longest: int = _LONGEST) -> str:
    """One line without control characters."""
    cleaned = "".join(c if c.isprintable() else " " for c in text)
    joined = " ".join(cleaned.split())
    return joined if len(joined) <= longest else joined[: longest - 1] + "…"


def set_title(text: str) -> str:
    return f"\x1b]2;{plain_text(text)}\x07"


PUSH_TITLE = "\x1b[22;2t"
POP_TITLE = "\x1b[23;2t"


def set_progress(state: ProgressState) -> str:
    """The progress of the tab, in terminals that have one (OSC 9;4)."""
    return f"\x1b]9;4;{_PROGRESS[state]}\x07"


def notification(title: str, body: str, *, by: NotifyBy) -> str:
    """A desktop notification in both common forms, or the bell."""
    match by:
        case "off":
            return ""
        case "bell":
            return "\x07"
        case "terminal":
            head, text = plain_text(title).replace(";", ","), plain_text(body).replace(";", ",")
            return f"\x1b]9;{head}: {text}\x07\x1b]777;notify;{head};{text}\x07"
