"""Read the layers of the configuration and merge them into typed settings; record where each value came from.

The layers, each overriding those before it: defaults, proxy and certificate variables of the environment, the user's
``config.toml``, the file that ``HOLDFAST_CONFIG`` names, the project's files from the repository's root down to the
workspace (if trusted), ``HOLDFAST_…`` variables, flags, the managed policy. Tables merge; scalars and lists replace.
``approvals.deny`` of a project or of the policy only adds rules.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from holdfast.config.config_files import problem_with, read_text
from holdfast.config.managed_policy import NO_POLICY, Policy, clamped_mode, policy_layer_data, setting_paths
from holdfast.config.secrets import key_sources
from holdfast.config.setting_types import Leaf
from holdfast.config.setting_validation import SettingProblem, check_project, check_settings, decode
from holdfast.config.settings import Settings
from holdfast.config.toml_document import KeyLines, KeyPath, TomlError, format_key, parse_key, parse_toml
from holdfast.errors import ConfigError
from holdfast.files import repository_root
from holdfast.locations import Locations

LayerKind = Literal["default", "user", "extra", "project", "environment", "flag", "policy"]
_FILE_KINDS: frozenset[LayerKind] = frozenset({"user", "extra", "project", "policy"})

_MAX_PROBLEMS = 20
_OWN_VARIABLES: Mapping[str, KeyPath] = {
    "HOLDFAST_MODEL": ("models", "large"),
    "HOLDFAST_SMALL_MODEL": ("models", "small"),
    "HOLDFAST_STORE": ("store",),
}
_COMMON_VARIABLES: Mapping[KeyPath, tuple[str, ...]] = {
    ("network", "proxy"): ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy"),
    ("network", "no_proxy"): ("NO_PROXY", "no_proxy"),
    ("network", "ca_file"): ("SSL_CERT_FILE",),
}


class Origin(msgspec.Struct, frozen=True):
    """Which layer set a value, and its file, variable or flag."""

    layer: LayerKind = "default"
    source: str = ""
    line: int | None = None

    @property
    def place(self) -> str:
        """The source, with the line if it is known."""
        return self.source if self.line is None else f"{self.source}:{self.line}"

    def __str__(self) -> str:
        return f"{self.layer} ({self.place})" if self.place else self.layer


class Layer:
    """One source's values before they are decoded. They may contain a key, so a layer is not stored or shown."""

    __slots__ = ("_inside", "data", "kind", "lines", "source")

    def __init__(
        self,
        kind: LayerKind,
        source: str,
        data: dict[str, Any],
        *,
        text: str = "",
        lines: KeyLines | None = None,
        inside: KeyPath = (),
    ) -> None:
        """``inside``: the table of the file in which the settings are."""
        self.kind = kind
        self.source = source
        self.data = data
        self.lines = lines or KeyLines(text)
        self._inside = inside

    def __repr__(self) -> str:
        return f"Layer({self.kind!r}, {self.source!r})"

    def origin(self, path: KeyPath) -> Origin:
        return Origin(self.kind, self.source, self.lines.of((*self._inside, *path)))


class Config(msgspec.Struct, frozen=True):
    """The settings in effect, and where they came from."""

    settings: Settings
    origins: Mapping[KeyPath, Origin] = {}
    files: tuple[Path, ...] = ()
    """Files that were read, lowest layer first."""
    untrusted: tuple[Path, ...] = ()
    """Project files that were not read because their directory is not trusted."""
    warnings: tuple[str, ...] = ()
    policy: Policy = NO_POLICY
    """The managed policy. It is part of `settings` already, except what runs choose."""


def load_config(
    locations: Locations,
    *,
    env: Mapping[str, str],
    workspace: Path | None = None,
    trusted: Callable[[Path], bool] = lambda directory: False,
    flags: Mapping[str, Any] | None = None,
    policy: Policy = NO_POLICY,
) -> Config:
    """Read and join all layers. Blocks: call it in a thread, or before the loop runs.

    `flags` are values by dotted key. `ConfigError` names file, line and key of every problem.
    """
    in_project, untrusted = _project_layers(workspace, trusted=trusted) if workspace else ([], ())
    layers = [
        *_common_variables(env),
        _file_layer(locations.config_file, kind="user"),
        _extra_layer(env),
        *in_project,
        *_own_variables(env),
        *_flag_layers(flags or {}),
    ]
    return join([layer for layer in layers if layer], untrusted=untrusted, policy=policy)


