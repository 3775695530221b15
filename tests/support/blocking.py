"""Fails tests in which Holdfast makes a blocking call on a running event loop.

Only calls with a frame of `holdfast` on the stack count: a test may write a file, but the code under test may do so
only in a thread. The checks of `holdfast.selftest` count as tests: they touch small files, and have their loop for
themselves.
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


_IMPORTS = "<frozen importlib._bootstrap>"

EXEMPTIONS: tuple[Exemption, ...] = (
    Exemption("os.stat", "asyncio/unix_events.py", "create_unix_connection", "asyncio checks the socket's path once"),
    Exemption("io.BufferedReader.read", "tools/process/process_table.py", "_read_stat", "/proc is memory, not a disk"),
    Exemption("socket.socket.recv", "tools/process/supervisor_program.py", "withdraw", "MSG_DONTWAIT does not wait"),
    Exemption("threading.Lock.acquire", _IMPORTS, "_find_and_load", "a thread imports the same module"),
    Exemption("threading.Lock.acquire", _IMPORTS, "_lock_unlock_module", "a thread imports the same module"),
    Exemption("os.unlink", "asyncio/unix_events.py", "create_unix_server", "asyncio removes a stale socket once"),
)


@contextmanager
def no_blocking_on_the_loop() -> Iterator[None]:
    with blockbuster_ctx("holdfast", excluded_modules=["holdfast.selftest"]) as blockbuster:
        for exemption in EXEMPTIONS:
            blockbuster.functions[exemption.call].can_block_in(exemption.file, exemption.function)
        yield
