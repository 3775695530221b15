"""Hashes and comparisons of secrets, without OpenSSL where that is enough.

`hashlib` and `hmac` load OpenSSL, which takes 4 MB of the memory of every process and some milliseconds of its start.
Python has SHA-256 of its own, under a name that depends on the version; `random` of the standard library uses its
sibling in the same way. It is slower, which matters only for large data.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

_LARGE_BYTES = 16 << 10


def sha256_hex(data: bytes) -> str:
    """The SHA-256 of the data in hexadecimal digits."""
    if len(data) >= _LARGE_BYTES:
        import hashlib

        return hashlib.sha256(data).hexdigest()
    digits: str = _small_sha256(data).hexdigest()
    return digits


def are_equal_secrets(one: bytes, other: bytes) -> bool:
    """Compare in a time that does not depend on where they differ."""
    return _compare(one, other)


def _find_sha256() -> Callable[[bytes], Any]:
    for name in ("_sha2", "_sha256"):
        try:
            found: Callable[[bytes], Any] = import_module(name).sha256
        except (ImportError, AttributeError):
            continue
        return found
    import hashlib

    return hashlib.sha256


def _find_comparison() -> Callable[[bytes, bytes], bool]:
    try:
        from _operator import _compare_digest  # as `hmac` does without OpenSSL
    except ImportError:
        from hmac import compare_digest

        return compare_digest
    return _compare_digest


_small_sha256 = _find_sha256()
_compare = _find_comparison()
