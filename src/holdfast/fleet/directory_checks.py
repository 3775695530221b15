"""Asks whether directories exist, in threads of its own and with a limit: a network mount may hang for hours.

The threads of the event loop are few and shared. A directory that does not answer costs one thread until it does, and
nobody waits for it a second time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

_logger = logging.getLogger(__name__)

ANSWER_SECONDS = 2.0
_MAX_HANGING = 64


class DirectoryChecks:
    def __init__(self, is_directory: Callable[[str], bool] = os.path.isdir) -> None:
        self._is_directory = is_directory
        self._asked: dict[str, asyncio.Future[bool]] = {}
        self._hanging: set[str] = set()

    async def exists(self, path: str) -> bool:
        """Whether there is such a directory. False also if that is not known in time."""
        asked = self._asked.get(path)
        if path in self._hanging or (asked is None and len(self._hanging) >= _MAX_HANGING):
            return False
        if asked is None:
            asked = self._ask(path)
        done, _ = await asyncio.wait((asked,), timeout=ANSWER_SECONDS)
        if done:
            return asked.result()
        if path not in self._hanging:
            self._hanging.add(path)
            _logger.warning("the directory %s does not answer; it is not used until it does", path)
        return False

    def is_hanging(self, path: str) -> bool:
        return path in self._hanging

    def _ask(self, path: str) -> asyncio.Future[bool]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bool] = loop.create_future()

        def ask() -> None:
            found = self._is_directory(path)
            with suppress(RuntimeError):  # the server has stopped meanwhile
                loop.call_soon_threadsafe(partial(self._note, path, found=found))

        # A daemon: a thread of the event loop that hangs would keep the process from ending.
        threading.Thread(target=ask, name="directory check", daemon=True).start()
        self._asked[path] = answer
        return answer

    def _note(self, path: str, *, found: bool) -> None:
        self._asked.pop(path).set_result(found)
        if path in self._hanging:
            self._hanging.discard(path)
            _logger.info("the directory %s answers again", path)
