"""Which advice suits a model, by its name. Pure.

A family is known by the name of the model, whichever provider or proxy serves it. A model of no known family gets no
advice of a family.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

Family = Literal["claude", "gpt", "gemini", "other"]

_FAMILIES: tuple[tuple[Family, re.Pattern[str]], ...] = (
    ("claude", re.compile(r"claude")),
    ("gpt", re.compile(r"gpt|codex|(?:^|/)o[134](?:-|$)")),
    ("gemini", re.compile(r"gemini|gemma")),
)
_SMALL_NAME = re.compile(r"(?:^|[-/:_.])(?:mini|nano|small|lite|tiny|micro)(?:$|[-/:_.])")
_PARAMETERS = re.compile(r"(?:^|[-/:_])(\d{1,4}(?:\.\d+)?)b(?:$|[-/:_])")
_MAX_SMALL_PARAMETERS = 40.0
"""In thousand millions."""
_SMALL_WINDOW = 48_000

PREFERRED_TOOLS: dict[Family, tuple[str, ...]] = {"gpt": ("apply_patch",)}
"""Tools that a family's models see before the other tools that change files."""


@lru_cache(maxsize=64)
def family_of(model: str) -> Family:
    """Return the family of ``provider/model``."""
    name = model.lower()
    return next((family for family, pattern in _FAMILIES if pattern.search(name)), "other")


@lru_cache(maxsize=64)
def is_small(model: str, *, context_window: int = 0) -> bool:
    """Return whether a model needs to be told to take small steps. A window of 0 is unknown."""
    name = model.lower()
    sizes = [float(found) for found in _PARAMETERS.findall(name)]
    if sizes:
        return max(sizes) <= _MAX_SMALL_PARAMETERS
    return bool(_SMALL_NAME.search(name)) or 0 < context_window < _SMALL_WINDOW
