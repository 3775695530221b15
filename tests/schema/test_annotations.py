"""The values that every client decodes have types as annotations, not texts that msgspec compiles for each decoder."""

from importlib import import_module

import msgspec
import pytest


@pytest.mark.parametrize("name", ["usage", "messages", "runs", "sessions", "events", "api.server_views"])
def test_annotations_are_types(name: str) -> None:
    module = import_module(f"holdfast.schema.{name}")
    values = [kind for kind in vars(module).values() if isinstance(kind, msgspec.StructMeta)]
    own = [kind for kind in values if kind.__module__ == module.__name__]
    assert own
    assert [kind for kind in own if any(isinstance(each, str) for each in kind.__annotations__.values())] == []
