"""Load the configuration: join the layers into typed settings, and record where each value came from.

The layers, each overriding those before it: defaults, proxy and certificate variables of the environment, the user's
``config.toml``, the file that ``HOLDFAST_CONFIG`` names, the project's files from the repository's root down to the
workspace (if trusted), ``HOLDFAST_…`` variables, flags. Tables merge; scalars and lists replace. A project's
``approvals.deny`` only adds rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast.config.setting_checks import check_layer, check_settings
from holdfast.config.setting_decoder import SettingProblem, decode
from holdfast.config.setting_layers import (
    FILE_KINDS,
    Layer,
    Origin,
    checked_key,
    common_variables,
    extra_layer,
    file_layer,
    flag_layers,
    own_variables,
    project_layers,
)
from holdfast.config.settings import Settings
from holdfast.config.toml_document import KeyPath, format_key
from holdfast.config.value_types import Leaf
from holdfast.errors import ConfigError
from holdfast.locations import Locations

_MAX_PROBLEMS = 20


class Config(msgspec.Struct, frozen=True):
    """The settings in effect, and where they came from."""

    settings: Settings
    origins: Mapping[KeyPath, Origin] = {}
    files: tuple[Path, ...] = ()
    """Files that were read, lowest layer first."""
    untrusted: tuple[Path, ...] = ()
    """Project files that were not read because their directory is not trusted."""
    warnings: tuple[str, ...] = ()

    def get(self, key: str) -> Any:
        """Return a value by its dotted key as plain data, secrets hidden. `ConfigError` if unknown."""
        found: Any = self.settings
        for part in checked_key(key):
            match found:
                case msgspec.Struct() if part in found.__struct_fields__:
                    found = getattr(found, part)
                case dict() if part in found:
                    found = found[part]
                case _:
                    raise ConfigError(f"{key!r} is not set; run 'holdfast config get' to list all settings")
        return plain(found)

    def origin(self, key: str) -> Origin:
        """Where a value came from; for a table, the highest layer that sets a key in it."""
        path = checked_key(key)
        for size in range(len(path), 0, -1):
            if found := self.origins.get(path[:size]):
                return found
        inside = [origin for found_path, origin in self.origins.items() if found_path[: len(path)] == path]
        return inside[-1] if inside else Origin()


def load_config(
    locations: Locations,
    *,
    env: Mapping[str, str],
    workspace: Path | None = None,
    trusted: Callable[[Path], bool] = lambda directory: False,
    flags: Mapping[str, Any] | None = None,
) -> Config:
    """Read and join all layers. Blocks: call it in a thread, or before the loop runs.

    `flags` are values by dotted key. `ConfigError` names file, line and key of every problem.
    """
    in_project, untrusted = project_layers(workspace, trusted=trusted) if workspace else ([], ())
    layers = [
        *common_variables(env),
        file_layer(locations.config_file, kind="user"),
        extra_layer(env),
        *in_project,
        *own_variables(env),
        *flag_layers(flags or {}),
    ]
    return join([layer for layer in layers if layer], untrusted=untrusted)


def join(layers: Sequence[Layer], *, untrusted: tuple[Path, ...] = ()) -> Config:
    """Typed settings from layers, lowest first."""
    settings = user = Settings()
    data: dict[str, Any] = {}
    origins: dict[KeyPath, Origin] = {}
    warnings: list[str] = []
    for layer in layers:
        problems, layer_warnings = check_layer(layer, user=user)
        raise_problems(problems, [layer])
        warnings += layer_warnings
        data = merge(data, _with_denies_added(layer.data, data) if layer.kind == "project" else layer.data)
        settings, problems = decode(data)
        raise_problems(problems, layers)
        user = user if layer.kind == "project" else settings
        _record(origins, layer)
    raise_problems(check_settings(settings), layers)
    files = tuple(Path(layer.source) for layer in layers if layer.kind in FILE_KINDS)
    return Config(settings, origins, files, untrusted, tuple(warnings))


def merge(lower: dict[str, Any], upper: dict[str, Any]) -> dict[str, Any]:
    """Tables merge, everything else replaces."""
    merged = dict(lower)
    for key, value in upper.items():
        below = merged.get(key)
        merged[key] = merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def raise_problems(problems: Sequence[SettingProblem], layers: Sequence[Layer]) -> None:
    """One error for all problems, each with the file and line that caused it."""
    if not problems:
        return
    lines = []
    details = []
    for problem in problems[:_MAX_PROBLEMS]:
        origin = _origin_of(problem.key, layers)
        where = origin.source if origin.line is None else f"{origin.source}:{origin.line}"
        lines.append(f"{where}: {problem}" if where else str(problem))
        file = origin.source if origin.layer in FILE_KINDS else None
        details.append({"file": file, "line": origin.line, "key": format_key(problem.key), "message": problem.message})
    if left := len(problems) - _MAX_PROBLEMS:
        lines += [f"and {left} more"] if left > 0 else []
    raise ConfigError("\n".join(lines), detail={**details[0], "problems": details})


def plain(value: Any) -> Any:
    """Convert settings to plain values for display: durations as text, secrets hidden, unset keys omitted."""
    match value:
        case Leaf():
            return value.to_config()
        case msgspec.Struct():
            found = ((name, getattr(value, name)) for name in value.__struct_fields__)
            return {name: plain(item) for name, item in found if item is not None}
        case dict():
            return {name: plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
    return value


def _with_denies_added(data: dict[str, Any], below: dict[str, Any]) -> dict[str, Any]:
    """A project adds to the user's deny rules and cannot remove any."""
    added = data.get("approvals", {}).get("deny")
    if added is None:
        return data
    before = below.get("approvals", {}).get("deny", [])
    return merge(data, {"approvals": {"deny": [*before, *(rule for rule in added if rule not in before)]}})


def _record(origins: dict[KeyPath, Origin], layer: Layer) -> None:
    for path in _leaves(layer.data, ()):
        for old in [old for old in origins if old[: len(path)] == path or path[: len(old)] == old]:
            del origins[old]
        origins[path] = layer.origin(path)


def _leaves(data: dict[str, Any], path: KeyPath) -> Iterator[KeyPath]:
    for key, value in data.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key)


def _origin_of(key: KeyPath, layers: Sequence[Layer]) -> Origin:
    """The highest layer that sets a key, or else the nearest of its parents."""
    for size in range(len(key), 0, -1):
        for layer in reversed(layers):
            if _sets(layer.data, key[:size]):
                return layer.origin(key)
    return layers[-1].origin(key) if layers else Origin()


def _sets(data: Any, path: KeyPath) -> bool:
    for part in path:
        if not isinstance(data, dict) or part not in data:
            return False
        data = data[part]
    return True
