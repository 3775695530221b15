"""Which effort a model is asked for: the nearest to the wished one that the model supports. Pure."""

from __future__ import annotations

from collections.abc import Sequence

OFF = "off"
"""Asks for no reasoning, as far as a model can do without."""
_LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def choose_effort(wished: str, supported: Sequence[str]) -> str | None:
    """Return the supported effort nearest to the wished one, the lower of two; None if the model does not reason."""
    if wished == OFF:
        return next((effort for effort in ("none", "minimal") if effort in supported), None)
    if wished in supported:
        return wished
    known = [effort for effort in supported if effort in _LEVELS and effort != "none"]
    if wished not in _LEVELS or not known:
        return None
    wanted = _LEVELS.index(wished)
    return min(known, key=lambda effort: (abs(_LEVELS.index(effort) - wanted), _LEVELS.index(effort)))
