"""Options of the commands that send a prompt of their own: `accept`, `init`, `review`."""

from __future__ import annotations

import argparse
import sys

from holdfast.cli.argument_parser import Parser
from holdfast.cli.argument_values import dollars, time_span
from holdfast.cli.runner import PromptRunner, RunOptions
from holdfast.cli.screen import Screen, is_terminal
from holdfast.ids import Ids
from holdfast.schema.messages import File
from holdfast.schema.runs import Limits, Mode, RunRequest


def add_task_options(parser: Parser, *, chooses_model: bool = True) -> None:
    """The options of `holdfast run` that make sense for every task."""
    if chooses_model:
        parser.add_argument(
            "--model", metavar="PROVIDER/MODEL", help="model for this run; 'holdfast models' lists them"
        )
        parser.add_argument("--effort", metavar="EFFORT", help="how hard the model thinks: off, low, medium, high …")
        parser.add_argument("--max-cost", metavar="DOLLARS", type=dollars, help="maximum cost")
    parser.add_argument("--timeout", metavar="TIME", type=time_span, help="cancel the run after 90, 90s, 5m or 1h")
    parser.add_argument("--output", choices=("text", "json", "jsonl"), default="text", help="as for 'holdfast run'")
    parser.add_argument("--json", dest="output", action="store_const", const="json", help="the same as --output json")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only errors to stderr")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the output of tools and the task list")
    parser.add_argument("--detach", action="store_true", help="print the run's id and exit")


def run_task(
    args: argparse.Namespace,
    prompt: str,
    *,
    mode: Mode,
    attachments: tuple[File, ...] = (),
    session_id: str | None = None,
    accepts_plan: bool = False,
) -> int:
    """Send the prompt in a new session, or accept the plan of a session, and follow the run."""
    request = RunRequest(
        prompt=prompt,
        run_id=Ids().new("run"),
        attachments=attachments,
        model=getattr(args, "model", None),
        effort=getattr(args, "effort", None),
        mode=mode,
        interactive=is_terminal(sys.stdin) and is_terminal(sys.stderr),
        limits=Limits(max_seconds=args.timeout, max_cost=getattr(args, "max_cost", None)),
    )
    options = RunOptions(
        request=request,
        session_id=session_id,
        resume=accepts_plan and session_id is None,
        output=args.output,
        last_message=None,
        detach=args.detach,
        timeout=args.timeout,
        verbose=args.verbose,
        has_run_id=False,
        accepts_plan=accepts_plan,
    )
    return PromptRunner(Screen(quiet=args.quiet), options).run()
