"""Conversions and checks of API values that several services share."""

from __future__ import annotations

from typing import TypeVar

from holdfast.errors import BadRequest, HoldfastError
from holdfast.events import Hub
from holdfast.schema.api.response_bodies import ErrorBody, ErrorDetail, PageView
from holdfast.store import Page

T = TypeVar("T")

MAX_DEPTH = 64
"""Levels of nesting that a free-form value may have."""


def page_view(page: Page[T], hub: Hub) -> PageView[T]:
    """A page of the store, with the cursor at which it is true (`E7`)."""
    return PageView(page.items, hub.cursor_at(page.at), None if page.next is None else str(page.next))


def error_body(error: HoldfastError) -> ErrorBody:
    return ErrorBody(ErrorDetail(error.error_code, error.message, error.detail))


def page_position(text: str | None) -> int | None:
    """The position in the store that ``next`` of a page names."""
    return int(text) if text else None


def check_depth(value: object, *, name: str) -> None:
    """Raise `BadRequest` if a free-form value is nested so deeply that it could not be encoded again."""
    level: list[object] = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[object] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        if not below:
            return
        level = below
    raise BadRequest(f"{name!r} is nested more than {MAX_DEPTH} levels deep; flatten it", detail={"field": name})
