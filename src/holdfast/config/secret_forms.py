"""The forms of a known secret: verbatim, escaped, percent-encoded, in base64, in hexadecimal. Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

import msgspec

MIN_LENGTH = 8
"""Shorter secrets are not redacted: replacing every ``"none"`` would destroy text and protect nothing."""


class SecretForms(msgspec.Struct, frozen=True):
    """Every form of some secrets, the longest first."""

    plain: tuple[str, ...] = ()
    """Verbatim, escaped and percent-encoded."""
    encoded: tuple[str, ...] = ()
    """In base64 and hexadecimal. Programs that print these break them into lines."""

    @classmethod
    def of(cls, secrets: Iterable[str]) -> SecretForms:
        known = {secret for secret in secrets if len(secret) >= MIN_LENGTH}
        plain = {form for secret in known for form in _plain_forms(secret)}
        encoded = {form for secret in known for form in _encoded_forms(secret)}
        return cls(_longest_first(plain), _longest_first(encoded - plain))

    def __bool__(self) -> bool:
        return bool(self.plain)


def _plain_forms(value: str) -> set[str]:
    try:
        escaped = msgspec.json.encode(value).decode()[1:-1]
        forms = {value, escaped, quote(value, safe=""), quote_plus(value)}
    except UnicodeEncodeError:
        return {value}
    if not value.isascii():
        import json  # rarely needed

        forms.add(json.dumps(value)[1:-1])
    return forms | {_lower_escapes(form) for form in forms if "%" in form}


def _encoded_forms(value: str) -> set[str]:
    data = value.encode("utf-8", "surrogatepass")
    standard = {_base64_at(data, offset) for offset in range(3)}
    urlsafe = {form.translate(_URLSAFE) for form in standard}
    return standard | urlsafe | {data.hex(), data.hex().upper()}


_URLSAFE = str.maketrans("+/", "-_")


def _base64_at(data: bytes, offset: int) -> str:
    """The characters of base64 that `data` alone determines if it begins `offset` bytes after a group of three."""
    text = b64encode(b"\0" * offset + data).decode()
    first = (offset * 8 + 5) // 6
    last = (offset + len(data)) * 8 // 6
    return text[first:last]


def _lower_escapes(form: str) -> str:
    """The percent escapes in lower case, as some programs write them."""
    head, *rest = form.split("%")
    return "%".join([head, *(part[:2].lower() + part[2:] for part in rest)])


def _longest_first(forms: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))
