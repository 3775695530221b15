"""What a client sends of its own environment, so that runs behave as in the shell where they were typed.

The shell's variables go only to a server at a Unix socket: it runs on the same machine, as the same user. Another
server has its own programs and paths.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.client.server_address import ServerAddress
from holdfast.errors import ConfigError
from holdfast.schema.client_variables import select_variables

if TYPE_CHECKING:
    from holdfast.schema.api.response_bodies import ModelsView
    from holdfast.schema.runs import RunRequest
    from holdfast.schema.sessions import WorkspaceView


def shell_variables(
    env: Mapping[str, str], *, workspace: WorkspaceView, address: ServerAddress
) -> dict[str, str] | None:
    """The variables to send with a prompt or command; ``None``: the server uses those it was sent before."""
    if address.path is None or not workspace.variables:
        return None
    found = select_variables(env, workspace.variables)
    if named := found.get("HOLDFAST_CONFIG"):
        found["HOLDFAST_CONFIG"] = os.path.abspath(named)
    return found


def with_shell(
    request: RunRequest, env: Mapping[str, str], *, workspace: WorkspaceView, address: ServerAddress
) -> RunRequest:
    """The request with what the shell of the caller decides. Raises `ConfigError` for what would have no effect."""
    if address.path is not None:
        return replace(request, environment=shell_variables(env, workspace=workspace, address=address))
    for name in ("HOLDFAST_CONFIG", "HOLDFAST_SMALL_MODEL"):
        if env.get(name):
            raise ConfigError(
                f"{name} is set to {env[name]!r}, but the server at {address} has a configuration of its own; unset it"
            )
    return replace(request, model=request.model or env.get("HOLDFAST_MODEL") or None)


def with_shell_models(models: ModelsView, env: Mapping[str, str]) -> ModelsView:
    """The models, with the defaults that runs from this shell have."""
    large, small = env.get("HOLDFAST_MODEL", "").strip(), env.get("HOLDFAST_SMALL_MODEL", "").strip()
    return replace(models, large=large or models.large, small=small or models.small)
