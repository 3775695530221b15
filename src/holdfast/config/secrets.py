"""Keys: kept apart in a file only their owner can read, fetched where the configuration says, never shown.

`Keyring` is the one place that turns a source into a key. It remembers what it saw, so that everything that leaves
the server can be redacted (W8).
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import msgspec

from holdfast.config.config_files import READABLE_BY_OTHERS, exclusive, problem_with, read_bytes, write_bytes
from holdfast.config.redaction import Redactor
from holdfast.config.setting_checks import configured_secrets, secret_variables
from holdfast.config.settings import Settings
from holdfast.config.value_types import KeySource, Secret
from holdfast.errors import ConfigError, ModelAuth

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_LARGEST_KEY = 1 << 16


class _Document(msgspec.Struct):
    keys: dict[str, str] = {}
    version: int = 1


class SecretStore:
    """Keys by provider, in a file of mode 0600. Its methods block: call them in a thread."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, Secret]:
        return {name: Secret(key) for name, key in self._read().items()}

    def put(self, name: str, key: Secret) -> None:
        """Store a provider's key, in place of an earlier one."""
        if not _NAME.fullmatch(name):
            raise ConfigError(f"{name!r} is no name of a provider")
        try:
            text = clean_key(key.reveal())
        except ValueError as error:
            raise ConfigError(f"the key for {name!r} cannot be stored: {error}") from None
        with exclusive(self._path):
            self._write({**self._read(), name: text})

    def remove(self, name: str) -> bool:
        """Forget a provider's key; whether there was one."""
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
            return msgspec.json.decode(data, type=_Document).keys
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise problem_with(self._path, "is damaged; remove it and set your keys again") from None

    def _write(self, keys: dict[str, str]) -> None:
        write_bytes(self._path, msgspec.json.encode(_Document(keys=dict(sorted(keys.items())))) + b"\n")


class Keyring:
    """Finds keys, remembers them for redaction, and gives them to nobody but who asks for one by its source."""

    def __init__(self, store: SecretStore, *, env: Mapping[str, str], command_timeout: float = 15.0) -> None:
        self._store = store
        self._env = env
        self._command_timeout = command_timeout
        self._known: frozenset[Secret] = frozenset()
        self._from_commands: dict[KeySource, Secret] = {}
        self._redactor = Redactor()

    @property
    def redactor(self) -> Redactor:
        """For what is known now; ask again for each piece of work, since more may become known."""
        return self._redactor

    def known_secrets(self) -> frozenset[Secret]:
        return self._known

    def remember(self, secrets: Iterable[Secret]) -> None:
        """Redact these from now on."""
        known = self._known.union(secret for secret in secrets if secret)
        if known != self._known:
            self._known = known
            self._redactor = Redactor(known)

    async def learn(self, settings: Settings) -> frozenset[str]:
        """Redact every key that the configuration, the environment and our own file hold, before any is used.

        Call it for each configuration that is loaded. Returns the providers that have a stored key, for `Catalogue`.
        """
        named = (self._env.get(variable, "").strip() for variable in secret_variables(settings))
        self.remember([*configured_secrets(settings), *map(Secret, named)])
        return await self.stored_names()

    async def stored_names(self) -> frozenset[str]:
        """Providers that have a stored key. All stored keys are redacted from here on."""
        import asyncio

        keys = await asyncio.to_thread(self._store.read)
        self.remember(keys.values())
        return frozenset(keys)

    async def resolve(self, source: KeySource) -> Secret:
        """The key, wherever it is. `ModelAuth` says what to do if it is not there, and never shows output."""
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

    def forget(self, source: KeySource) -> None:
        """Ask a command again next time: the provider did not take its key."""
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


def clean_key(text: str) -> str:
    """A key without the white space around it; `ValueError` if it could not be the value of a header."""
    key = text.strip()
    if not key:
        raise ValueError("there is no key in it")
    if len(key) > _LARGEST_KEY or not key.isprintable() or not key.isascii():
        raise ValueError("a key is one line of plain characters")
    return key


def has_key(source: KeySource, *, env: Mapping[str, str], stored: Collection[str]) -> bool:
    """Whether a source promises a key, without running or reading anything."""
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
    """Where the key of `name` is: as configured, else in one of its usual variables, else in our own file."""
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
