"""Numbers, times and lists as people read them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

_EIGHTHS = " ▏▎▍▌▋▊▉█"


def thousands(number: int) -> str:
    """``950``, ``1.2k``, ``3.4M``."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return str(number)


def size(number: int) -> str:
    """Bytes."""
    for power, unit in ((30, "GB"), (20, "MB"), (10, "kB")):
        if number >= 1 << power:
            return f"{number / (1 << power):.1f} {unit}"
    return f"{number} bytes"


def span(seconds: float) -> str:
    """``5 s``, ``3 min``, ``2 h``, ``4 days``."""
    for length, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= length * (2 if unit == "days" else 1):
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def ago(stamp: str, *, now: float) -> str:
    """How long ago a time of ours (RFC 3339) was."""
    from datetime import datetime

    try:
        then = datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return ""
    passed = now - then
    return "just now" if passed < 5 else f"{span(passed)} ago"


def table(rows: Sequence[Sequence[str]], *, gap: str = "  ", right: frozenset[int] = frozenset()) -> list[str]:
    """Columns as wide as their widest cell; the last one is not filled up. ``right``: columns of numbers."""
    if not rows:
        return []
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(widths[column]) if column in right else cell.ljust(widths[column])
            for column, cell in enumerate(row)
        ]
        lines.append(gap.join(cells).rstrip())
    return lines


def bar(share: float, *, width: int, fine: bool = True) -> str:
    """A bar as long as ``share`` of ``width``; something that is there is never nothing."""
    share = min(max(share, 0.0), 1.0)
    if not fine:
        return "#" * (max(round(share * width), 1) if share else 0)
    eighths = max(round(share * width * 8), 1) if share else 0
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")
