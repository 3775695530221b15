"""Remove known secrets from text. Pure, and fast enough for every delta and every log line.

A secret is found verbatim and as escaped in JSON and in addresses. Overlapping matches become one mark. Secrets shorter
than `MIN_LENGTH` are not redacted: replacing every ``"none"`` would destroy text and protect nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import AnyStr
from urllib.parse import quote, quote_plus

import msgspec

from holdfast.config.setting_types import Secret

MARK = "[redacted]"
MIN_LENGTH = 8


class Redactor:
    """Replaces every known secret by a mark. Immutable; make a new one when a secret becomes known."""

    __slots__ = ("_bytes", "_texts")

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        forms = {form for secret in secrets if len(secret.reveal()) >= MIN_LENGTH for form in _forms(secret.reveal())}
        self._texts = tuple(sorted(forms, key=lambda form: (-len(form), form)))
        self._bytes = tuple(form.encode("utf-8", "surrogatepass") for form in self._texts)

    def __bool__(self) -> bool:
        return bool(self._texts)

    def __repr__(self) -> str:
        return f"Redactor({len(self._texts)} forms)"

    def redact(self, text: str) -> str:
        return _replace(text, _spans(text, self._texts), MARK)

    def redact_bytes(self, data: bytes) -> bytes:
        """Like `redact`, for encoded text such as a JSON document."""
        return _replace(data, _spans(data, self._bytes), MARK.encode())

    @property
    def max_bytes(self) -> int:
        """Length of the longest form of a secret, in encoded text."""
        return max((len(form) for form in self._bytes), default=0)

    def span_across(self, data: bytes, position: int) -> tuple[int, int]:
        """Where the secrets start and end that a cut at `position` would split; the position twice if none."""
        start = end = position
        for form in self._bytes:
            at = data.find(form, max(0, position - len(form) + 1))
            while 0 <= at < position:
                start, end = min(start, at), max(end, at + len(form))
                at = data.find(form, at + 1)
        return start, end

    def stream(self) -> StreamRedactor:
        return StreamRedactor(self._texts)


class StreamRedactor:
    """Redacts text that arrives in pieces: a possible start of a secret is held back until the next piece decides.

    The joined output equals `Redactor.redact` of the whole text.
    """

    __slots__ = ("_by_first", "_held", "_marked", "_texts")

    def __init__(self, texts: tuple[str, ...]) -> None:
        self._texts = texts
        self._by_first: dict[str, list[str]] = {}
        """Secrets by their first character, the longest first."""
        for text in texts:
            self._by_first.setdefault(text[0], []).append(text)
        self._held = ""
        self._marked = 0
        """Characters at the start of `_held` that belong to a match whose mark was already returned."""

    def feed(self, piece: str) -> str:
        """Add a piece; return the text that is now safe to show."""
        if not self._texts:
            return piece
        text = self._held + piece
        spans = self._find(text)
        hold = self._first_open(text)
        if not hold:
            self._held = text
            return ""
        shown = self._show(text, [span for span in spans if span[0] < hold], upto=hold)
        self._marked = next((end - hold for start, end in spans if start < hold < end), 0)
        self._held = text[hold:]
        return shown

    def flush(self) -> str:
        """Return the text still held back. Call it once, at the end."""
        text = self._held
        shown = self._show(text, self._find(text), upto=len(text))
        self._held, self._marked = "", 0
        return shown

    def _find(self, text: str) -> list[tuple[int, int]]:
        spans = _spans(text, self._texts)
        return _join([(0, self._marked), *spans]) if self._marked else spans

    def _show(self, text: str, spans: list[tuple[int, int]], *, upto: int) -> str:
        if self._marked and spans:
            text, cut = text[spans[0][1] : upto], spans[0][1]
            return _replace(text, [(start - cut, end - cut) for start, end in spans[1:]], MARK)
        return _replace(text[:upto], spans, MARK)

    def _first_open(self, text: str) -> int:
        """The first position at which a secret begins that the end of the text cuts off."""
        size = best = len(text)
        for first, forms in self._by_first.items():
            at = text.find(first, max(0, size - len(forms[0]) + 1), best)
            while at >= 0:
                tail = text[at:]
                if any(form.startswith(tail) and len(form) > len(tail) for form in forms):
                    best = at
                    break
                at = text.find(first, at + 1, best)
        return best


def _forms(value: str) -> set[str]:
    """A secret verbatim, escaped for JSON, and percent-encoded."""
    try:
        escaped = msgspec.json.encode(value).decode()[1:-1]
        return {value, escaped, quote(value, safe=""), quote_plus(value)}
    except UnicodeEncodeError:
        return {value}


def _spans(text: AnyStr, forms: tuple[AnyStr, ...]) -> list[tuple[int, int]]:
    """The matches in order, with overlapping ones joined."""
    found = []
    for form in forms:
        at = text.find(form)
        while at >= 0:
            found.append((at, at + len(form)))
            at = text.find(form, at + 1)
    return _join(sorted(found)) if len(found) > 1 else found


def _join(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined = [spans[0]]
    for start, end in spans[1:]:
        last_start, last_end = joined[-1]
        if start < last_end:
            joined[-1] = (last_start, max(last_end, end))
        else:
            joined.append((start, end))
    return joined


def _replace(text: AnyStr, spans: list[tuple[int, int]], mark: AnyStr) -> AnyStr:
    if not spans:
        return text
    pieces = []
    position = 0
    for start, end in spans:
        pieces += [text[position:start], mark]
        position = end
    pieces.append(text[position:])
    return mark[:0].join(pieces)
