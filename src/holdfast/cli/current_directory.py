"""The current directory as text. Imports nothing else: the terminal UI starts with it."""

from __future__ import annotations

import os


def current_directory() -> str:
    """Raises `CommandError` if the directory has no usable name or does not exist any more."""
    try:
        found = os.getcwd()
        found.encode()
    except UnicodeEncodeError:
        message = f"the name of the current directory is not UTF-8: {ascii(os.getcwdb())[1:]}"
        advice = "rename it, or change to another directory"
    except FileNotFoundError:
        message, advice = "the current directory does not exist any more", "change to another directory"
    else:
        return found
    from holdfast.cli.exit_status import CommandError, Exit

    raise CommandError(message, advice=advice, status=Exit.USAGE)
