"""Text as it enters: lone surrogates repaired, so that everything inside can be encoded."""

from __future__ import annotations


def repaired(text: str) -> str:
    """Join surrogate pairs that arrived split and replace lone ones with U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
