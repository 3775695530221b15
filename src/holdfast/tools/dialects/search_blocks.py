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

_BLOCK = re.compile(
    r"^(?:<{5,9}|-{5,9}) ?SEARCH>?[^\n]*\n(?P<old>.*?)^={5,9}[^\n]*\n(?P<new>.*?)^(?:>{5,9}|\+{5,9}) ?REPLACE[^\n]*$",
    re.DOTALL | re.MULTILINE,
)
_HEADER = re.compile(r"\A(?::start_line:.*\n|:end_line:.*\n|-{3,}\n)+")
"""Lines with which one agent starts the search part."""


def parse_search_blocks(text: str) -> list[dict[str, Any]] | None:
    """Return the edits of all blocks; None if there is no block."""
    found = [
        {"old_text": _HEADER.sub("", block["old"]), "new_text": block["new"]}
        for block in _BLOCK.finditer(text.replace("\r\n", "\n"))
    ]
    return found or None
