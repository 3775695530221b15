"""How a client names itself, and how it proves that it may ask."""

from __future__ import annotations

from holdfast import __version__
from holdfast.errors import ConfigError
from holdfast.ids import Ids


def identity_headers(name: str, *, token: str | None) -> dict[str, str]:
    """Sent with every request: ``name/version id``, by which others see who asked (`W7`), and the token."""
    headers = {"X-Holdfast-Client": f"{name}/{__version__} {Ids().new('cli')}"}
    if token:
        if not token.isascii() or not token.isprintable() or " " in token:
            raise ConfigError("the server's token must be printable and without spaces; check HOLDFAST_TOKEN")
        headers["Authorization"] = f"Bearer {token}"
    return headers
