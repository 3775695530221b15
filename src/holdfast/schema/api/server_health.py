"""The response that clients ask for first. It has its own module, so that a command imports no other responses."""

from typing import Annotated

from msgspec import Meta

from holdfast.schema.base import Value


class Health(Value, frozen=True):
    version: str
    build: str = ""
    """A digest of the source tree that the server runs; empty for an installed release."""
    status: Annotated[str, Meta(extra_json_schema={"enum": ["ok", "stopping"]})] = "ok"
