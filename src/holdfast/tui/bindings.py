"""Textual key bindings made from the table of actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from textual.app import App
from textual.binding import Binding

from holdfast.tui.actions import Scope, action_named, actions_in, shown_key

_IMMEDIATE: frozenset[Scope] = frozenset({"everywhere", "sessions", "models"})
"""Scopes whose keys work before the focused widget sees them as text."""


def bindings_for(scope: Scope, *, without: frozenset[str] = frozenset()) -> list[Binding]:
    return [
        Binding(action.keys, action.name, action.does, show=False, id=action.name, priority=scope in _IMMEDIATE)
        for action in actions_in(scope)
        if action.name not in without
    ]


def keys_of(app: App[Any], name: str) -> str:
    """All keys of an action as configured."""
    configured: Mapping[str, str] = getattr(app, "configured_keys", {})
    return configured.get(name) or action_named(name).keys


def key_of(app: App[Any], name: str) -> str:
    """The first key of an action as configured, as people write it."""
    return shown_key(keys_of(app, name))


def hints(app: App[Any], *names: str) -> str:
    """``enter send · esc cancel``."""
    shown = ((key_of(app, name), action_named(name)) for name in names)
    return " · ".join(f"{key} {action.hint or action.does}" for key, action in shown)
