"""The three standard streams as they may be: closed, full, of a narrow encoding, or without anybody who reads."""

from __future__ import annotations

import errno
import os
import sys
from typing import TextIO

_UNWRITABLE = frozenset({errno.ENOSPC, errno.EBADF, errno.EIO, errno.EDQUOT, errno.EFBIG})


def open_what_is_closed() -> None:
    """What is closed is nobody's; it is opened before anything else can take its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - for as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")  # a terminal that knows less than all of Unicode gets question marks


def say(words: str) -> None:
    """To stderr, if somebody reads it."""
    try:
        sys.stderr.write(words)
        sys.stderr.flush()
    except (OSError, ValueError):
        let_go(sys.stderr)


def let_go(stream: TextIO) -> None:
    """What is still to be written goes nowhere; else the interpreter complains when it flushes at its end."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        pass  # it is gone altogether


def failure_of_stdout(error: OSError) -> str | None:
    """Why stdout cannot be written, if that is what an error of the system means."""
    try:
        sys.stdout.flush()
    except OSError as again:
        error = again
    except ValueError:
        return None
    else:
        if error.filename is not None or error.errno not in _UNWRITABLE:
            return None
    return error.strerror or str(error)
