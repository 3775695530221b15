"""The same signal handlers for every test run, however it was started."""

import signal

_IGNORED_BY_PYTHON = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
"""`subprocess` gives children the default for these."""


def define_signals() -> None:
    """Make this process's children start with default signal handlers and no blocked signals.

    A process inherits ignored and blocked signals. A script that runs `make test &` ignores SIGINT, and `nohup` ignores
    SIGHUP; without this call, no child of a test would react to Ctrl-C. SIGINT gets Python's own handler. Any other
    ignored signal gets a handler that does nothing: this process still ignores it, and a child starts with the default,
    because handlers do not survive exec.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals() - _IGNORED_BY_PYTHON:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else _do_nothing)


def _do_nothing(*_: object) -> None:
    pass
