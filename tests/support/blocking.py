"""Blocking calls that Holdfast makes on a running event loop fail the tests.

Only calls with a frame of `holdfast` on the stack count: a test may write a file, the code under test may not, unless
it does so in a thread. The list of exemptions is short, and each has its reason.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from blockbuster import blockbuster_ctx


@dataclass(frozen=True, slots=True)
class Exemption:
    """A call that may block inside one function of one file."""

    call: str
    file: str
    function: str
    reason: str


EXEMPTIONS: tuple[Exemption, ...] = (
    Exemption("os.stat", "asyncio/unix_events.py", "create_unix_connection", "asyncio looks at the socket's path once"),
    Exemption("os.unlink", "asyncio/unix_events.py", "create_unix_server", "asyncio removes a stale socket once"),
)


@contextmanager
def no_blocking_on_the_loop() -> Iterator[None]:
    with blockbuster_ctx("holdfast") as blockbuster:
        for exemption in EXEMPTIONS:
            blockbuster.functions[exemption.call].can_block_in(exemption.file, exemption.function)
        yield
