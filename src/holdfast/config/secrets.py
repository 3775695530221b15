"""API keys: the file that stores them, where each one comes from, and which ones exist, for redaction.

`Keyring` is the only place that turns a source into a key. It remembers every key, so that everything that leaves the
server can be redacted (W8).
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import msgspec

from holdfast.config.config_files import READABLE_BY_OTHERS, exclusive, problem_with, read_bytes, write_bytes
from holdfast.config.provider_catalogue import PROVIDERS, SEARCH_VARIABLES
from holdfast.config.redaction import Redactor
from holdfast.config.setting_types import KeySource, Secret, is_name
from holdfast.config.settings import Settings
from holdfast.config.toml_document import KeyPath
from holdfast.errors import ConfigError, ModelAuth
from holdfast.schema.base import LateDecoder

_MAX_KEY_BYTES = 1 << 16

STORE_PASSWORD = "postgresql"
"""The name under which the password of the database is stored."""
FLEET_TOKEN_VARIABLE = "HOLDFAST_FLEET_TOKEN"
"""The variable with the token that the servers of a fleet share."""


class _KeyFile(msgspec.Struct):
    keys: dict[str, str] = {}
    version: int = 1


_key_file = LateDecoder(_KeyFile)


class SecretStore:
    """The file with the stored keys, by provider, mode 0600. Its methods block: call them in a thread."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, Secret]:
        return {name: Secret(key) for name, key in self._read().items()}

    def put(self, name: str, key: Secret) -> None:
        """Store a provider's key; replaces an earlier one."""
        if not is_name(name):
            raise ConfigError(f"{name!r} is not a valid provider name; use letters, digits, '.', '_' and '-'")
        try:
            text = clean_key(key.reveal())
        except ValueError as error:
            raise ConfigError(f"the key for {name!r} cannot be stored: {error}") from None
        with exclusive(self._path):
            self._write({**self._read(), name: text})

    def remove(self, name: str) -> bool:
        """Delete a provider's key. Returns whether there was one."""
        with exclusive(self._path):
            keys = self._read()
            if found := keys.pop(name, None) is not None:
                self._write(keys)
        return found

    def _read(self) -> dict[str, str]:
        data = read_bytes(self._path, forbidden_mode=READABLE_BY_OTHERS)
        if data is None:
            return {}
        try:
            return _key_file.decode(data).keys
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise problem_with(self._path, "is damaged; remove it and set your keys again") from None

    def _write(self, keys: dict[str, str]) -> None:
        write_bytes(self._path, msgspec.json.encode(_KeyFile(keys=dict(sorted(keys.items())))) + b"\n")


class Keyring:
    """Finds keys by their source and remembers them for redaction."""

    def __init__(self, store: SecretStore, *, env: Mapping[str, str], command_timeout: float = 15.0) -> None:
        self._store = store
        self._env = env
        self._command_timeout = command_timeout
        self._known: frozenset[Secret] = frozenset()
        self._from_commands: dict[KeySource, Secret] = {}
        self._redactor = Redactor()

    @property
    def redactor(self) -> Redactor:
        """Redacts the secrets known now. Read it again for each piece of work: more may become known."""
        return self._redactor

    def with_masks(self, secrets: Iterable[Secret]) -> Redactor:
        """Return a redactor that also removes these secrets and every well-known kind of key."""
        return Redactor(self._known.union(secrets), key_patterns=True)

    def remember(self, secrets: Iterable[Secret]) -> None:
        """Redact these secrets from now on."""
        known = self._known.union(secret for secret in secrets if secret)
        if known != self._known:
            self._known = known
            self._redactor = Redactor(known)

    async def learn(self, settings: Settings) -> frozenset[str]:
        """Redact every key in the configuration, the environment and the key file, before any is used.

        Call it for each loaded configuration. Returns the providers with a stored key, for `Catalogue`.
        """
        named = (self._env.get(variable, "").strip() for variable in secret_variables(settings))
        self.remember([*configured_secrets(settings), *map(Secret, named)])
        return await self.stored_names()

    async def stored_names(self) -> frozenset[str]:
        """Return the providers with a stored key. All stored keys are redacted from now on."""
        import asyncio

        keys = await asyncio.to_thread(self._store.read)
        self.remember(keys.values())
        return frozenset(keys)

    async def resolve(self, source: KeySource) -> Secret:
        """Fetch a key from its source. `ModelAuth` if there is none; it never shows a command's output."""
        if known := self._from_commands.get(source):
            return known
        try:
            key = Secret(clean_key(await self._fetch(source)))
        except ValueError as error:
            hint = "set it, or run 'holdfast key set PROVIDER'"
            raise ModelAuth(f"no key from {source.to_config()!r}: {error}; {hint}") from None
        if source.kind == "cmd":
            self._from_commands[source] = key
        self.remember([key])
        return key

    async def read_stored(self, name: str) -> Secret | None:
        """Return what is stored under a name, if anything."""
        import asyncio

        return (await asyncio.to_thread(self._store.read)).get(name)

    async def store(self, name: str, secret: Secret) -> None:
        """Store a secret in the key file under a name."""
        import asyncio

        await asyncio.to_thread(self._store.put, name, secret)

    async def remove_stored(self, name: str) -> bool:
        """Remove what is stored under a name. Returns whether there was something."""
        import asyncio

        return await asyncio.to_thread(self._store.remove, name)

    def forget(self, source: KeySource) -> None:
        """Run the command again next time, because the provider refused its key."""
        self._from_commands.pop(source, None)

    async def _fetch(self, source: KeySource) -> str:
        import asyncio

        match source.kind:
            case "literal":
                return source.literal.reveal() if source.literal else ""
            case "env":
                return self._env.get(source.argument, "")
            case "file":
                return await asyncio.to_thread(_read_key_file, Path(source.argument), self._env)
            case "stored":
                key = (await asyncio.to_thread(self._store.read)).get(source.argument)
                return key.reveal() if key else ""
            case "cmd":
                from holdfast.config.key_command import run_key_command

                return await run_key_command(source.argument, env=self._env, timeout=self._command_timeout)


