"""Fuzzy matching for lists that are filtered while one types. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class FuzzyHit(NamedTuple):
    score: float
    positions: tuple[int, ...]
    """Indices of the matched characters."""


def fuzzy_match(query: str, candidate: str) -> FuzzyHit | None:
    """Match the words of ``query`` in any order, each as a subsequence. Better matches have higher scores.

    A whole word found as such wins over scattered letters; beginnings of words and consecutive letters win over others.
    """
    lowered = candidate.casefold()
    if len(lowered) != len(candidate):
        lowered = candidate.lower() if len(candidate.lower()) == len(candidate) else candidate
    score, positions = 0.0, set[int]()
    for word in query.casefold().split():
        found = _match_word(word, lowered, candidate)
        if found is None:
            return None
        score += found.score
        positions.update(found.positions)
    return FuzzyHit(score - len(candidate) / 1000, tuple(sorted(positions)))


def best_matches(query: str, candidates: Iterable[str]) -> list[tuple[int, FuzzyHit]]:
    """The index and match of each candidate that matches, best first; equal ones keep their order."""
    hits = ((index, fuzzy_match(query, candidate)) for index, candidate in enumerate(candidates))
    found = [(index, hit) for index, hit in hits if hit is not None]
    return sorted(found, key=lambda item: -item[1].score) if query.strip() else found


def _match_word(word: str, lowered: str, candidate: str) -> FuzzyHit | None:
    at = lowered.find(word)
    if at >= 0:
        starts = [index for index in _occurrences(lowered, word) if _starts_word(candidate, index)]
        at = starts[0] if starts else at
        return FuzzyHit(len(word) * 3.0 + (4.0 if starts else 0.0), tuple(range(at, at + len(word))))
    return _match_letters(word, lowered, candidate)


def _match_letters(word: str, lowered: str, candidate: str) -> FuzzyHit | None:
    positions: list[int] = []
    score, at = 0.0, 0
    for letter in word:
        index = lowered.find(letter, at)
        if index < 0:
            return None
        score += 1.0
        if positions and index == positions[-1] + 1:
            score += 0.5
        if _starts_word(candidate, index):
            score += 0.75
        positions.append(index)
        at = index + 1
    return FuzzyHit(score, tuple(positions))


def _occurrences(text: str, word: str) -> Iterable[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)


def _starts_word(text: str, index: int) -> bool:
    if index == 0:
        return True
    before, here = text[index - 1], text[index]
    return not before.isalnum() or (here.isupper() and before.islower())
