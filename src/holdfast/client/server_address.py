"""Where a server listens: a Unix socket, or a host and a port."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.errors import ConfigError
from holdfast.schema.base import Value


class ServerAddress(Value, frozen=True):
    """``path`` of a Unix socket, or ``host`` and ``port``."""

    path: str | None = None
    host: str = ""
    port: int = 0

    @classmethod
    def parse(cls, text: str, *, name: str = "the server's address") -> ServerAddress:
        """Parse ``unix:PATH`` or ``http://host:port``. ``name`` is what the error message calls the value."""
        if text.startswith("unix:"):
            path = text.removeprefix("unix:").removeprefix("//")
            if path.startswith("/") and "\0" not in path:
                return cls(path=path)
        elif text.startswith("http://"):
            host, _, port = text.removeprefix("http://").rstrip("/").rpartition(":")
            host = host[1:-1] if host.startswith("[") and host.endswith("]") else "" if ":" in host else host
            if host and not set(host) & set("/?#@ ") and port.isascii() and port.isdigit() and 0 < int(port) < 65536:
                return cls(host=host, port=int(port))
        raise ConfigError(f"{name} must be unix:/PATH or http://host:port, got {text!r}")

    @property
    def authority(self) -> str:
        """The value of the ``Host`` header."""
        if self.path is not None:
            return "localhost"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"unix:{self.path}" if self.path is not None else f"http://{self.authority}"


def address_from_env(env: Mapping[str, str]) -> ServerAddress | None:
    """The address in ``HOLDFAST_SERVER``, if it is set."""
    text = env.get("HOLDFAST_SERVER")
    return ServerAddress.parse(text, name="HOLDFAST_SERVER") if text else None
