"""The command line: what a person or a script types.

A command's module is loaded when it is called, and nothing heavier than that: `holdfast run` reaches the server without
an event loop. Text goes to stdout and everything else to stderr; every end has its exit status (`exits`), and no
traceback reaches anybody who did not ask for one with ``--debug``. It talks to the server through `client` only, so it
decides nothing about runs; two commands start one: `serve` and `demo`.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

from holdfast import __version__
from holdfast.cli import standard_streams


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in (words[: words.index("--")] if "--" in words else words)
    standard_streams.open_what_is_closed()
    try:
        status = _left(words)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        standard_streams.let_go(sys.stdout)
        return 0  # whoever read had enough
    except Exception as error:  # noqa: BLE001 - the one place where everything ends: a person gets two lines
        if debug:
            import traceback

            traceback.print_exc()
        return _told(error)


def _left(words: list[str]) -> int:
    try:
        return _main(words)
    except SystemExit as left:  # argparse has said all there is
        return left.code if isinstance(left.code, int) else 0


def _main(words: list[str]) -> int:
    _refuse_what_is_no_text(words)
    directory: str | None = None
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word in ("-V", "--version"):
            print(f"holdfast {__version__}")
            return 0
        if word in ("-h", "--help"):
            return _overview()
        if word == "-C" and words:
            directory = words.pop(0)
        elif word != "--debug":
            return _unknown(word, kind="option")
    if not words:
        standard_streams.say(
            "The terminal interface comes with a later version; until then, this is what there is:\n\n"
        )
        return _overview()
    return _command(words, directory)


def _refuse_what_is_no_text(words: list[str]) -> None:
    """Arguments and variables may be any bytes; what is sent, stored and shown is text in UTF-8."""
    from_env = {name: value for name, value in os.environ.items() if name.startswith("HOLDFAST_")}
    for name, value in (*(("the argument", word) for word in words), *from_env.items()):
        try:
            value.encode()
        except UnicodeEncodeError:
            from holdfast.cli.error_messages import Problem

            shown = ascii(os.fsencode(value))[1:]
            raise Problem(f"{name} {shown} is not UTF-8 text", advice="give it in UTF-8", status=2) from None


def _overview() -> int:
    from holdfast.cli.command_table import overview

    sys.stdout.write(overview())
    return 0


def _command(words: list[str], directory: str | None) -> int:
    from holdfast.cli.command_table import all_commands

    name, *rest = words
    command = all_commands().get(name)
    if name == "help":
        return _command([rest[0], "--help"], directory) if rest else _overview()
    if command is None:
        return _unknown(name, kind="command")
    gc.disable()  # what is loaded now stays until the end: nothing of it is worth being looked at
    _load_msgspec()
    from holdfast.cli.argument_parser import parse, parser_of

    args = parse(parser_of(command), rest)
    _go_to(args.directory or directory)
    gc.freeze()
    gc.enable()
    status = int(args.run(args))
    gc.freeze()
    return status


def _load_msgspec() -> None:
    """Alone: it asks for typing_extensions, which takes longer to load than itself, and since Python 3.11 has nothing
    for it that the standard library lacks."""
    if not {"msgspec", "typing_extensions"} & sys.modules.keys():
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]
        import msgspec  # noqa: F401

        del sys.modules["typing_extensions"]


def _unknown(word: str, *, kind: str) -> int:
    import difflib

    from holdfast.cli.command_table import all_commands

    close = difflib.get_close_matches(word, all_commands(), n=1, cutoff=0.7)
    advice = f"did you mean '{close[0]}'? " if close else ""
    standard_streams.say(f"holdfast: there is no {kind} {word!r}\n          {advice}'holdfast --help' lists all\n")
    return 2


def _go_to(directory: str | None) -> None:
    if directory is None:
        return
    from holdfast.cli.error_messages import Problem

    try:
        os.chdir(directory)
    except OSError as error:
        what = f"cannot go to {directory!r}: {error.strerror}"
        raise Problem(what, advice="-C needs a directory that exists", status=2) from None


def _told(error: Exception) -> int:
    from holdfast.cli.error_messages import Problem, what_and_advice
    from holdfast.cli.exit_status import Exit, exit_of_error
    from holdfast.errors import HoldfastError

    if isinstance(error, OSError) and (why := standard_streams.failure_of_stdout(error)):
        standard_streams.let_go(sys.stdout)
        standard_streams.say(f"holdfast: cannot write to stdout: {why}\n")
        return Exit.FAILED
    if isinstance(error, Problem):
        what, advice, status = error.what, error.advice, error.status
    elif isinstance(error, HoldfastError):
        (what, advice), status = what_and_advice(error), int(exit_of_error(error))
    else:
        what, advice = f"an unexpected {type(error).__name__}: {error}", "--debug shows where; please report it"
        status = int(Exit.FAILED)
    standard_streams.say(f"holdfast: {what}\n          {advice}\n")
    return status
