"""Patterns of well-known keys: model providers, clouds, git hosting, registries, tokens, private key blocks. Pure.

A pattern begins with a fixed prefix, so that text is searched for the prefix at the speed of `str.find`. All that
belongs to the key is in its *run*: the longest sequence of allowed characters after the prefix, up to a limit. So a
stream knows when a key cannot become longer.
"""

from __future__ import annotations

import re
from functools import cache

import msgspec

_WORD_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_DASHED_CHARACTERS = _WORD_CHARACTERS | frozenset("_-")


class KeyPattern(msgspec.Struct, frozen=True):
    prefix: str
    run_source: str
    key_source: str
    longest: int
    """The length of the longest run."""
    not_after: frozenset[str] = _WORD_CHARACTERS
    """Characters that cannot be before the prefix."""

    @property
    def run(self) -> re.Pattern[str]:
        """Matches the prefix and every character that could belong to the key."""
        return _compiled(self.run_source)

    @property
    def key(self) -> re.Pattern[str]:
        """Matches the key, at the start of the run. Its group is the part to mask, if it has one."""
        return _compiled(self.key_source)

    def find(self, text: str, start: int, *, before: str) -> tuple[int, int] | None:
        """The part of the text to mask if a key begins at `start`. `before` is the character before the text."""
        previous = text[start - 1] if start else before
        if previous in self.not_after:
            return None
        found = self.key.match(text, start)
        return found.span(found.lastindex or 0) if found else None


@cache
def _compiled(source: str) -> re.Pattern[str]:
    """Compile a pattern when its prefix is first found: all of them take 10 ms, and most are never needed."""
    return re.compile(source)


def _token(prefix: str, characters: str, least: int, most: int = 255, *, mixed: bool = False) -> KeyPattern:
    """A prefix and a run of characters. `mixed`: the run has letters and digits, so that it is not a phrase."""
    escaped = re.escape(prefix)
    run = f"{escaped}[{characters}]{{0,{most}}}"
    needs = rf"(?=[{characters}]{{0,{most - 1}}}[0-9])(?=[{characters}]{{0,{most - 1}}}[A-Z])" if mixed else ""
    key = rf"{escaped}{needs}[{characters}]{{{least},{most}}}(?<!EXAMPLE)"
    return KeyPattern(prefix, run, key, len(prefix) + most, _DASHED_CHARACTERS if mixed else _WORD_CHARACTERS)


def _named(name: str, characters: str, least: int, most: int) -> KeyPattern:
    """A value after a name, such as ``aws_secret_access_key = …``. Only the value is masked."""
    run = rf"{name}[ \t]{{0,8}}[=:]?[ \t]{{0,8}}[\"']?[{characters}]{{0,{most}}}"
    key = rf"{name}[ \t]{{0,8}}[=:][ \t]{{0,8}}[\"']?([{characters}]{{{least},{most}}})(?<!EXAMPLEKEY)"
    return KeyPattern(name, run, key, len(name) + 18 + most)


_WORD = "A-Za-z0-9"
_DASHED = "A-Za-z0-9_-"
_PEM_LIMIT = 16_384
_PEM_BODY = r"(?:[A-Za-z0-9+/=\\\s:,|>]|-(?!----))"


def _private_key_block() -> KeyPattern:
    """From the BEGIN line to the END line. Without an END line, what follows is masked if it looks like a key."""
    begin = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    end = r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    body = rf"{_PEM_BODY}{{0,{_PEM_LIMIT - 200}}}+"
    key = rf"{begin}(?:{body}{end}|(?={_PEM_BODY}{{0,200}}?[A-Za-z0-9+/=]{{40}}){body})"
    run = rf"-----BEGIN [A-Za-z0-9+/=\\\s:,|>-]{{0,{_PEM_LIMIT}}}"
    return KeyPattern("-----BEGIN ", run, key, len("-----BEGIN ") + _PEM_LIMIT)


def _json_web_token() -> KeyPattern:
    part = "[A-Za-z0-9_-]"
    run = r"eyJ[A-Za-z0-9_.-]{0,8192}"
    key = rf"eyJ{part}{{8,2700}}\.eyJ{part}{{4,2700}}\.{part}{{8,2700}}"
    return KeyPattern("eyJ", run, key, 3 + 8192, _DASHED_CHARACTERS)


KEY_PATTERNS: tuple[KeyPattern, ...] = (
    # Model providers.
    _token("sk-", _DASHED, 20, mixed=True),
    _token("gsk_", _WORD, 40),
    _token("xai-", _WORD, 40),
    _token("hf_", _WORD, 30),
    _token("r8_", _WORD, 37),
    _token("pplx-", _WORD, 40),
    _token("nvapi-", _DASHED, 40),
    # Clouds.
    _token("AKIA", "A-Z0-9", 16, 16),
    _token("ASIA", "A-Z0-9", 16, 16),
    _named("aws_secret_access_key", "A-Za-z0-9/+=", 40, 40),
    _named("AWS_SECRET_ACCESS_KEY", "A-Za-z0-9/+=", 40, 40),
    _named("AccountKey", "A-Za-z0-9/+=", 80, 120),
    _token("AIza", _DASHED, 35, 35),
    _token("GOCSPX-", _DASHED, 28, 28),
    _token("ya29.", _DASHED, 20, 1_024),
    _token("dop_v1_", "a-f0-9", 64, 64),
    _token("dapi", "a-f0-9", 32, 34),
    _token("hvs.", _DASHED, 24),
    # Git hosting.
    *(_token(f"gh{kind}_", _WORD, 36) for kind in "pousr"),
    _token("github_pat_", "A-Za-z0-9_", 22),
    *(_token(f"gl{kind}-", "A-Za-z0-9_.-", 20) for kind in ("pat", "dt", "rt", "cbt", "ptt", "soat")),
    # Registries.
    _token("npm_", _WORD, 36, 36),
    _token("pypi-AgE", _DASHED, 50, 512),
    _token("rubygems_", "a-f0-9", 48, 48),
    _token("dckr_pat_", _DASHED, 27),
    # Services.
    *(_token(f"xox{kind}-", "A-Za-z0-9-", 20) for kind in "abeprs"),
    _token("xapp-", "A-Za-z0-9-", 20),
    *(_token(f"{kind}_{stage}_", _WORD, 16) for kind in ("sk", "rk") for stage in ("live", "test")),
    _token("whsec_", "A-Za-z0-9/+=", 24),
    _token("SG.", "A-Za-z0-9_.-", 60, 80),
    *(_token(f"shp{kind}_", "a-fA-F0-9", 32, 32) for kind in ("at", "ca", "pa", "ss")),
    _token("lin_api_", _WORD, 32),
    _token("ntn_", _WORD, 40),
    _token("AGE-SECRET-KEY-1", "A-Z0-9", 58, 58),
    # Formats.
    _json_web_token(),
    _private_key_block(),
)
