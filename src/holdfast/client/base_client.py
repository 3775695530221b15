"""What both clients have in common: whom they talk to, and the rules by which they try again. No I/O."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Protocol, TypeAlias

from holdfast.client.api_call import identity_headers
from holdfast.client.retry import CallRetry, RetryBudget
from holdfast.client.server_address import ServerAddress
from holdfast.client.stream_state import ReconnectRules, StreamState
from holdfast.client.transcript import Transcript

OnLost: TypeAlias = Callable[[Exception, float], None]
"""Called when a stream lost its connection, with the cause and the seconds until it tries again."""


class Revive(Protocol):
    def __call__(self, *, pid: int | None, leave_stopped: bool) -> object:
        """Bring the local server back; returns when it answers. Blocks.

        ``pid`` is the process that answered last. With ``leave_stopped``, a server that was stopped on purpose is not
        started again: `ServerStopping` is raised instead.
        """


class BaseClient:
    """The part of a client that is the same with and without an event loop."""

    def __init__(
        self,
        address: ServerAddress,
        *,
        token: str | None = None,
        name: str = "client",
        patience: float = 10.0,
        answer_seconds: float = 30.0,
        revive: Revive | None = None,
    ) -> None:
        """``patience``: seconds for which a lost connection is tried again; ``revive`` brings the server back."""
        self.address = address
        self.leave_stopped = False
        """Do not start a server again that was stopped on purpose: for clients that only wait."""
        self._headers = identity_headers(name, token=token)
        self._patience = patience
        self._answer_seconds = answer_seconds
        self._revive = revive

    def _call_retry(self) -> CallRetry:
        return CallRetry(
            RetryBudget(self._patience, clock=time.monotonic),
            can_revive=self._revive is not None,
            leave_stopped=self.leave_stopped,
        )

    def _stream_state(
        self, *, after: str | None, transcript: Transcript | None, give_up_after: float | None, raise_when_full: bool
    ) -> StreamState:
        rules = ReconnectRules(
            RetryBudget(give_up_after, clock=time.monotonic),
            random=random.random,
            can_revive=self._revive is not None,
            leave_stopped=self.leave_stopped,
            raise_when_full=raise_when_full,
        )
        return StreamState(after=after, transcript=transcript or Transcript(), rules=rules)
