"""Prefixed ids, and the clock. Ids sort roughly by age, but no code relies on their order."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Coroutine
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeAlias

Prefix = Literal[
    "wsp", "ses", "run", "msg", "call", "apr", "qst", "job", "cli", "ccl", "snp", "key", "mcp", "lsp", "dev", "aud"
]

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_CHARS = 9
_RANDOM_CHARS = 16
GENERATED_LENGTH = _TIME_CHARS + _RANDOM_CHARS
"""The length of an id without its prefix."""
_ID_START = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_ID_CHARS = _ID_START | frozenset("_.:-")
_LONGEST_ID = 128


class Clock(Protocol):
    """Wall time in seconds since the epoch, for display and deadlines only, never for order."""

    def __call__(self) -> float: ...


Sleep: TypeAlias = Callable[[float], Coroutine[Any, Any, object]]
"""Wait for a number of seconds, as `asyncio.sleep` does."""


class Ids:
    """Creates ids. Tests pass their own clock and source of randomness."""

    def __init__(self, *, clock: Clock = time.time, random: Callable[[int], bytes] = os.urandom) -> None:
        self._clock = clock
        self._random = random

    def new(self, prefix: Prefix) -> str:
        millis = int(self._clock() * 1000)
        random = self._random(_RANDOM_CHARS).translate(_CHARACTER_OF_BYTE).decode("ascii")
        return f"{prefix}_{_time_start(millis >> 10)}{_PAIRS[millis & 1023]}{random}"


def new_token(count: int) -> str:
    """A secret of so many random bytes, as letters, digits, ``-`` and ``_``."""
    from base64 import urlsafe_b64encode  # not above: few processes make a token

    return urlsafe_b64encode(os.urandom(count)).rstrip(b"=").decode("ascii")


def is_valid_client_id(text: str) -> bool:
    """Whether a client may use this id: 1 to 128 characters that are safe in paths, URLs and logs."""
    return 0 < len(text) <= _LONGEST_ID and text[0] in _ID_START and _ID_CHARS.issuperset(text)


def rfc3339(seconds: float) -> str:
    """Format a time as UTC with milliseconds: ``2026-01-02T03:04:05.678Z``."""
    return _with_millis(int(seconds * 1000))


@lru_cache(maxsize=4)
def _with_millis(millis: int) -> str:
    return f"{_whole_seconds(millis // 1000)}.{millis % 1000:03d}Z"


@lru_cache(maxsize=4)
def _whole_seconds(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def build_id(root: str = os.path.dirname(__file__)) -> str:
    """Return a digest of the source tree; empty for an installed release.

    The server reports the digest it was started with, so that clients notice a server that runs older code.
    """
    if {"site-packages", "dist-packages"} & set(root.split(os.sep)):
        return ""
    import zlib

    digest, directories = 0, [root]
    while directories:
        with os.scandir(directories.pop()) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.is_dir(follow_symlinks=False) and entry.name != "__pycache__":
                    directories.append(entry.path)
                elif entry.name.endswith(".py"):
                    digest = zlib.crc32(_fingerprint(entry).encode("utf-8", "surrogateescape"), digest)
    return f"{digest:08x}"


def _fingerprint(entry: os.DirEntry[str]) -> str:
    try:
        status = entry.stat()
    except FileNotFoundError:  # a temporary file of an editor
        return ""
    return f"{entry.name} {status.st_size} {status.st_mtime_ns}"


_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_CHARACTER_OF_BYTE = (_ALPHABET * 8).encode("ascii")


@lru_cache(maxsize=4)
def _time_start(number: int) -> str:
    """The characters of an id that are the same for a second."""
    digits = [_ALPHABET[number >> 5 * place & 31] for place in range(_TIME_CHARS - 2)]
    return "".join(reversed(digits))
