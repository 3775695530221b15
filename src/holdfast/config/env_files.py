"""The secrets in a workspace's ``.env`` files. Blocking: call it in a thread.

Values that look like secrets are kept: those of a name such as ``API_KEY``, passwords in addresses, and long random
texts. Others, such as ``production`` or a port, are ordinary words that a model must be able to read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from holdfast.config.secret_forms import MIN_LENGTH
from holdfast.config.setting_types import Secret
from holdfast.files import read_limited

_MAX_FILE_BYTES = 64 * 1024
_MAX_DIRECTORIES = 64
_MAX_FILES = 32
_MAX_DEPTH = 12
_MAX_DEEP_DIRECTORIES = 2_000
_MAX_DEEP_FILES = 256
_MAX_SECRETS = 200
_MIN_RANDOM = 20
_EXAMPLES = frozenset({"example", "examples", "sample", "template", "dist", "defaults"})
_SKIPPED = frozenset({"node_modules", "venv", "target", "dist", "build", "vendor", "__pycache__"})
_ENV_COMMAND = r"\.env|\.e[*?\[]|\.\*|\b(?:e|f)?grep\b|\b(?:rg|ag|ack|find|tar|xargs)\b"  # compiled when used
_LINE = r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=[ \t]*(.*)"
_SECRET_NAME = r"(?i)auth|key|token|secret|passw|pwd|cookie|credential|private|signature|salt|dsn|webhook"
_PLACEHOLDER = r"(?i)your|my|change|replace|insert|example|placeholder|dummy|todo|xxx|\*\*\*|<|\$\{"


def is_env_file(name: str) -> bool:
    """Whether a file of this name holds a project's environment. Examples that are meant to be shared do not count."""
    parts = name.lower().split(".")
    return parts[:2] in (["", "env"], ["", "envrc"]) and not _EXAMPLES.intersection(parts)


def find_env_files(directory: Path) -> tuple[Path, ...]:
    """The ``.env`` files of a directory and of the two levels below it, within limits."""
    return _find(directory, levels=2, directories=_MAX_DIRECTORIES)[:_MAX_FILES]


def find_deep_env_files(directory: Path) -> tuple[Path, ...]:
    """The ``.env`` files at any depth, within limits. It takes some milliseconds."""
    return _find(directory, levels=_MAX_DEPTH, directories=_MAX_DEEP_DIRECTORIES)[:_MAX_DEEP_FILES]


def may_show_env_files(command: str) -> bool:
    """Whether a command names a ``.env`` file or searches many files."""
    return re.search(_ENV_COMMAND, command) is not None


def _find(directory: Path, *, levels: int, directories: int) -> tuple[Path, ...]:
    found: list[Path] = []
    folders = [(directory, 0)]
    for folder, depth in folders:  # grows while it is read
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if is_env_file(entry.name):
                        found.append(folder / entry.name)
                    elif depth < levels and len(folders) < directories and _is_searched(entry):
                        folders.append((folder / entry.name, depth + 1))
        except OSError:
            continue
    return tuple(found)


def _is_searched(entry: os.DirEntry[str]) -> bool:
    return not entry.name.startswith(".") and entry.name not in _SKIPPED and entry.is_dir(follow_symlinks=False)


def read_env_secrets(files: tuple[Path, ...]) -> frozenset[Secret]:
    """The secrets in these files. A file that cannot be read has none."""
    found: set[Secret] = set()
    for file in files:
        try:
            text = read_limited(file, limit=_MAX_FILE_BYTES).decode("utf-8", "replace")
        except OSError:
            continue
        found.update(env_secrets(text))
    return frozenset(sorted(found, key=Secret.reveal)[:_MAX_SECRETS])


def env_secrets(text: str) -> Iterator[Secret]:
    """The values in the text of a ``.env`` file that look like secrets."""
    for name, value in _variables(text):
        for part in _secret_parts(name, value):
            if len(part) >= MIN_LENGTH:
                yield Secret(part)


def _variables(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        found = re.fullmatch(_LINE, text[position:end].rstrip("\r"))
        position = end + 1
        if found is None:
            continue
        value = found[2].strip()
        quote = value[:1]
        if quote in ("'", '"', "`") and quote:
            close = value.find(quote, 1)
            if close < 0 and (last := text.find(quote, position)) >= 0:  # a value of several lines
                value, position = f"{value[1:]}\n{text[position:last]}", last + 1
            else:
                value = value[1:close] if close > 0 else value[1:]
        else:
            value = re.split(r"\s#", value, maxsplit=1)[0].strip()
        yield found[1], value


def _secret_parts(name: str, value: str) -> Iterator[str]:
    if re.match(_PLACEHOLDER, value):
        return
    if "://" in value:
        yield from _password(value)
        if not re.search(_SECRET_NAME, name):
            return
    if re.search(_SECRET_NAME, name) or _is_random(value):
        yield value
        if "\\n" in value:
            yield value.replace("\\n", "\n")


def _password(address: str) -> Iterator[str]:
    try:
        password = urlsplit(address).password
    except ValueError:
        return
    if password:
        yield password
        yield unquote(password)


def _is_random(value: str) -> bool:
    """Whether a text is long, without spaces, and mixes letters and digits like a key."""
    if len(value) < _MIN_RANDOM or not re.fullmatch(r"[A-Za-z0-9_+/=.-]+", value) or "/" in value[:1]:
        return False
    digits = sum(character.isdigit() for character in value)
    return digits >= 4 and sum(character.isalpha() for character in value) >= 4 and len(set(value)) >= 10
