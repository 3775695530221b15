"""Format values for output: numbers, times, tables, bars and JSON. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.schema.base import encode

_EIGHTHS = " ▏▎▍▌▋▊▉█"


def short_number(number: int) -> str:
    """``950``, ``1.2k``, ``3.4M``."""
    for limit, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= limit:
            return f"{number / limit:.1f}{unit}"
    return str(number)


def byte_size(number: int) -> str:
    """``12 bytes``, ``2.0 kB``, ``5.0 MB``."""
    for power, unit in ((30, "GB"), (20, "MB"), (10, "kB")):
        if number >= 1 << power:
            return f"{number / (1 << power):.1f} {unit}"
    return f"{number} bytes"


def duration(seconds: float) -> str:
    """``5 s``, ``3 min``, ``2 h``, ``4 days``."""
    for length, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= length * (2 if unit == "days" else 1):
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def ago(stamp: str, *, now: float) -> str:
    """How long ago an RFC 3339 time was: ``just now``, ``3 min ago``."""
    from datetime import datetime

    try:
        then = datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return ""
    passed = now - then
    return "just now" if passed < 5 else f"{duration(passed)} ago"


def table(rows: Sequence[Sequence[str]], *, gap: str = "  ", right: frozenset[int] = frozenset()) -> list[str]:
    """Lines with columns as wide as their widest cell. The columns in ``right`` are right-aligned."""
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
    """A bar that fills ``share`` of ``width``; at least one character for any share above 0."""
    share = min(max(share, 0.0), 1.0)
    if not fine:
        return "#" * (max(round(share * width), 1) if share else 0)
    eighths = max(round(share * width * 8), 1) if share else 0
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")


def json_line(value: object) -> str:
    return encode(value).decode()


def json_text(value: object) -> str:
    """Indented JSON."""
    return msgspec.json.format(encode(value), indent=2).decode()
