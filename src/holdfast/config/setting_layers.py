"""The sources of settings: files, variables and flags, each read into a layer of plain values."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from holdfast.config.config_files import problem_with, read_text
from holdfast.config.toml_document import KeyLines, KeyPath, TomlError, parse_key, parse_toml
from holdfast.errors import ConfigError
from holdfast.files import repository_root

LayerKind = Literal["default", "user", "extra", "project", "environment", "flag"]
FILE_KINDS: frozenset[LayerKind] = frozenset({"user", "extra", "project"})

_OWN_VARIABLES: Mapping[str, KeyPath] = {
    "HOLDFAST_MODEL": ("models", "large"),
    "HOLDFAST_SMALL_MODEL": ("models", "small"),
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

    def __str__(self) -> str:
        where = self.source if self.line is None else f"{self.source}:{self.line}"
        return f"{self.layer} ({where})" if where else self.layer


class Layer:
    """One source's values before they are decoded. They may contain a key, so a layer is not stored or shown."""

    __slots__ = ("data", "kind", "lines", "source")

    def __init__(self, kind: LayerKind, source: str, data: dict[str, Any], *, text: str = "") -> None:
        self.kind = kind
        self.source = source
        self.data = data
        self.lines = KeyLines(text)

    def __repr__(self) -> str:
        return f"Layer({self.kind!r}, {self.source!r})"

    def origin(self, path: KeyPath) -> Origin:
        return Origin(self.kind, self.source, self.lines.of(path))


def layer_from_text(text: str, *, kind: LayerKind, path: Path) -> Layer:
    try:
        data = parse_toml(text)
    except TomlError as error:
        raise problem_with(path, str(error), line=error.line) from None
    return Layer(kind, str(path), data, text=text)


def file_layer(path: Path, *, kind: LayerKind) -> Layer | None:
    """Read a file as a layer; `None` if it does not exist."""
    text = read_text(path)
    return None if text is None else layer_from_text(text, kind=kind, path=path)


def extra_layer(env: Mapping[str, str]) -> Layer | None:
    """Read the file that ``HOLDFAST_CONFIG`` names. That file must exist."""
    named = env.get("HOLDFAST_CONFIG")
    if not named:
        return None
    path = Path(os.path.abspath(named))
    if layer := file_layer(path, kind="extra"):
        return layer
    raise problem_with(path, "does not exist, but HOLDFAST_CONFIG names it")


def project_files(workspace: Path) -> tuple[Path, ...]:
    """Each ``.holdfast/config.toml`` that exists, from the repository's root down to the workspace."""
    real = Path(os.path.realpath(workspace))
    root = repository_root(real)
    below = [place for place in real.parents if place.is_relative_to(root)]
    files = (place / ".holdfast" / "config.toml" for place in (*reversed(below), real))
    return tuple(file for file in files if os.path.lexists(file))


def project_layers(workspace: Path, *, trusted: Callable[[Path], bool]) -> tuple[list[Layer], tuple[Path, ...]]:
    """Read the project files of trusted directories. Returns their layers, and the files that were not read."""
    layers = []
    untrusted = []
    for path in project_files(workspace):
        if not trusted(path.parent.parent):
            untrusted.append(path)
        elif layer := file_layer(path, kind="project"):
            layers.append(layer)
    return layers, tuple(untrusted)


def common_variables(env: Mapping[str, str]) -> Iterator[Layer]:
    """Read the proxy and certificate variables that many programs use. Configuration files override them."""
    for path, names in _COMMON_VARIABLES.items():
        if name := next((name for name in names if env.get(name)), None):
            value = _common_value(path[-1], env[name].strip())
            yield Layer("environment", name, _nested(path, value))


def own_variables(env: Mapping[str, str]) -> Iterator[Layer]:
    for name, path in _OWN_VARIABLES.items():
        if value := env.get(name, "").strip():
            yield Layer("environment", name, _nested(path, value))


def flag_layers(flags: Mapping[str, Any]) -> Iterator[Layer]:
    """Read the values given on the command line, by dotted key."""
    for key, value in flags.items():
        yield Layer("flag", key, _nested(checked_key(key), value))


def _common_value(key: str, text: str) -> Any:
    """Read a value as other programs do: hosts separated by commas, a proxy with or without a scheme."""
    if key == "no_proxy":
        return [host for part in text.split(",") if (host := part.strip())]
    return f"http://{text}" if key == "proxy" and "://" not in text else text


def checked_key(key: str) -> KeyPath:
    try:
        return parse_key(key)
    except ValueError as error:
        raise ConfigError(str(error), detail={"key": key}) from None


def _nested(path: KeyPath, value: Any) -> dict[str, Any]:
    for part in reversed(path):
        value = {part: value}
    return dict(value)
