"""The status line in words: what is being waited for, and since when. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from holdfast.tui.terminal_signals import plain_text

if TYPE_CHECKING:  # the first frame is drawn before they are imported
    from holdfast.client.view_values import ActiveTurn
    from holdfast.schema.runs import Mode, Phase, Receipt

MODE_WORDS: dict[Mode, str] = {"ask": "ask", "accept_edits": "accept edits", "plan": "plan", "auto": "auto"}

_PHASES: dict[Phase, str] = {
    "starting": "starting",
    "first_token": "waiting for the model",
    "streaming": "writing",
    "tool": "running",
    "approval": "needs your answer",
    "question": "has a question for you",
    "retry": "waiting to try again",
    "compacting": "making a summary",
    "stopping": "stopping",
    "store": "waiting for the disk",
}


def seconds_since(at: str | None, now: float) -> float:
    if not at:
        return 0.0
    try:
        return max(0.0, now - datetime.fromisoformat(at).timestamp())
    except ValueError:
        return 0.0


def seconds_until(at: str, now: float) -> float:
    try:
        return max(0.0, datetime.fromisoformat(at).timestamp() - now)
    except ValueError:
        return 0.0


def span(seconds: float) -> str:
    """``3 s``, ``2 min``, ``1 h 5 min``, ``2 days``."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 86_400:
        rest = whole % 3600 // 60
        return f"{whole // 3600} h {rest} min" if rest else f"{whole // 3600} h"
    days = whole // 86_400
    return "1 day" if days == 1 else f"{days} days"


def activity(active: ActiveTurn | None, *, now: float, cancelling: bool) -> str:
    """What the active run is doing; empty if nothing runs."""
    if active is None:
        return ""
    if cancelling or active.state == "stopping":
        return "cancelling"
    if active.now is None:
        return f"working, {span(seconds_since(active.started_at, now))}"
    words = _PHASES.get(active.now.phase, active.now.phase)
    what = plain_text(active.now.what, longest=60)
    since = span(seconds_since(active.now.since or active.started_at, now))
    if active.now.phase == "tool" and what:
        return f"{what}, {since}"
    if active.now.phase == "retry" and active.now.until:
        return f"{what or 'the model failed'}, trying again in {span(seconds_until(active.now.until, now) + 0.999)}"
    if active.now.phase == "store" and what:
        return f"the database cannot be written, {since}: {what}"
    return f"{words} ({what}), {since}" if what and active.now.phase in ("retry", "approval") else f"{words}, {since}"


def receipt_words(receipt: Receipt) -> str:
    """What a cancel stopped besides the model; empty if there is nothing to say."""
    killed = [name for run in receipt.runs for name in run.killed]
    left = [name for run in receipt.runs for name in run.left_running]
    words = []
    if killed:
        words.append(f"{len(killed)} process{'es' if len(killed) != 1 else ''} stopped")
    if left:
        words.append(f"still running: {plain_text(', '.join(left))}")
    if not receipt.durable:
        words.append("the cancel could not be stored yet; the server keeps trying")
    return "cancelled · " + " · ".join(words) if words else ""


def tokens(count: int) -> str:
    return f"{count}" if count < 1000 else f"{count / 1000:.0f}k" if count < 1_000_000 else f"{count / 1e6:.1f}M"


def money(cost: float) -> str:
    return f"${cost:.2f}" if cost >= 0.005 or cost == 0 else f"${cost:.4f}"
