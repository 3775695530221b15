"""One-time codes that a new device exchanges for a token. They are kept in memory only.

A code has a public half, by which it is found, and a secret half. A wrong secret counts against its code; every failure
counts against the server. So a code can be guessed neither by one peer nor by many.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from msgspec.structs import replace

from holdfast.digests import are_equal_secrets
from holdfast.errors import Forbidden, TooMany
from holdfast.schema.base import Value
from holdfast.schema.devices import AccessScope

CODE_SECONDS = 300.0
MAX_OPEN_CODES = 16
"""A further code replaces the oldest one."""
MAX_FAILURES_PER_CODE = 5
MAX_FAILURES = 20
"""Of all codes together, within `FAILURE_SECONDS`."""
FAILURE_SECONDS = 60.0

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PUBLIC_CHARS = 4
_SECRET_CHARS = 8
_SIMILAR = str.maketrans("OIL", "011", "- \t\r\n")


class OpenCode(Value, frozen=True):
    """A code that can be used once."""

    public: str
    secret: str
    scope: AccessScope
    expires: float
    failures: int = 0
    person: str | None = None
    """The person whose device it makes."""

    @property
    def text(self) -> str:
        """As people read and type it."""
        whole = self.public + self.secret
        return "-".join(whole[start : start + 4] for start in range(0, len(whole), 4))


def _choose(alphabet: str) -> str:
    from random import SystemRandom  # not above: few servers make a code

    return SystemRandom().choice(alphabet)


class PairingCodes:
    def __init__(self, *, seconds_now: Callable[[], float], choose: Callable[[str], str] = _choose) -> None:
        """``seconds_now`` is a clock that never goes back."""
        self._now = seconds_now
        self._choose = choose
        self._open: dict[str, OpenCode] = {}
        self._failed_at: deque[float] = deque()

    def make(self, scope: AccessScope, *, person: str | None = None) -> OpenCode:
        self._remove_expired()
        while len(self._open) >= MAX_OPEN_CODES:
            del self._open[next(iter(self._open))]
        public = self._random(_PUBLIC_CHARS)
        while public in self._open:
            public = self._random(_PUBLIC_CHARS)
        code = OpenCode(public, self._random(_SECRET_CHARS), scope, self._now() + CODE_SECONDS, person=person)
        self._open[public] = code
        return code

    def take(self, text: str) -> OpenCode:
        """Use up a code. Raises `Forbidden` if it is wrong, used or expired, `TooMany` after too many failures."""
        self._remove_expired()
        if self.recent_failures >= MAX_FAILURES:
            raise TooMany(
                f"{MAX_FAILURES} codes were wrong in the last minute; wait a minute, then try again",
                code="too_many_pairings",
            )
        given = text.upper().translate(_SIMILAR)
        code = self._open.get(given[:_PUBLIC_CHARS])
        if code is not None and are_equal_secrets(given[_PUBLIC_CHARS:].encode(), code.secret.encode()):
            return self._open.pop(code.public)
        self._failed_at.append(self._now())
        if code is not None:
            self._count_failure(code)
        raise Forbidden(
            "this pairing code is wrong, used or expired; run 'holdfast web' for a new one", code="pairing_refused"
        )

    def give_back(self, code: OpenCode) -> None:
        """Make a code usable again whose device could not be stored."""
        self._open[code.public] = code

    @property
    def recent_failures(self) -> int:
        while self._failed_at and self._failed_at[0] <= self._now() - FAILURE_SECONDS:
            self._failed_at.popleft()
        return len(self._failed_at)

    def _count_failure(self, code: OpenCode) -> None:
        failures = code.failures + 1
        if failures >= MAX_FAILURES_PER_CODE:
            del self._open[code.public]
        else:
            self._open[code.public] = replace(code, failures=failures)

    def _remove_expired(self) -> None:
        now = self._now()
        for code in [one for one in self._open.values() if one.expires <= now]:
            del self._open[code.public]

    def _random(self, length: int) -> str:
        return "".join(self._choose(_ALPHABET) for _ in range(length))
