"""Remove secrets from text, whole or as a stream. Pure, and fast enough for every delta and every log line.

A `Redactor` knows secrets, in every form of `secret_forms`, and optionally the patterns of `key_patterns`. Base64 and
hexadecimal are also found if they are broken into lines. Overlapping matches become one mark. A match of several
lines becomes one mark per line, so that line numbers stay the same.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

from holdfast.config.key_patterns import KEY_PATTERNS, KeyPattern
from holdfast.config.secret_forms import SecretForms
from holdfast.config.setting_types import Secret

MARK = "[redacted]"

_BREAK = re.compile(r"\r?\n")
_TWO_BREAKS = re.compile(r"\n\r?\n")
_INDEXED = 3
"""Characters by which possible starts of secrets are found."""

_CHECKED = 12
"""Characters at the end of a secret that are searched first, because a short text is found faster."""

_RELEASABLE = 2
"""Characters at the start of a secret that may be shown if nothing follows for a while. They tell nothing about it."""

_Span = tuple[int, int]


class Redactor:
    """Replaces secrets by a mark. Immutable; make a new one when a secret becomes known."""

    __slots__ = ("_ends", "_finder")

    def __init__(self, secrets: Iterable[Secret] = (), *, key_patterns: bool = False) -> None:
        forms = SecretForms.of(secret.reveal() for secret in secrets)
        self._finder = _Finder(forms, KEY_PATTERNS if key_patterns else ())
        ends = sorted({form[-_CHECKED:].encode("utf-8", "surrogatepass") for form in (*forms.plain, *forms.encoded)})
        self._ends = tuple(ends)
        """The ends of all forms, for a quick check. A search for each is faster than one expression for all."""

    def __bool__(self) -> bool:
        return bool(self._finder)

    def __repr__(self) -> str:
        return f"Redactor({len(self._finder.plain) + len(self._finder.encoded)} forms)"

    def redact(self, text: str) -> str:
        spans = self._finder.spans(text)
        return _replace(text, spans) if spans else text

    def redact_bytes(self, data: bytes) -> bytes:
        """Like `redact`, for encoded text such as a JSON document, whose lines are not joined."""
        if not self._finder.patterns:
            for end in self._ends:
                if end in data:
                    break
            else:
                return data
        return self.redact(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    @property
    def max_bytes(self) -> int:
        """The most bytes of encoded text that one match can have."""
        return self._finder.longest * 4

    def span_across(self, data: bytes, position: int) -> tuple[int, int]:
        """Where the secrets start and end that a cut at `position` would split; the position twice if none."""
        text = data.decode("utf-8", "surrogateescape")
        for first, last in self._finder.spans(text):
            start = len(text[:first].encode("utf-8", "surrogateescape"))
            end = start + len(text[first:last].encode("utf-8", "surrogateescape"))
            if start < position < end:
                return start, end
        return position, position

    def stream(self) -> StreamRedactor:
        return StreamRedactor(self._finder)


class StreamRedactor:
    """Redacts text that arrives in pieces: a possible start of a secret is held back until later pieces decide.

    The joined output equals `Redactor.redact` of the whole text. If `release` is called meanwhile, the first two
    characters of a secret can be before its mark.
    """

    __slots__ = ("_before", "_begun", "_finder", "_held", "_marked", "_released")

    def __init__(self, finder: _Finder) -> None:
        self._finder = finder
        self._held = ""
        self._before = ""
        """The character before `_held`."""
        self._marked = 0
        """Characters at the start of `_held` that belong to a match that began before it."""
        self._begun = False
        """Whether that match already has a mark on the present line."""
        self._released = 0
        """Characters at the start of `_held` that were already shown."""

    def __repr__(self) -> str:
        return f"StreamRedactor({len(self._held)} characters held)"

    def feed(self, piece: str) -> str:
        """Add a piece; return the text that is now safe to show."""
        if not piece or not self._finder:
            return piece
        text = self._held + piece if self._held else piece
        if not self._marked and self._finder.starts.search(text) is None:
            shown, self._released = text[self._released :], 0
            self._held, self._before = "", piece[-1]
            return shown
        return self._show(text, upto=self._finder.first_open(text))

    @property
    def can_release(self) -> bool:
        """Whether `release` would return something."""
        return self._released < len(self._held) <= _RELEASABLE and not self._marked

    def release(self) -> str:
        """Return what is held back if it is so short that it tells nothing. More text may follow."""
        if not self.can_release:
            return ""
        shown, self._released = self._held[self._released :], len(self._held)
        return shown

    def flush(self) -> str:
        """Return the text still held back. Call it once, at the end."""
        return self._show(self._held, upto=len(self._held))

    def _show(self, text: str, *, upto: int) -> str:
        if not upto:
            self._held = text
            return ""
        spans = self._finder.spans(text, before=self._before) if len(text) >= self._finder.shortest else []
        if self._marked:
            spans = _join(sorted([(0, self._marked), *spans]))
        shown: list[str] = []
        position = marked = 0
        begun = False
        for start, end in spans:
            if start >= upto:
                break
            shown.append(text[position:start])
            covered = text[start : min(end, upto)]
            continued = self._begun if start == 0 and self._marked else False
            shown.append(_mask(covered, begun=continued))
            position, marked = min(end, upto), max(0, end - upto)
            begun = continued if "\n" not in covered and continued else not covered.endswith("\n")
        shown.append(text[position:upto])
        self._held, self._before = text[upto:], text[upto - 1]
        self._marked, self._begun = marked, begun
        skipped = min(self._released, upto, spans[0][0] if spans else upto)
        self._released = max(0, self._released - upto)
        return "".join(shown)[skipped:]


class _Finder:
    """Finds the secrets in a text, and the place from which its end may be the start of one."""

    def __init__(self, forms: SecretForms, patterns: tuple[KeyPattern, ...]) -> None:
        self.plain = forms.plain
        self.encoded = forms.encoded
        self.patterns = patterns
        self._literals = literals = [*self.plain, *(pattern.prefix for pattern in patterns)]
        self._longest_literal = max(map(len, literals), default=0)
        self._longest_encoded = 3 * max(map(len, self.encoded), default=0)
        """Each character of an encoded form can have a line break after it."""
        longest_pattern = max((pattern.longest for pattern in patterns), default=0)
        self.longest = max(self._longest_literal, self._longest_encoded, longest_pattern)
        """Characters of the longest match."""
        self.shortest = min(map(len, (*literals, *self.encoded)), default=0)

    @cached_property
    def starts(self) -> re.Pattern[str]:
        """Finds the first characters of a secret, also if the end of the text cuts them off.

        Compiled for the first stream, as the others: a prompt is accepted without it.
        """
        return re.compile("|".join([*_start_regex(self._literals), *_start_regex(self.encoded, broken=True)]) or "(?!)")

    @cached_property
    def _plain_starts(self) -> re.Pattern[str]:
        return re.compile("|".join(_start_regex(self._literals)) or "(?!)")

    @cached_property
    def _encoded_starts(self) -> re.Pattern[str]:
        return re.compile("|".join(_start_regex(self.encoded)) or "(?!)")

    @cached_property
    def _literals_by_start(self) -> dict[str, list[str]]:
        return _by_start(self._literals)

    @cached_property
    def _encoded_by_start(self) -> dict[str, list[str]]:
        return _by_start(self.encoded)

    def __bool__(self) -> bool:
        return bool(self.plain or self.patterns)

    def spans(self, text: str, *, before: str = "") -> list[_Span]:
        """The matches in order, with overlapping ones joined. `before` is the character before the text."""
        found: list[_Span] = []
        for form in self.plain:
            if form[-_CHECKED:] in text:
                found += _occurrences(form, text)
        for pattern in self.patterns:
            at = text.find(pattern.prefix)
            while at >= 0:
                span = pattern.find(text, at, before=before)
                if span:
                    found.append(span)
                at = text.find(pattern.prefix, at + 1)  # it may begin inside another key
        if self.encoded:
            found += self._encoded_spans(text)
        return _join(sorted(found)) if len(found) > 1 else found

    def first_open(self, text: str) -> int:
        """The first position from which the end of the text may be an unfinished match; its length if there is none."""
        return min(self._open_literal(text), self._open_pattern(text), self._open_encoded(text))

    def _encoded_spans(self, text: str) -> list[_Span]:
        joined = text.replace("\r\n", "").replace("\n", "") if "\n" in text else text
        found: list[_Span] = []
        for form in self.encoded:
            if form[-_CHECKED:] in joined:
                found += _occurrences(form, joined)
        if not found or joined is text:
            return found
        to_text = _positions_in(text)
        spans = [(to_text(start), to_text(end - 1) + 1) for start, end in found]
        return [(start, end) for start, end in spans if not _TWO_BREAKS.search(text, start, end)]

    def _open_literal(self, text: str) -> int:
        size = len(text)
        for found in self._plain_starts.finditer(text, max(0, size - self._longest_literal)):
            for at in range(found.start(), found.end()):
                tail = text[at:]
                if any(
                    len(literal) > len(tail) and literal.startswith(tail)
                    for literal in self._literals_by_start.get(tail[:_INDEXED], ())
                ):
                    return at
        return size

    def _open_pattern(self, text: str) -> int:
        size = best = len(text)
        for pattern in self.patterns:
            at = text.find(pattern.prefix, max(0, size - pattern.longest))
            while 0 <= at < best:
                run = pattern.run.match(text, at)
                end = run.end() if run else at
                if end == size and size - at < pattern.longest:
                    best = at
                # A run that ended before its limit ends there for every prefix inside it; one may begin at its end.
                inside = end - len(pattern.prefix) if end < at + pattern.longest else at
                at = text.find(pattern.prefix, max(at, inside) + 1)
        return best

    def _open_encoded(self, text: str) -> int:
        size = len(text)
        if not self.encoded:
            return size
        first = max(0, size - self._longest_encoded)
        window = text[first:]
        joined = window.replace("\r\n", "").replace("\n", "").removesuffix("\r")
        for found in self._encoded_starts.finditer(joined):
            for at in range(found.start(), found.end()):
                tail = joined[at:]
                if any(
                    len(form) > len(tail) and form.startswith(tail)
                    for form in self._encoded_by_start.get(tail[:_INDEXED], ())
                ):
                    start = _positions_in(window)(at)
                    if not _TWO_BREAKS.search(window, start):
                        return first + start
        return size


def _occurrences(form: str, text: str) -> Iterator[_Span]:
    at = text.find(form)
    while at >= 0:
        yield at, at + len(form)
        at = text.find(form, at + 1)


def _start_regex(literals: Iterable[str], *, broken: bool = False) -> list[str]:
    """Alternatives that match the first characters of the literals. `broken`: with line breaks between them."""
    between = r"(?:\r?\n|\r\Z)?" if broken else ""
    starts: dict[str, dict[str, set[str]]] = {}
    for literal in literals:
        starts.setdefault(literal[0], {}).setdefault(literal[1:2], set()).add(literal[2:3])
    alternatives = []
    for first, seconds in sorted(starts.items()):
        inner = [
            f"{re.escape(second)}{between}(?:{'|'.join(map(re.escape, sorted(thirds)))}|\\Z)"
            for second, thirds in sorted(seconds.items())
        ]
        alternatives.append(f"{re.escape(first)}{between}(?:{'|'.join(inner)}|\\Z)")
    return alternatives


def _by_start(literals: Iterable[str]) -> dict[str, list[str]]:
    """The literals by their first characters, and by fewer of them."""
    found: dict[str, list[str]] = {}
    for literal in literals:
        for length in range(1, _INDEXED + 1):
            found.setdefault(literal[:length], []).append(literal)
    return found


def _positions_in(text: str) -> Callable[[int], int]:
    """A function that maps positions in the text without its line breaks to positions in the text."""
    before: list[int] = []
    """For each line break, how many characters before it are not line breaks."""
    removed = [0]
    for found in _BREAK.finditer(text):
        before.append(found.start() - removed[-1])
        removed.append(removed[-1] + len(found[0]))
    return lambda position: position + removed[bisect_right(before, position)]


def _join(spans: Sequence[_Span]) -> list[_Span]:
    joined = [spans[0]]
    for start, end in spans[1:]:
        last_start, last_end = joined[-1]
        if start < last_end:
            joined[-1] = (last_start, max(last_end, end))
        else:
            joined.append((start, end))
    return joined


def _replace(text: str, spans: Sequence[_Span]) -> str:
    return "".join(_pieces(text, spans))


def _pieces(text: str, spans: Sequence[_Span]) -> Iterator[str]:
    position = 0
    for start, end in spans:
        yield text[position:start]
        yield _mask(text[start:end])
        position = end
    yield text[position:]


def _mask(covered: str, *, begun: bool = False) -> str:
    """One mark per line that is not empty. `begun`: the first line already has its mark."""
    if "\n" not in covered:
        return "" if begun or not covered else MARK
    first, *rest = covered.split("\n")
    return "\n".join(["" if begun or not first else MARK, *(MARK if line else "" for line in rest)])
