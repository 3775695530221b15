"""Open the terminal UI, and restore the terminal after it, also after a failure."""

from __future__ import annotations

import gc
import logging
import os
import sys
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from holdfast.locations import Locations
from holdfast.tui.terminal_query import TerminalQuery
from holdfast.tui.terminal_signals import POP_TITLE, PUSH_TITLE, RESTORE, set_progress

_LOG_LIMIT = 1 << 20
_FRAMES_PER_SECOND = 120


def open_tui(*, prompt: str = "", session_id: str | None = None, resume: bool = False) -> int:
    """Show the UI until the user leaves; returns the exit status. ``resume`` shows the last session.

    ``prompt`` is sent as if it had been typed.
    """
    gc.disable()  # until the main screen is complete: imports leave no garbage, and looking for it takes long
    env = dict(os.environ)
    locations = Locations.from_env(env)
    locations.prepare()
    _log_to_file(locations)
    directory = os.getcwd()
    with _restored_terminal():
        query = TerminalQuery(env)
        query.ask()
        draw_more_often(env)
        from holdfast.tui.tui_app import TuiApp, count_colours, farewell
        from holdfast.tui.tui_options import TuiOptions

        answer = query.answer()
        app = TuiApp(
            TuiOptions(
                directory=directory,
                session_id=session_id,
                resume=resume,
                prompt=prompt,
                background=answer.background,
                typed=answer.typed,
                colours=count_colours(env),
                plain=env.get("HOLDFAST_PLAIN", "") not in ("", "0"),
                reduced_motion=env.get("HOLDFAST_REDUCED_MOTION", "") not in ("", "0"),
            ),
            env=env,
            locations=locations,
        )
        app.run()
    app.save_drafts()
    if app.failure is not None:
        failure = f"{type(app.failure).__name__}: {app.failure}".splitlines()[0]
        log = locations.logs_dir / "tui.log"
        sys.stderr.write(f"holdfast: the terminal UI failed ({failure}); details are in {str(log)!r}\n")
    sys.stdout.write(farewell(app))
    return 1 if app.failure is not None else 0


def draw_more_often(env: Mapping[str, str]) -> None:
    """A key that just misses a frame waits for the next one: at Textual's 60 frames a second it took 31 ms at p99."""
    if "TEXTUAL_FPS" not in env:
        from textual import constants

        constants.MAX_FPS = _FRAMES_PER_SECOND  # type: ignore[misc]  # read when the screens are imported


@contextmanager
def _restored_terminal() -> Iterator[None]:
    """Leave the terminal as it was found: its modes, the screen, the cursor, the title."""
    descriptor = sys.__stdin__.fileno() if sys.__stdin__ else 0
    modes = termios.tcgetattr(descriptor)
    _write(PUSH_TITLE)
    try:
        yield
    finally:
        _write(RESTORE + set_progress("none") + POP_TITLE)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, modes)


def _write(sequence: str) -> None:
    try:
        sys.__stdout__.write(sequence)  # type: ignore[union-attr]
        sys.__stdout__.flush()  # type: ignore[union-attr]
    except OSError:
        pass  # the terminal is gone


def _log_to_file(locations: Locations) -> None:
    path = locations.logs_dir / "tui.log"
    if path.exists() and path.stat().st_size > _LOG_LIMIT:
        os.replace(path, path.with_suffix(".log.1"))
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)  # also what libraries report: on the terminal it would stand in the screen
