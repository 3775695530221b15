"""Types of settings that TOML does not have: durations, addresses, headers, secrets, and the source of a key.

None of them shows a secret in its repr, because a repr ends up in logs, tracebacks and test output.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NoReturn, Self
from urllib.parse import unquote, urlsplit

HIDDEN = "(hidden)"

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# These expressions are compiled at their first use: most servers start without.
_DURATION = r"(?:\d{1,12}(?:\.\d{1,3})?(?:ms|[smhd]))+"
_AMOUNT = r"([\d.]+)(ms|[smhd])"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_HEADER_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_MAX_DURATION = 100 * 365 * 86_400

KeyKind = Literal["env", "file", "cmd", "literal", "stored"]


class Leaf:
    """Base of setting types that are written as a string (or a table of strings) and validate themselves."""

    __slots__ = ()
    json_schema: ClassVar[dict[str, Any]] = {"type": "string"}

    @classmethod
    def from_config(cls, value: object) -> Self:
        """Validate a value from a file. `ValueError` says what was expected and never repeats a secret."""
        raise NotImplementedError

    def to_config(self) -> object:
        """The value for display, with secrets hidden."""
        raise NotImplementedError


class Duration(float, Leaf):
    """Seconds, written as text with a unit: ``"90s"``, ``"10m"``, ``"1h30m"``, ``"7d"``."""

    __slots__ = ()
    json_schema: ClassVar[dict[str, Any]] = {"type": "string", "pattern": rf"^{_DURATION}$"}

    @classmethod
    def from_config(cls, value: object) -> Self:
        if not isinstance(value, str) or not re.fullmatch(_DURATION, value, re.ASCII):
            raise ValueError(f"expected a duration such as '90s', '10m' or '7d', got {shown(value)}")
        seconds = sum(float(amount) * _UNITS[unit] for amount, unit in re.findall(_AMOUNT, value, re.ASCII)) / 1_000
        if seconds > _MAX_DURATION:
            raise ValueError(f"expected a duration of at most 100 years, got {shown(value)}")
        return cls(seconds)

    def to_config(self) -> str:
        return format_duration(self)


def format_duration(seconds: float) -> str:
    """The shortest text that `Duration` reads as the same seconds, to the millisecond."""
    left = round(seconds * 1_000)
    parts = []
    for unit in ("d", "h", "m", "s", "ms"):
        amount, left = divmod(left, _UNITS[unit])
        if amount:
            parts.append(f"{amount}{unit}")
    return "".join(parts) or "0s"


class Secret:
    """A key whose text only `reveal` returns."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The key itself."""
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return format(HIDDEN, spec)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret cannot be pickled or copied into another process")


class KeySource(Leaf):
    """Where a key comes from: ``env:NAME``, ``file:PATH``, ``cmd:COMMAND``, a literal key, or the key file."""

    __slots__ = ("_text", "kind")
    json_schema: ClassVar[dict[str, Any]] = {"type": "string", "minLength": 1}

    def __init__(self, kind: KeyKind, text: str) -> None:
        self.kind = kind
        self._text = Secret(text)

    @classmethod
    def from_config(cls, value: object) -> Self:
        if not isinstance(value, str) or not value.strip():
            raise ValueError("expected 'env:NAME', 'file:PATH', 'cmd:COMMAND' or a key")
        kind, colon, rest = value.partition(":")
        match kind if colon else "":
            case "env":
                if not re.fullmatch(_VARIABLE, rest, re.ASCII):
                    raise ValueError("expected a variable's name after 'env:', such as 'env:MY_KEY'")
                return cls("env", rest)
            case "file":
                if not rest.startswith(("/", "~/")):
                    raise ValueError("expected an absolute path (or '~/…') after 'file:'")
                return cls("file", rest)
            case "cmd":
                if not rest.strip():
                    raise ValueError("expected a command after 'cmd:'")
                return cls("cmd", rest.strip())
        return cls("literal", value.strip())

    @property
    def argument(self) -> str:
        """The variable, path, command or stored name; hidden for a literal key."""
        return HIDDEN if self.kind == "literal" else self._text.reveal()

    @property
    def literal(self) -> Secret | None:
        """The key itself, if it is written in the file."""
        return self._text if self.kind == "literal" else None

    def to_config(self) -> str:
        return HIDDEN if self.kind == "literal" else f"{self.kind}:{self.argument}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeySource) and (self.kind, self._text) == (other.kind, other._text)

    def __hash__(self) -> int:
        return hash((self.kind, self._text))

    def __repr__(self) -> str:
        return f"KeySource({self.to_config()!r})"


