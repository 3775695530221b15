"""People: the owners of tokens, what each may do, and in which directories."""

from __future__ import annotations

from holdfast.schema.base import Value
from holdfast.schema.devices import AccessScope


class Person(Value, frozen=True):
    """A person who uses the server with tokens of their own."""

    name: str
    """Identifies the person; never changes."""
    role: AccessScope = "watch"
    """What the person may do at most. A token may be narrower."""
    workspaces: tuple[str, ...] | None = None
    """The directories that the person may use, each with all directories below it; ``None``: all."""
    created_at: str = ""
    removed_at: str | None = None


class PersonToken(Value, frozen=True):
    """A new token of a person. The server stores its hash only, so it is shown once."""

    token: str
    device_id: str
    """`holdfast devices` lists it with this id."""


def covers(directories: tuple[str, ...], path: str) -> bool:
    """Whether a path is one of the directories or below one. All of them are resolved and absolute."""
    return any(path == one or path.startswith(one.rstrip("/") + "/") for one in directories)
