"""Pages of the store, as clients see them."""

from __future__ import annotations

from typing import TypeVar

from holdfast.events import Hub
from holdfast.schema.api.response_bodies import PageView
from holdfast.store import Page

T = TypeVar("T")


def page_view(page: Page[T], hub: Hub) -> PageView[T]:
    """The same items, with the cursor that they are true at (`E7`)."""
    return PageView(page.items, hub.cursor_at(page.at), None if page.next is None else str(page.next))
