"""Conversions and checks of API values that several services share."""

from __future__ import annotations

from typing import TypeVar

from holdfast.errors import BadRequest, HoldfastError
from holdfast.events import Hub
from holdfast.schema.api.response_bodies import ErrorBody, ErrorDetail, PageView
from holdfast.schema.base import MAX_DEPTH, is_nested_deeper
from holdfast.store import Page

T = TypeVar("T")


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
    if is_nested_deeper(value, MAX_DEPTH):
        raise BadRequest(f"{name!r} is nested more than {MAX_DEPTH} levels deep; flatten it", detail={"field": name})
