"""The command line.

`main` runs one command and returns its exit status. A command's module is imported when the command is called, and
`holdfast run` reaches the server without an event loop. The agent's text goes to stdout and everything else to stderr.
Errors are two lines, what is wrong and what to do; a traceback is printed only with ``--debug``. Commands use the HTTP
client and decide nothing about runs; only `serve` and `demo` start a server process of their own.
"""

from __future__ import annotations

import gc
import os
import sys

from holdfast import __version__
from holdfast.cli import screen

TYPE_CHECKING = False  # `typing` is imported with the collector of garbage disabled, and not for --version
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from holdfast.cli.command_table import CliCommand


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status. Without arguments it is the program, which may end here."""
    status = _main(argv)
    if argv is None:
        _exit_at_once(status)
    return status


def _exit_at_once(status: int) -> None:
    """End the process if nothing is left to be done. It saves the time in which Python frees every object.

    There is neither a thread nor an exit handler if the modules for them were never imported.
    """
    if {"atexit", "threading"} & sys.modules.keys():
        return
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        return  # Python reports it
    os._exit(status)


def _main(argv: Sequence[str] | None) -> int:
    args = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in (args[: args.index("--")] if "--" in args else args)
    screen.prepare_standard_streams()
    try:
        status = _run(args)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        screen.discard_output(sys.stdout)
        return 0  # the reader closed the pipe
    except Exception as error:  # noqa: BLE001 - the last handler: users get two lines instead of a traceback
        if debug:
            import traceback

            traceback.print_exc()
        return _report(error)


def _run(args: list[str]) -> int:
    try:
        return _run_with_options(args)
    except SystemExit as exit_request:  # argparse has printed its message
        return exit_request.code if isinstance(exit_request.code, int) else 0


def _run_with_options(args: list[str]) -> int:
    _check_encoding(args)
    directory: str | None = None
    session_id: str | None = None
    resume = False
    while args and args[0].startswith("-"):
        option = args.pop(0)
        if option in ("-V", "--version"):
            print(f"holdfast {__version__}")
            return 0
        if option in ("-h", "--help"):
            return _print_overview()
        if option == "-C" and args:
            directory = args.pop(0)
        elif option == "--continue":
            resume = True
        elif option == "--session" and args:
            session_id = args.pop(0)
        elif option != "--debug":
            return _report_unknown(option, kind="option")
    if not args or any(letter.isspace() for letter in args[0]):
        return _open(directory, prompt=args[0] if args else "", rest=args[1:], session_id=session_id, resume=resume)
    if session_id is not None or resume:
        option = "--session" if session_id is not None else "--continue"
        screen.write_stderr(f"holdfast: {option} goes behind the command: holdfast {args[0]} {option} …\n")
        return 2
    return _run_command(args, directory)


def _open(directory: str | None, *, prompt: str, rest: list[str], session_id: str | None, resume: bool) -> int:
    """Without a command the terminal UI opens, with the prompt if there is one.

    Without a terminal, a prompt is sent by `holdfast run`, and without a prompt the commands are listed.
    """
    if session_id is not None and resume:
        from holdfast.cli.exit_status import CommandError

        message = "--session and --continue cannot be used together"
        raise CommandError(message, advice="use one of them", status=2)
    if rest:
        from holdfast.cli.exit_status import CommandError

        message = f"unexpected {rest[0]!r} behind the prompt"
        raise CommandError(message, advice="options belong to 'run': holdfast run OPTIONS PROMPT", status=2)
    if not (screen.is_terminal(sys.stdin) and screen.is_terminal(sys.stdout)):
        if prompt:
            session = ["--continue"] if resume else ["--session", session_id] if session_id else []
            return _run_command(["run", *session, "--", prompt], directory)
        if session_id is None and not resume:
            return _print_overview()
        from holdfast.cli.exit_status import CommandError

        advice = "run it in a terminal, or use 'holdfast run --session ID PROMPT'"
        raise CommandError("the terminal UI needs a terminal for input and output", advice=advice, status=2)
    _import_msgspec()
    _change_directory(directory)
    return _open_tui(prompt, session_id=session_id, resume=resume)


def _open_tui(prompt: str, *, session_id: str | None, resume: bool) -> int:
    from holdfast.cli.current_directory import current_directory
    from holdfast.tui import open_tui

    current_directory()
    if session_id is not None or (resume and prompt):
        session_id, resume = _find_session(session_id), False
    return open_tui(prompt=prompt, session_id=session_id, resume=resume)


def _find_session(name: str | None) -> str:
    """The id of a session by its beginning, or of the last one of this directory."""
    from holdfast.cli.command_context import CommandContext, is_complete_id

    if name is not None and is_complete_id(name, "session"):
        return name
    with CommandContext() as context:
        return context.session_id(name)


def _check_encoding(args: list[str]) -> None:
    """Arguments and variables may contain any bytes; everything sent, stored and printed is UTF-8."""
    variables = {name: value for name, value in os.environ.items() if name.startswith("HOLDFAST_")}
    for name, value in (*(("the argument", arg) for arg in args), *variables.items()):
        try:
            value.encode()
        except UnicodeEncodeError:
            from holdfast.cli.exit_status import CommandError

            shown = ascii(os.fsencode(value))[1:]
            raise CommandError(f"{name} {shown} is not UTF-8 text", advice="encode it as UTF-8", status=2) from None


def _print_overview() -> int:
    from holdfast.cli.command_table import overview

    sys.stdout.write(overview())
    return 0


def _run_command(args: list[str], directory: str | None) -> int:
    from holdfast.cli.command_table import all_commands

    name, *rest = args
    command = all_commands().get(name)
    if name == "help":
        return _run_command([rest[0], "--help"], directory) if rest else _print_overview()
    if command is None:
        return _report_unknown(name, kind="command")
    gc.disable()  # the modules imported now live until the process ends; collecting them costs time
    _import_msgspec()
    parsed = _parse(command, rest)
    _change_directory(parsed.directory or directory)
    gc.freeze()
    gc.enable()
    status = int(parsed.run(parsed))
    gc.freeze()
    return status


def _parse(command: CliCommand, args: list[str]) -> Any:
    """Read the arguments of a command into the attributes of an object. Imports the command's module."""
    if command.has_plain_arguments:
        from types import SimpleNamespace

        from holdfast.cli.plain_arguments import PlainArguments

        arguments = PlainArguments()
        command.configure_function()(arguments)
        values = arguments.read(args)
        if values is not None:
            return SimpleNamespace(**values)
    from holdfast.cli.argument_parser import parse, parser_of

    return parse(parser_of(command), args)