def key_sources(settings: Settings) -> Iterator[tuple[KeyPath, KeySource]]:
    """Every configured key source, with its place in the configuration."""
    for name, provider in settings.providers.items():
        if provider.api_key:
            yield ("providers", name, "api_key"), provider.api_key
    if settings.web_search.api_key:
        yield ("web_search", "api_key"), settings.web_search.api_key


def secret_variables(settings: Settings) -> frozenset[str]:
    """Names of variables that hold keys. They are removed from the environment of tools, hooks and extensions (W8)."""
    names = set(_known_variables())
    names.update(source.argument for _, source in key_sources(settings) if source.kind == "env")
    for header, value in _headers(settings):
        if value.startswith("env:") and is_secret_name(f"{header} {value}"):
            names.add(value.removeprefix("env:"))
    return frozenset(names)


@cache
def _known_variables() -> frozenset[str]:
    """Those that hold keys whatever the settings are."""
    names = {"HOLDFAST_TOKEN", FLEET_TOKEN_VARIABLE, "HOLDFAST_STORE", "PGPASSWORD"}
    names.update(variable for provider in PROVIDERS.values() for variable in provider.key_env)
    names.update(variable for variables in SEARCH_VARIABLES.values() for variable in variables)
    return frozenset(names)


def configured_secrets(settings: Settings) -> Iterator[Secret]:
    """Secrets written in the configuration itself, for redaction."""
    for _, source in key_sources(settings):
        if source.literal:
            yield source.literal
    addresses = [settings.store, settings.network.proxy, settings.web_search.url]
    addresses += [provider.base_url for provider in settings.providers.values()]
    addresses += [server.url for server in settings.mcp.values()]
    for address in addresses:
        if address and (password := address.password):
            yield password
    for header, value in _headers(settings):
        if is_secret_name(header) and not value.startswith("env:"):
            yield from {Secret(value), Secret(value.rpartition(" ")[2])}  # also without its "Bearer"


def clean_key(text: str) -> str:
    """Strip white space. `ValueError` if the text cannot be the value of a header."""
    key = text.strip()
    if not key:
        raise ValueError("it is empty")
    if len(key) > _MAX_KEY_BYTES or not key.isprintable() or not key.isascii():
        raise ValueError("a key must be one line of printable ASCII")
    return key


def has_key(source: KeySource, *, env: Mapping[str, str], stored: Collection[str]) -> bool:
    """Whether a source should have a key. Runs no command and reads no file."""
    match source.kind:
        case "env":
            return bool(env.get(source.argument, "").strip())
        case "stored":
            return source.argument in stored
        case "file" | "cmd" | "literal":
            return True


def find_source(
    configured: KeySource | None,
    *,
    name: str,
    variables: Collection[str],
    env: Mapping[str, str],
    stored: Collection[str],
) -> KeySource | None:
    """Where the key of `name` is: the configured source, else one of its usual variables, else the key file."""
    usual = (KeySource("env", variable) for variable in variables)
    candidates = [configured] if configured else [*usual, KeySource("stored", name)]
    return next((source for source in candidates if has_key(source, env=env, stored=stored)), None)


def _read_key_file(path: Path, env: Mapping[str, str]) -> str:
    if path.parts[0] == "~":
        path = Path(env.get("HOME") or os.path.expanduser("~"), *path.parts[1:])
    data = read_bytes(path, forbidden_mode=READABLE_BY_OTHERS)
    if data is None:
        raise ModelAuth(f"the key file {str(path)!r} does not exist")
    return data.decode("utf-8", "replace")


def _headers(settings: Settings) -> Iterator[tuple[str, str]]:
    for provider in settings.providers.values():
        yield from provider.headers.items()
    for server in settings.mcp.values():
        yield from (*server.headers.items(), *server.env.items())


def is_secret_name(name: str) -> bool:
    """Whether a header or variable with this name may hold a credential."""
    return re.search(r"auth|key|token|secret|password|cookie|credential", name, re.IGNORECASE) is not None
