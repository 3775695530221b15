"""`holdfast review`: a review of the work tree, a commit, a branch or a pull request."""

from __future__ import annotations

import argparse
import os
import stat
import sys

from holdfast.cli.argument_parser import Parser
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import CommandError, Exit
from holdfast.cli.task_options import add_task_options, run_task
from holdfast.client.task_prompts import read_task_prompt
from holdfast.schema.messages import File

_MAX_DIFF_BYTES = 512 * 1024
_GH_SECONDS = 60.0


def configure(parser: Parser) -> None:
    parser.explain(
        "Let the agent review changes: it reads the diff and the code around it, changes nothing, and prints what it\n"
        "found, the gravest first. Without an option: the uncommitted changes of this directory.",
        examples=(
            ("holdfast review", "the uncommitted changes"),
            ("holdfast review --commit HEAD", "the last commit"),
            ("holdfast review --branch main", "what this branch adds to main"),
            ("holdfast review --pr 17 look at the locking", "a pull request, by the program 'gh'; with a wish"),
            ("git diff v1.0 | holdfast review -", "any diff"),
        ),
    )
    parser.words_argument = "wish"
    parser.add_argument("wish", nargs="*", metavar="WISH", help="what to look at; '-' reads the diff from stdin")
    target = parser.add_mutually_exclusive_group()
    target.add_argument("--commit", metavar="REV", help="a commit")
    target.add_argument(
        "--branch", nargs="?", const="", metavar="BASE", help="this branch since BASE, or since the default branch"
    )
    target.add_argument("--pr", metavar="NUMBER", help="a pull request, by its number or address")
    add_task_options(parser)
    parser.set_defaults(run=review)


def review(args: argparse.Namespace) -> int:
    wishes = [word for word in args.wish if word != "-"]
    title, diff = _find_diff(args)
    if not diff.strip():
        print(f"there are no changes: {title}", file=sys.stderr)
        return Exit.COMPLETED
    prompt = read_task_prompt("review").replace("{target}", title)
    if wishes:
        prompt += f"\n\nThe user asks especially: {' '.join(wishes)}"
    return run_task(args, prompt, mode="plan", attachments=(File("changes.diff", "text/plain", text=diff),))


def _find_diff(args: argparse.Namespace) -> tuple[str, str]:
    if "-" in args.wish:
        if args.commit or args.branch is not None or args.pr:
            raise CommandError(
                "'-' cannot be used with --commit, --branch or --pr", advice="use one of them", status=Exit.USAGE
            )
        return "the changes in the attached diff", _read_stdin()
    if args.pr:
        return f"the pull request {args.pr}", _pull_request(args.pr)
    with CommandContext() as context:
        found = context.client.diff(
            context.workspace.id, commit=args.commit, branch=args.branch is not None, base=args.branch or None
        )
    return found.title, found.text


def _read_stdin() -> str:
    kind = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(kind) or stat.S_ISREG(kind) or stat.S_ISSOCK(kind)):
        raise CommandError("stdin is no pipe", advice="git diff | holdfast review -", status=Exit.USAGE)
    return _cut(sys.stdin.buffer.read(_MAX_DIFF_BYTES + 1))


def _pull_request(name: str) -> str:
    """The diff of a pull request, from GitHub's own program, which knows the login."""
    import subprocess

    if name.startswith("-"):
        raise CommandError(f"{name!r} is no pull request", advice="give its number or address", status=Exit.USAGE)
    try:
        done = subprocess.run(
            ["gh", "pr", "diff", name], stdin=subprocess.DEVNULL, capture_output=True, timeout=_GH_SECONDS, check=False
        )
    except FileNotFoundError:
        raise CommandError(
            "the program 'gh' is not installed",
            advice="install it, or check the branch out and use 'holdfast review --branch'",
            status=Exit.CONFIGURATION,
        ) from None
    except subprocess.TimeoutExpired:
        raise CommandError(
            f"'gh pr diff {name}' took longer than {_GH_SECONDS:.0f} s", advice="try again", status=Exit.FAILED
        ) from None
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise CommandError(
            f"'gh pr diff {name}' failed: {said[0] if said else f'status {done.returncode}'}",
            advice="'gh auth status' shows whether you are logged in",
            status=Exit.FAILED,
        )
    return _cut(done.stdout)


def _cut(data: bytes) -> str:
    text = data[:_MAX_DIFF_BYTES].decode("utf-8", "replace").replace("\0", "�")
    return (
        text
        if len(data) <= _MAX_DIFF_BYTES
        else f"{text}\n[cut here: the diff is longer than {_MAX_DIFF_BYTES >> 10} KiB]\n"
    )