def _import_msgspec() -> None:
    """Import msgspec without typing_extensions, platform and textwrap.

    msgspec imports typing_extensions if it is installed. That takes longer than msgspec itself and adds nothing on
    Python 3.11 and newer. It also imports uuid, which imports platform to ask for the name of the system, and textwrap,
    which compiles its patterns, for the descriptions in JSON schemas. Its modules for other formats are imported at
    their first use.
    """
    if not {"msgspec", "typing_extensions", "platform", "textwrap"} & sys.modules.keys():
        from types import SimpleNamespace

        from holdfast.late_modules import import_without

        sys.modules["typing_extensions"] = None  # type: ignore[assignment]
        sys.modules["platform"] = SimpleNamespace(system=lambda: os.uname().sysname)  # type: ignore[assignment]
        sys.modules["textwrap"] = SimpleNamespace(dedent=_dedent)  # type: ignore[assignment]
        import_without("msgspec", *(f"msgspec.{name}" for name in ("inspect", "msgpack", "toml", "yaml")))
        del sys.modules["typing_extensions"], sys.modules["platform"], sys.modules["textwrap"]


def _dedent(text: str) -> str:
    import textwrap

    return textwrap.dedent(text)


def _report_unknown(name: str, *, kind: str) -> int:
    import difflib

    from holdfast.cli.command_table import all_commands

    close = difflib.get_close_matches(name, all_commands(), n=1, cutoff=0.7)
    advice = f"did you mean '{close[0]}'? " if close else ""
    more = "'holdfast --help' lists the commands"
    if kind == "command" and not close:
        more = f"a prompt is quoted, or sent by 'run': holdfast run {name} …; {more}"
    screen.write_stderr(f"holdfast: unknown {kind} {name!r}\n          {advice}{more}\n")
    return 2


def _change_directory(directory: str | None) -> None:
    if directory is None:
        return
    from holdfast.cli.exit_status import CommandError

    try:
        os.chdir(directory)
    except OSError as error:
        message = f"cannot change to the directory {directory!r}: {error.strerror}"
        raise CommandError(message, advice="give -C a directory that exists", status=2) from None


def _report(error: Exception) -> int:
    """Print an error as two lines; returns the exit status."""
    from holdfast.cli.exit_status import CommandError, Exit, exit_of_error, message_and_advice
    from holdfast.errors import HoldfastError

    if isinstance(error, OSError) and (reason := screen.stdout_failure(error)):
        screen.discard_output(sys.stdout)
        screen.write_stderr(f"holdfast: cannot write to stdout: {reason}\n")
        return Exit.FAILED
    if isinstance(error, CommandError):
        message, advice, status = error.message, error.advice, error.status
    elif isinstance(error, HoldfastError):
        (message, advice), status = message_and_advice(error), int(exit_of_error(error))
    else:
        message = f"unexpected {type(error).__name__}: {error}"
        advice, status = "run it again with --debug to see where; please report it", int(Exit.FAILED)
    screen.write_stderr(f"holdfast: {message}\n          {advice}\n")
    return status