def join(layers: Sequence[Layer], *, untrusted: tuple[Path, ...] = (), policy: Policy = NO_POLICY) -> Config:
    """Merge layers, lowest first, into typed settings. The policy is over all of them."""
    settings = user = Settings()
    data: dict[str, Any] = {}
    origins: dict[KeyPath, Origin] = {}
    warnings: list[str] = []
    for layer in layers:
        alone, found = _check_layer(layer, user=user)
        warnings += found
        if data:
            data = merge(data, _with_denies_added(layer.data, data) if layer.kind == "project" else layer.data)
            settings, problems = decode(data)
            _raise_problems(problems, layers)
        else:
            data, settings = layer.data, alone
        user = user if layer.kind == "project" else settings
        _record(origins, layer)
    if policy:
        layer = _policy_layer(policy, data, settings)
        warnings += _overridden(layer, data, origins)
        data = merge(_without_replaced_hooks(data, layer.data), layer.data)
        settings, problems = decode(data)
        layers = [*layers, layer]
        _raise_problems(problems, layers)
        _record(origins, layer)
    _raise_problems(check_settings(settings), layers)
    files = tuple(Path(layer.source) for layer in layers if layer.kind in _FILE_KINDS)
    return Config(settings, origins, files, untrusted, tuple(warnings), policy)


def _policy_layer(policy: Policy, below: dict[str, Any], settings: Settings) -> Layer:
    """The policy as a layer. A mode that it does not allow is replaced by a stricter one."""
    data = policy_layer_data(policy, below)
    if (mode := clamped_mode(policy, settings.approvals.mode)) != settings.approvals.mode:
        data = merge(data, {"approvals": {"mode": mode}})
    return Layer("policy", policy.source, data, lines=policy.lines, inside=("settings",))


def _overridden(layer: Layer, below: dict[str, Any], origins: Mapping[KeyPath, Origin]) -> list[str]:
    """Say which values of other layers the policy overrides."""
    return [
        f"{origins[path].place}: {format_key(path)} is not used: the managed policy {layer.source} sets it"
        for path in setting_paths(layer.data)
        if path in origins and path != ("approvals", "deny")
    ]


def _without_replaced_hooks(data: dict[str, Any], policy: dict[str, Any]) -> dict[str, Any]:
    """A hook of the policy keeps nothing of a hook with the same name."""
    hooks = data.get("hooks")
    if not isinstance(hooks, dict) or "hooks" not in policy:
        return data
    return {**data, "hooks": {name: hook for name, hook in hooks.items() if name not in policy["hooks"]}}


def _check_layer(layer: Layer, *, user: Settings) -> tuple[Settings, list[str]]:
    """Validate one layer by itself. `ConfigError` for its problems; returns its settings and its warnings.

    `user`: the settings of the user's lower layers.
    """
    settings, problems = decode(layer.data)
    if layer.kind == "project":
        problems += check_project(layer.data, user=user)
    _raise_problems(problems, [layer])
    return settings, [_plain_text_key(layer, path, settings) for path in _literal_keys(layer, settings)]


def _literal_keys(layer: Layer, settings: Settings) -> list[KeyPath]:
    return [path for path, source in key_sources(settings) if source.literal and layer.kind in ("user", "extra")]


def _plain_text_key(layer: Layer, path: KeyPath, settings: Settings) -> str:
    name = settings.web_search.provider if path[0] == "web_search" else path[1]
    advice = f"run 'holdfast key set {name}' to store it in a file that only you can read"
    return f"{layer.origin(path).place}: {format_key(path)} is a key in plain text; {advice}"


def merge(lower: dict[str, Any], upper: dict[str, Any]) -> dict[str, Any]:
    """Tables merge, everything else replaces."""
    merged = dict(lower)
    for key, value in upper.items():
        below = merged.get(key)
        merged[key] = merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _raise_problems(problems: Sequence[SettingProblem], layers: Sequence[Layer]) -> None:
    """One error for all problems, each with the file and line that caused it."""
    if not problems:
        return
    lines = []
    details = []
    for problem in problems[:_MAX_PROBLEMS]:
        origin = _origin_of(problem.key, layers)
        lines.append(f"{origin.place}: {problem}" if origin.place else str(problem))
        file = origin.source if origin.layer in _FILE_KINDS else None
        details.append({"file": file, "line": origin.line, "key": format_key(problem.key), "message": problem.message})
    if len(problems) > _MAX_PROBLEMS:
        lines.append(f"and {len(problems) - _MAX_PROBLEMS} more")
    raise ConfigError("\n".join(lines), detail={**details[0], "problems": details})


