"""A project's own settings: where they are, and what they may not say.

Trusting a directory lets it run its code and choose its rules. It never lets it near the user's keys, so a project's
file may not name a key, send an existing provider's key elsewhere, or change how the network and the server work.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from holdfast.config.setting_decoding import Problem
from holdfast.files import repository_root

_USERS_ONLY = ("server", "network")


def project_files(workspace: Path) -> tuple[Path, ...]:
    """Each ``.holdfast/config.toml`` that is there, from the repository's root down to the workspace."""
    real = Path(os.path.realpath(workspace))
    root = repository_root(real)
    below = [place for place in real.parents if place.is_relative_to(root)]
    files = (place / ".holdfast" / "config.toml" for place in (*reversed(below), real))
    return tuple(file for file in files if os.path.lexists(file))


def refused_in_project(
    data: dict[str, Any], *, providers: Collection[str], variables: Collection[str]
) -> Iterator[Problem]:
    """What a project's file says and may not.

    `providers`: those that exist without it. `variables`: those that hold the user's keys.
    """
    for table in _USERS_ONLY:
        if table in data:
            yield Problem((table,), "can only be set in your own configuration, not by a project")
    for name, provider in _tables(data.get("providers")):
        path = ("providers", name)
        if name in providers:
            for key in ("base_url", "wire", "headers"):
                if key in provider:
                    yield Problem((*path, key), f"a project cannot change where the key of {name!r} is sent")
        if "api_key" in provider:
            yield Problem((*path, "api_key"), f"a project cannot name a key; run 'holdfast key set {name}' instead")
        for header, value in _texts(provider.get("headers")):
            if value.startswith("env:"):
                yield Problem((*path, "headers", header), "a project cannot send your variables to a provider")
    for name, server in _tables(data.get("mcp")):
        for key in ("env", "headers"):
            for item, value in _texts(server.get(key)):
                if value.removeprefix("env:") in variables and value.startswith("env:"):
                    yield Problem(("mcp", name, key, item), "a project cannot pass on a variable that holds a key")
    search = data.get("web_search")
    for key in ("api_key", "url"):
        if isinstance(search, dict) and key in search:
            yield Problem(("web_search", key), "can only be set in your own configuration, not by a project")


def _tables(value: object) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        yield from ((name, table) for name, table in value.items() if isinstance(table, dict))


def _texts(value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        yield from ((name, text) for name, text in value.items() if isinstance(text, str))
