"""SEARCH/REPLACE blocks, in which some agents write their edits. Pure.

::

    <<<<<<< SEARCH
    old lines
    =======
    new lines
    >>>>>>> REPLACE
"""

from __future__ import annotations

import re
from typing import Any

_START = re.compile(r"(?:<{5,9}|-{5,9}) ?SEARCH\b")
_MIDDLE = re.compile(r"={5,9}\s*$")
_END = re.compile(r"(?:>{5,9}|\+{5,9}) ?REPLACE\b")
_HEADER = re.compile(r":(?:start|end)_line:|-{5,}\s*$")
"""Lines with which one agent starts the search part."""


def parse_search_blocks(text: str) -> list[dict[str, Any]] | None:
    """Return the edits of all blocks; None if there is no complete block, or if one is not complete."""
    edits: list[dict[str, Any]] = []
    old: list[str] | None = None
    new: list[str] | None = None
    for line in text.replace("\r\n", "\n").splitlines(keepends=True):
        if old is None:
            old = [] if _START.match(line) else None
        elif new is None and _MIDDLE.match(line):
            new = []
        elif new is None:
            old += [] if _HEADER.match(line) and not any(row.strip() for row in old) else [line]
        elif _END.match(line):
            edits.append({"old_text": "".join(old), "new_text": "".join(new)})
            old = new = None
        else:
            new.append(line)
    return edits if edits and old is None else None
