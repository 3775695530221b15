"""Run the agent on stdin and stdout until the editor closes them."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping

from holdfast.errors import ConfigError
from holdfast.locations import Locations

_LOG_LIMIT = 1 << 20

INSTALL = "pip install 'holdfast[acp]'"


def open_acp(env: Mapping[str, str]) -> int:
    """Serve the editor that started this process; returns the exit status. Raises `ConfigError`."""
    try:
        import acp  # noqa: F401 - is it there?
    except ImportError:
        raise ConfigError(f"the library agent-client-protocol is not installed; run {INSTALL}") from None
    locations = Locations.from_env(env)
    locations.prepare()
    _log_to_file(locations)
    writes = _keep_stdout()
    asyncio.run(_serve(env, reads=sys.__stdin__.fileno() if sys.__stdin__ else 0, writes=writes))
    return 0


async def _serve(env: Mapping[str, str], *, reads: int, writes: int) -> None:
    from holdfast.acp.acp_agent import AcpAgent

    serving = asyncio.ensure_future(AcpAgent(env=env, reads=reads, writes=writes).run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, serving.cancel)
    # Ctrl-C in the terminal of a client reaches this process, too. The client decides what it means: cancel, or leave.
    loop.add_signal_handler(signal.SIGINT, serving.cancel if os.isatty(reads) else _do_nothing)
    try:
        await serving
    except asyncio.CancelledError:
        logging.getLogger(__name__).info("stopped by a signal; runs go on")


def _do_nothing() -> None:
    pass


def _keep_stdout() -> int:
    """Only the protocol goes to stdout. What anything else prints goes to stderr."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    return kept


def _log_to_file(locations: Locations) -> None:
    path = locations.logs_dir / "acp.log"
    if path.exists() and path.stat().st_size > _LOG_LIMIT:
        os.replace(path, path.with_suffix(".log.1"))
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    logging.getLogger("holdfast.acp").setLevel(logging.INFO)
