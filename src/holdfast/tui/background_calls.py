"""Calls of the server in the background of a screen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from textual.screen import Screen

from holdfast.errors import HoldfastError
from holdfast.tui.terminal_signals import plain_text


def call_in_background(
    screen: Screen[Any], work: Awaitable[object], *, on_error: Callable[[HoldfastError], None] | None = None
) -> None:
    """Run the work beside the interface. An error is shown, or given to ``on_error``."""

    async def call() -> None:
        try:
            await work
        except HoldfastError as error:
            if on_error is None:
                show_error(screen, error)
            else:
                on_error(error)

    screen.run_worker(call(), group="calls")


def show_error(screen: Screen[Any], error: HoldfastError) -> None:
    screen.notify(plain_text(error.message, longest=600), severity="error", markup=False)