class Url(str, Leaf):
    """An ``http(s)`` address. It may contain a password, which its repr hides."""

    __slots__ = ()
    schemes: ClassVar[tuple[str, ...]] = ("http", "https")
    json_schema: ClassVar[dict[str, Any]] = {"type": "string", "format": "uri"}

    @classmethod
    def from_config(cls, value: object) -> Self:
        if isinstance(value, str):
            try:
                parts = urlsplit(value)
                valid = parts.scheme in cls.schemes and bool(parts.hostname) and parts.port != 0
            except ValueError:
                valid = False
            if valid and not re.search(r"[\s\x00-\x1f\x7f]", value):
                return cls(value.rstrip("/"))
        raise ValueError(f"expected an address that starts with {' or '.join(f'{s}://' for s in cls.schemes)}")

    @property
    def password(self) -> Secret | None:
        password = unquote(urlsplit(self).password or "")
        return Secret(password) if password else None

    def to_config(self) -> str:
        return re.sub(r"(?<=//)[^/@]*@", f"{HIDDEN}@", str(self))

    def __repr__(self) -> str:
        return repr(self.to_config())


class ProxyUrl(Url):
    """The address of an HTTP or SOCKS proxy."""

    __slots__ = ()
    schemes = ("http", "https", "socks5", "socks5h")


class StoreUrl(Url):
    """The address of a PostgreSQL database, as libpq reads it: several hosts, or a directory with a socket."""

    __slots__ = ()
    schemes = ("postgresql", "postgres")

    @classmethod
    def from_config(cls, value: object) -> Self:
        is_address = isinstance(value, str) and re.fullmatch(r"postgres(?:ql)?://[^\s\x00-\x1f\x7f]*", value)
        if not is_address:
            raise ValueError("expected an address such as 'postgresql://holdfast@db.example/holdfast'")
        assert isinstance(value, str)
        if re.match(r"\w+://[^/@:?]*:[^@?]*[/@][^?]*@", value):
            raise ValueError(
                "the password in the address has a '/' or '@'; write '%2F' or '%40', or better leave it out and run "
                "'holdfast store password'"
            )
        return cls(value)

    @property
    def password(self) -> Secret | None:
        found = re.search(r"//[^/@:]*:([^/@]*)@", self) or re.search(r"[?&]password=([^&]*)", self)
        return Secret(unquote(found[1])) if found and found[1] else None

    def to_config(self) -> str:
        hidden = re.sub(r"(?<=//)([^/@:?]*):.*@", rf"\1:{HIDDEN}@", self)
        return re.sub(r"([?&](?:ssl)?password=)[^&]*", rf"\1{HIDDEN}", hidden)


class Headers(dict[str, str], Leaf):
    """HTTP headers. Their values are often credentials, so a repr shows only their names."""

    json_schema: ClassVar[dict[str, Any]] = {"type": "object", "additionalProperties": {"type": "string"}}

    @classmethod
    def from_config(cls, value: object) -> Self:
        if not isinstance(value, dict):
            raise ValueError(f"expected a table of header names and values, got {type_name(value)}")
        for name, text in value.items():
            if not re.fullmatch(_HEADER_NAME, name, re.ASCII):
                raise ValueError(f"{name!r} is not a header name")
            if not isinstance(text, str) or re.search(r"[\r\n\x00]", text):
                raise ValueError(f"the value of {name!r} must be text on one line")
        return cls(value)

    def expand(self, env: Mapping[str, str]) -> dict[str, str]:
        """The headers to send. ``env:NAME`` is read from the environment; without it the header is omitted."""
        return expand_variables(self, env)

    def to_config(self) -> dict[str, str]:
        return {name: value if value.startswith("env:") else HIDDEN for name, value in self.items()}

    def __repr__(self) -> str:
        return f"Headers({', '.join(sorted(self))})"


class Variables(Headers):
    """Environment variables for a process; hidden like headers."""

    @classmethod
    def from_config(cls, value: object) -> Self:
        if not isinstance(value, dict):
            raise ValueError(f"expected a table of variables, got {type_name(value)}")
        for name, text in value.items():
            if not re.fullmatch(_VARIABLE, name, re.ASCII):
                raise ValueError(f"{name!r} is not a variable name")
            if not isinstance(text, str) or "\x00" in text:
                raise ValueError(f"the value of {name!r} must be text")
        return cls(value)

    def __repr__(self) -> str:
        return f"Variables({', '.join(sorted(self))})"


def expand_variables(values: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    expanded = {}
    for name, value in values.items():
        if not value.startswith("env:"):
            expanded[name] = value
        elif found := env.get(value.removeprefix("env:")):
            expanded[name] = found
    return expanded


def is_name(text: str) -> bool:
    """Whether a provider, an agent or a server may have this name."""
    return re.fullmatch(_NAME, text, re.ASCII) is not None


def type_name(value: object) -> str:
    """The name of a TOML value's type, for messages."""
    match value:
        case bool():
            return "true or false"
        case int():
            return "a whole number"
        case float():
            return "a number"
        case str():
            return "text"
        case list() | tuple():
            return "a list"
        case dict():
            return "a table"
    return "a date or time"


def shown(value: object) -> str:
    """A value for an error message: short strings and numbers verbatim, anything else by its type."""
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else f"{value[:39]}…")
    return repr(value) if isinstance(value, int | float) and not isinstance(value, bool) else type_name(value)
