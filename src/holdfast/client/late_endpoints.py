"""The modules in `endpoints`, each imported at the first call that it builds.

One command uses a few calls of the API, and most modules need schemas that only they use. A client that lives long
imports those that it uses when it starts, because another version may be installed meanwhile.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LateEndpoints:
    """Has the functions of one module."""

    def __init__(self, name: str) -> None:
        self.name = f"{__package__}.endpoints.{name}"

    def __getattr__(self, function: str) -> LateFunction:
        return LateFunction(self.name, function)


class LateFunction:
    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(self._module), self._name)(*args, **kwargs)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        found: str | None = getattr(import_module(self._module), self._name).__doc__
        return found


approval_endpoints = LateEndpoints("approval_endpoints")
connect_endpoints = LateEndpoints("connect_endpoints")
device_endpoints = LateEndpoints("device_endpoints")
extension_endpoints = LateEndpoints("extension_endpoints")
people_endpoints = LateEndpoints("people_endpoints")
run_endpoints = LateEndpoints("run_endpoints")
server_endpoints = LateEndpoints("server_endpoints")
session_endpoints = LateEndpoints("session_endpoints")
setting_endpoints = LateEndpoints("setting_endpoints")
workspace_endpoints = LateEndpoints("workspace_endpoints")


ALL_ENDPOINTS = (
    approval_endpoints,
    connect_endpoints,
    device_endpoints,
    extension_endpoints,
    people_endpoints,
    run_endpoints,
    server_endpoints,
    session_endpoints,
    setting_endpoints,
    workspace_endpoints,
)


def load_endpoints(*modules: LateEndpoints) -> None:
    """Import these modules now."""
    for module in modules:
        import_module(module.name)
