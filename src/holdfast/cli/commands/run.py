"""`holdfast run`: send a prompt and print the answer. The options, and the request made from them."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING, Any

from holdfast.cli.argument_values import count, dollars, identifier, time_span
from holdfast.cli.exit_status import CommandError, Exit
from holdfast.cli.runner import PromptRunner, RunOptions
from holdfast.cli.screen import Screen, is_terminal
from holdfast.client.attachments import MAX_BYTES, attachment
from holdfast.ids import Ids
from holdfast.schema.runs import Limits, RunRequest

if TYPE_CHECKING:
    import argparse

    from holdfast.cli.argument_parser import Parser
    from holdfast.cli.plain_arguments import PlainArguments


def configure(parser: Parser | PlainArguments) -> None:
    parser.explain(
        "Send one prompt and wait for the answer. It is streamed to stdout, everything else to stderr.\n"
        "Exit status: 0 completed, 1 failed, 2 usage, 3 configuration, 4 denied, 5 limit, 6 provider unavailable,\n"
        "7 server lost, 124 timed out, 130 cancelled. Ctrl-C cancels this run and no other.",
        examples=(
            ('holdfast run "why does test_slug.py fail?"', "ask about this directory"),
            ("git diff | holdfast run review this", "stdin is added to the prompt"),
            ('holdfast run --continue "now fix it"', "continue the last session of this directory"),
            ("holdfast run --mode auto --max-cost 0.50 …", "ask only before risky writes, stop at half a dollar"),
            ("holdfast run --effort high …", "let the model think harder"),
            ("holdfast run --output json … | jq -r .text", "print one JSON object"),
            ("id=$(holdfast run --detach …); holdfast wait $id", "start now, read the answer later"),
            ("holdfast run --model offline/demo hello", "no API key needed"),
        ),
    )
    parser.words_argument = "prompt"
    parser.add_argument("prompt", nargs="*", metavar="PROMPT", help="the prompt; '-' or nothing reads it from stdin")
    session = parser.add_argument_group("session")
    session.add_argument("--session", type=identifier, metavar="ID", help="use this session instead of a new one")
    session.add_argument(
        "--continue", dest="resume", action="store_true", help="use the last top-level session of this directory"
    )
    session.add_argument(
        "--delivery", choices=("queue", "steer"), default="queue", help="queue behind the active run, or steer it"
    )
    session.add_argument(
        "--after", choices=("any", "success"), default="any", help="success: start only if the run before it completes"
    )
    model = parser.add_argument_group("model and limits")
    model.add_argument("--model", metavar="PROVIDER/MODEL", help="model for this run; 'holdfast models' lists them")
    model.add_argument(
        "--effort", metavar="EFFORT", help="how hard the model thinks: off, low, medium, high …; see 'holdfast models'"
    )
    model.add_argument(
        "--agent", metavar="NAME", help="agent for this session, see 'holdfast agents'; 'main' for none any more"
    )
    model.add_argument("--mode", choices=("ask", "accept_edits", "plan", "auto"), help="when to ask for approval")
    model.add_argument("--attach", metavar="FILE", action="append", default=[], help="attach a file; repeatable")
    model.add_argument("--max-steps", metavar="N", type=count, help="maximum number of model requests")
    model.add_argument("--max-cost", metavar="DOLLARS", type=dollars, help="maximum cost")
    model.add_argument("--timeout", metavar="TIME", type=time_span, help="cancel the run after 90, 90s, 5m or 1h")
    output = parser.add_argument_group("output")
    output.add_argument(
        "--output",
        choices=("text", "json", "jsonl"),
        default="text",
        help="text, one JSON object, or one JSON event per line",
    )
    output.add_argument("--json", dest="output", action="store_const", const="json", help="the same as --output json")
    output.add_argument("--output-schema", metavar="FILE", help="JSON Schema; only an answer that matches is printed")
    output.add_argument("--last-message", metavar="FILE", help="write the agent's last message to a file")
    output.add_argument("-q", "--quiet", action="store_true", help="print only errors to stderr")
    output.add_argument("-v", "--verbose", action="store_true", help="print the output of tools and the task list")
    output.add_argument("--detach", action="store_true", help="print the run's id and exit")
    output.add_argument(
        "--run-id", type=identifier, metavar="ID", help="your own id; sending it again gives the same run"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.session and args.resume:
        raise CommandError(
            "--session and --continue cannot be used together", advice="use one of them", status=Exit.USAGE
        )
    if args.quiet and args.verbose:
        raise CommandError("--quiet and --verbose cannot be used together", advice="use one of them", status=Exit.USAGE)
    screen = Screen(quiet=args.quiet)
    try:
        request = make_request(args, screen)
    except KeyboardInterrupt:  # while stdin is being read
        if args.output == "text" or args.detach:
            raise
        from holdfast.cli.formatting import json_line, json_text
        from holdfast.cli.run_result import make_result, unsent_run

        result = make_result(unsent_run(args.run_id, session_id=args.session), exit_code=Exit.CANCELLED)
        screen.line(json_text(result) if args.output == "json" else json_line(result))
        return Exit.CANCELLED
    if args.last_message:
        _check_writable(args.last_message)
    return PromptRunner(screen, RunOptions.from_args(args, request)).run()


def make_request(args: argparse.Namespace, screen: Screen) -> RunRequest:
    """The request. It has an id, so that sending it again gives the same run."""
    return RunRequest(
        prompt=_read_prompt(args.prompt, screen),
        run_id=args.run_id or Ids().new("run"),
        attachments=tuple(attachment(os.path.basename(path), _read(path)) for path in args.attach),
        delivery=args.delivery,
        after=args.after,
        model=args.model,
        mode=args.mode,
        effort=args.effort,
        agent=args.agent,
        interactive=is_terminal(sys.stdin) and is_terminal(sys.stderr),
        limits=Limits(max_steps=args.max_steps, max_seconds=args.timeout, max_cost=args.max_cost),
        output_schema=_read_schema(args.output_schema) if args.output_schema else None,
    )


def _read_prompt(words: list[str], screen: Screen) -> str:
    typed = " ".join(words if words != ["-"] else []).strip()
    piped = _read_stdin(screen)
    prompt = "\n\n".join(part for part in (typed, piped) if part)
    if not prompt:
        raise CommandError(
            "no prompt was given",
            advice="holdfast run \"fix the tests\", or from a pipe: echo 'fix the tests' | holdfast run",
            status=Exit.USAGE,
        )
    return prompt


def _read_stdin(screen: Screen) -> str:
    """The text on stdin if it is a pipe, a file or a socket; otherwise nothing."""
    try:
        kind = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return ""  # stdin is closed
    if not (stat.S_ISFIFO(kind) or stat.S_ISREG(kind) or stat.S_ISSOCK(kind)):
        return ""
    screen.status("reading stdin")
    try:
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
    finally:
        screen.status(None)
    if len(data) > MAX_BYTES:
        raise _too_large("stdin")
    try:
        return data.decode().strip()
    except UnicodeDecodeError:
        raise CommandError(
            "stdin is not UTF-8 text", advice="attach it as a file: --attach FILE", status=Exit.USAGE
        ) from None


def _read_schema(path: str) -> dict[str, Any]:
    import msgspec

    try:
        return msgspec.json.decode(_read(path), type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise CommandError(
            f"{path!r} is not a JSON Schema: {error}", advice="the file must contain a JSON object", status=Exit.USAGE
        ) from None


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise CommandError(
            f"cannot read {path!r}: {error.strerror}", advice="check the path and its permissions", status=Exit.USAGE
        ) from None
    if len(data) > MAX_BYTES:
        raise _too_large(repr(path))
    return data


def _too_large(name: str) -> CommandError:
    return CommandError(
        f"{name} is larger than {MAX_BYTES >> 20} MB",
        advice="put it into the directory, where the agent can read parts of it",
        status=Exit.USAGE,
    )


def _check_writable(path: str) -> None:
    """Fail before the run starts, not after it."""
    directory = os.path.dirname(path) or "."
    if os.path.isdir(path) or not os.access(path if os.path.exists(path) else directory, os.W_OK):
        raise CommandError(f"cannot write {path!r}", advice="give --last-message a writable file", status=Exit.USAGE)
