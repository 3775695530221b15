"""`holdfast run`: one prompt to its end."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from typing import Any

from holdfast.cli.argument_parser import Parser, an_id, count, dollars, seconds
from holdfast.cli.error_messages import Problem
from holdfast.cli.exit_status import Exit
from holdfast.cli.run_result import as_line, as_text, result_of
from holdfast.cli.runner import Job, Runner, never_sent
from holdfast.cli.screen import Screen, is_terminal
from holdfast.ids import Ids
from holdfast.schema.messages import File
from holdfast.schema.runs import Limits, RunRequest

_MOST_BYTES = 24 * 1024 * 1024


def configure(parser: Parser) -> None:
    parser.explain(
        "Send one prompt and follow it to its end. The answer is streamed to stdout, everything else to stderr.\n"
        "The exit status tells how it ended: 0 completed, 1 failed, 2 usage, 3 configuration, 4 denied, 5 limit,\n"
        "6 provider unavailable, 7 server lost, 124 timed out, 130 cancelled. Ctrl-C cancels this run, and only it.",
        examples=(
            ('holdfast run "why does test_slug.py fail?"', "in this directory"),
            ("git diff | holdfast run review this", "what is piped is added to the prompt"),
            ('holdfast run --continue "now fix it"', "in the session that was used last here"),
            ("holdfast run --mode auto --max-cost 0.50 …", "ask nothing, and stop at half a dollar"),
            ("holdfast run --output json … | jq -r .text", "one result object"),
            ("id=$(holdfast run --detach …); holdfast wait $id", "begin now, look later"),
            ("holdfast run --model offline/demo hello", "without a key"),
        ),
    )
    parser.words = "prompt"
    parser.add_argument("prompt", nargs="*", metavar="PROMPT", help="the words; '-' or nothing: from stdin")
    where = parser.add_argument_group("where")
    where.add_argument("--session", type=an_id, metavar="ID", help="in this session, instead of a new one")
    where.add_argument(
        "--continue", dest="resume", action="store_true", help="in the top-level session that was used last here"
    )
    where.add_argument("--delivery", choices=("queue", "steer"), default="queue", help="after, or into, what runs")
    where.add_argument("--after", choices=("any", "success"), default="any", help="what must come of the run before")
    how = parser.add_argument_group("how")
    how.add_argument("--model", metavar="PROVIDER/MODEL", help="for this run; 'holdfast models' lists them")
    how.add_argument("--mode", choices=("ask", "accept_edits", "plan", "auto"), help="what is asked of a person")
    how.add_argument("--attach", metavar="FILE", action="append", default=[], help="send a file along; repeatable")
    how.add_argument("--max-steps", metavar="N", type=count, help="model requests")
    how.add_argument("--max-cost", metavar="DOLLARS", type=dollars, help="what it may cost")
    how.add_argument("--timeout", metavar="TIME", type=seconds, help="90, 90s, 5m or 1h; then it is cancelled")
    out = parser.add_argument_group("what comes out")
    out.add_argument("--output", choices=("text", "json", "jsonl"), default="text", help="text, one object, or events")
    out.add_argument("--output-schema", metavar="FILE", help="JSON Schema that the answer must follow")
    out.add_argument("--last-message", metavar="FILE", help="write the last thing the agent said to a file")
    out.add_argument("-q", "--quiet", action="store_true", help="nothing on stderr but errors")
    out.add_argument("--detach", action="store_true", help="print the run's id and leave")
    out.add_argument("--run-id", type=an_id, metavar="ID", help="your own id: sending it again is the same run")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.session and args.resume:
        raise Problem("--session and --continue exclude each other", advice="give one of them", status=Exit.USAGE)
    screen = Screen(quiet=args.quiet)
    try:
        request = request_of(args, screen)
    except KeyboardInterrupt:  # while stdin is being read
        if args.output == "text" or args.detach:
            raise
        never = result_of(never_sent(args.run_id, session_id=args.session), exit_code=Exit.CANCELLED)
        screen.line(as_text(never) if args.output == "json" else as_line(never))
        return Exit.CANCELLED
    if args.last_message:
        _check_writable(args.last_message)
    return Runner(screen, Job.of(args, request)).run()


def request_of(args: argparse.Namespace, screen: Screen) -> RunRequest:
    """What is sent, the same whenever it is sent again."""
    return RunRequest(
        prompt=_prompt(args.prompt, screen),
        run_id=args.run_id or Ids().new("run"),
        attachments=tuple(_attached(path) for path in args.attach),
        delivery=args.delivery,
        after=args.after,
        model=args.model,
        mode=args.mode,
        interactive=is_terminal(sys.stdin) and is_terminal(sys.stderr),
        limits=Limits(max_steps=args.max_steps, max_seconds=args.timeout, max_cost=args.max_cost),
        output_schema=_schema(args.output_schema) if args.output_schema else None,
    )


def _prompt(words: list[str], screen: Screen) -> str:
    said = " ".join(words if words != ["-"] else []).strip()
    piped = _piped(screen)
    prompt = "\n\n".join(part for part in (said, piped) if part)
    if not prompt:
        raise Problem(
            "there is no prompt",
            advice="holdfast run \"what should be done\"; or pipe it: echo 'do it' | holdfast run",
            status=Exit.USAGE,
        )
    return prompt


def _piped(screen: Screen) -> str:
    """What stdin brings, if it is a pipe or a file; a terminal or nothing at all brings nothing."""
    try:
        kind = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return ""  # there is no stdin
    if not (stat.S_ISFIFO(kind) or stat.S_ISREG(kind) or stat.S_ISSOCK(kind)):
        return ""
    screen.status("reading stdin")
    try:
        data = sys.stdin.buffer.read(_MOST_BYTES + 1)
    finally:
        screen.status(None)
    if len(data) > _MOST_BYTES:
        raise _too_much("what is piped")
    try:
        return data.decode().strip()
    except UnicodeDecodeError:
        raise Problem(
            "what is piped is not UTF-8 text", advice="attach it instead: --attach FILE", status=Exit.USAGE
        ) from None


def _attached(path: str) -> File:
    data = _read(path)
    name = os.path.basename(path)
    try:
        return File(name, "text/plain", text=data.decode())
    except UnicodeDecodeError:
        import base64
        import mimetypes

        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return File(name, kind, data=base64.b64encode(data).decode("ascii"))


def _schema(path: str) -> dict[str, Any]:
    import msgspec

    try:
        return msgspec.json.decode(_read(path), type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Problem(
            f"{path!r} is no JSON Schema: {error}", advice="it must be a JSON object", status=Exit.USAGE
        ) from None


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise Problem(
            f"cannot read {path!r}: {error.strerror}", advice="check the path and its permissions", status=Exit.USAGE
        ) from None
    if len(data) > _MOST_BYTES:
        raise _too_much(repr(path))
    return data


def _too_much(what: str) -> Problem:
    return Problem(
        f"{what} is larger than {_MOST_BYTES >> 20} MB",
        advice="put it into the directory and let the agent read what it needs",
        status=Exit.USAGE,
    )


def _check_writable(path: str) -> None:
    """Before the run, not after it."""
    where = os.path.dirname(path) or "."
    if os.path.isdir(path) or not os.access(path if os.path.exists(path) else where, os.W_OK):
        raise Problem(f"cannot write {path!r}", advice="--last-message needs a file to write to", status=Exit.USAGE)
