"""`holdfast cancel`: one run, or what a session was asked until now."""

from __future__ import annotations

import argparse

from holdfast.cli.argument_parser import Parser, an_id
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import Exit
from holdfast.cli.run_result import as_text
from holdfast.cli.screen import one_line
from holdfast.errors import NotFound
from holdfast.schema.runs import Receipt


def configure(parser: Parser) -> None:
    parser.explain(
        "Cancel one run, or everything that a session was asked until now; what is asked later is not touched.\n"
        "The receipt says how each run ended, and what was killed.",
        examples=(
            ("holdfast cancel", "everything in the session that was used last here"),
            ("holdfast cancel --active", "only what runs; the queue goes on"),
            ("holdfast cancel run_…", "one run"),
        ),
    )
    parser.add_argument(
        "target", type=an_id, nargs="?", metavar="SESSION|RUN", help="the last session here, if none is named"
    )
    parser.add_argument("--active", action="store_true", help="of a session, only what runs now")
    parser.add_argument("--json", action="store_true", help="the receipt as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    with CommandContext() as here:
        receipt = _cancel(here, args.target, scope_active=args.active)
    if args.json:
        print(as_text(receipt))
    else:
        print("\n".join(lines_of(receipt)))
    return Exit.COMPLETED


def _cancel(here: CommandContext, target: str | None, *, scope_active: bool) -> Receipt:
    """An id of a run may be anything that its client chose, so a name that is no run's is tried as a session's."""
    if target and not target.startswith("ses_"):
        try:
            return here.client.cancel_run(target)
        except NotFound as error:
            if error.error_code != "run_not_found":
                raise
    session_id = here.session_id(target)
    return here.client.cancel_session(session_id, scope="active" if scope_active else "session")


def lines_of(receipt: Receipt) -> list[str]:
    """The receipt as people read it."""
    if not receipt.runs:
        return ["nothing was running or waiting"]
    lines = []
    for covered in receipt.runs:
        doing = f" ({covered.doing.what or covered.doing.phase})" if covered.doing else ""
        end = covered.ended_as or "is still stopping"
        lines.append(
            f"{covered.run_id}  was {covered.was}{one_line(doing)}, {end}  {one_line(covered.prompt, most=60)}"
        )
        lines += [f"  killed: {one_line(name)}" for name in covered.killed]
        lines += [f"  goes on: {one_line(name)}" for name in covered.left_running]
    return lines
