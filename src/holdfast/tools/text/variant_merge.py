"""Puts a new text where a typographic variant of the old text was, without changing what stays. Pure."""

from __future__ import annotations

import difflib
import re

from holdfast.tools.text.text_folding import FoldedText

_TOKEN = re.compile(r"\w+|\s+|.", re.DOTALL)
_MAX_TOKENS = 4_000
"""Tokens to compare; a longer text is replaced as a whole."""


def merge_variants(found: str, *, old: str, new: str) -> str:
    """Return the new text with the characters of the found text where the new text repeats the old one.

    ``found`` and ``old`` are equal except for typographic variants: a file with curly quotes keeps them.
    """
    ours, theirs = FoldedText(found), FoldedText(old)
    before, after = _TOKEN.findall(old), _TOKEN.findall(new)
    if max(len(before), len(after)) > _MAX_TOKENS:
        return new
    starts = [0]
    for token in before:
        starts.append(starts[-1] + len(token))
    parts = []
    for tag, one, two, three, four in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        kept = _same_place(ours, theirs, starts[one], starts[two]) if tag == "equal" else None
        parts.append("".join(after[three:four]) if kept is None else kept)
    return "".join(parts)


def _same_place(ours: FoldedText, theirs: FoldedText, start: int, stop: int) -> str | None:
    """Return the part of the found text that corresponds to a part of the old one; None if its borders do not."""
    first, last = theirs.to_folded(start), theirs.to_folded(stop)
    if first is None or last is None:
        return None
    one = ours.to_original(first, is_end=True)
    two = len(ours.original) if stop == len(theirs.original) else ours.to_original(last, is_end=True)
    return None if one is None or two is None else ours.original[one:two]
