"""Cursors: opaque to clients, a log's id and a number to us (``a7.1234``)."""

from __future__ import annotations

import re

from holdfast.schema.base import Value

_FORM = re.compile(r"([0-9a-z]{1,64})\.([0-9]{1,18})", flags=re.ASCII)


class Cursor(Value, frozen=True):
    log_id: str
    number: int

    def __str__(self) -> str:
        return f"{self.log_id}.{self.number}"


def read_cursor(text: str) -> Cursor | None:
    """``None`` for what no log ever gave."""
    found = _FORM.fullmatch(text)
    return Cursor(found[1], int(found[2])) if found else None