def plain_values(value: Any) -> Any:
    """Convert settings to plain values for display: durations as text, secrets hidden, unset keys omitted."""
    match value:
        case Leaf():
            return value.to_config()
        case msgspec.Struct():
            found = ((name, getattr(value, name)) for name in value.__struct_fields__)
            return {name: plain_values(item) for name, item in found if item is not None}
        case dict():
            return {name: plain_values(item) for name, item in value.items()}
        case list() | tuple():
            return [plain_values(item) for item in value]
    return value


def _with_denies_added(data: dict[str, Any], below: dict[str, Any]) -> dict[str, Any]:
    """A project adds to the user's deny rules and cannot remove any."""
    added = data.get("approvals", {}).get("deny")
    if added is None:
        return data
    before = below.get("approvals", {}).get("deny", [])
    return merge(data, {"approvals": {"deny": [*before, *(rule for rule in added if rule not in before)]}})


def _record(origins: dict[KeyPath, Origin], layer: Layer) -> None:
    lower = tuple(origins)  # the keys of one layer do not replace each other
    for path in _leaves(layer.data, ()):
        for old in lower:
            if old[: len(path)] == path or path[: len(old)] == old:
                origins.pop(old, None)
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


def layer_from_text(text: str, *, kind: LayerKind, path: Path) -> Layer:
    try:
        data = parse_toml(text)
    except TomlError as error:
        raise problem_with(path, str(error), line=error.line) from None
    return Layer(kind, str(path), data, text=text)


def _file_layer(path: Path, *, kind: LayerKind) -> Layer | None:
    """Read a file as a layer; `None` if it does not exist."""
    text = read_text(path)
    return None if text is None else layer_from_text(text, kind=kind, path=path)


def _extra_layer(env: Mapping[str, str]) -> Layer | None:
    """Read the file that ``HOLDFAST_CONFIG`` names. That file must exist."""
    named = env.get("HOLDFAST_CONFIG")
    if not named:
        return None
    path = Path(os.path.abspath(named))
    if layer := _file_layer(path, kind="extra"):
        return layer
    raise problem_with(path, "does not exist, but HOLDFAST_CONFIG names it")


def project_files(workspace: Path) -> tuple[Path, ...]:
    """Each ``.holdfast/config.toml`` that exists, from the repository's root down to the workspace."""
    real = Path(os.path.realpath(workspace))
    root = repository_root(real)
    below = [place for place in real.parents if place.is_relative_to(root)]
    files = (place / ".holdfast" / "config.toml" for place in (*reversed(below), real))
    return tuple(file for file in files if os.path.lexists(file))


def _project_layers(workspace: Path, *, trusted: Callable[[Path], bool]) -> tuple[list[Layer], tuple[Path, ...]]:
    """Read the project files of trusted directories. Returns their layers, and the files that were not read."""
    layers = []
    untrusted = []
    for path in project_files(workspace):
        if not trusted(path.parent.parent):
            untrusted.append(path)
        elif layer := _file_layer(path, kind="project"):
            layers.append(layer)
    return layers, tuple(untrusted)


def _common_variables(env: Mapping[str, str]) -> Iterator[Layer]:
    """Read the proxy and certificate variables that many programs use. Configuration files override them."""
    for path, names in _COMMON_VARIABLES.items():
        if name := next((name for name in names if env.get(name)), None):
            value = _common_value(path[-1], env[name].strip())
            yield Layer("environment", name, _nested(path, value))


def _own_variables(env: Mapping[str, str]) -> Iterator[Layer]:
    for name, path in _OWN_VARIABLES.items():
        if value := env.get(name, "").strip():
            yield Layer("environment", name, _nested(path, value))


def _flag_layers(flags: Mapping[str, Any]) -> Iterator[Layer]:
    """Read the values given on the command line, by dotted key."""
    for key, value in flags.items():
        yield Layer("flag", key, _nested(checked_key(key), value))


def _common_value(key: str, text: str) -> Any:
    """Read a value as other programs do: hosts separated by commas, a proxy with or without a scheme."""
    if key == "no_proxy":
        return [host for part in text.split(",") if (host := part.strip())]
    return f"http://{text}" if key == "proxy" and "://" not in text else text


def checked_key(key: str) -> KeyPath:
    """Parse a dotted key. `ConfigError` if it is not one."""
    try:
        return parse_key(key)
    except ValueError as error:
        raise ConfigError(str(error), detail={"key": key}) from None


def _nested(path: KeyPath, value: Any) -> dict[str, Any]:
    """A document with this one value."""
    for part in reversed(path):
        value = {part: value}
    return dict(value)
