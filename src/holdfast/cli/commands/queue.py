"""`holdfast queue`, `pause` and `resume`: what waits in a session."""

from __future__ import annotations

import argparse

from holdfast.cli.argument_parser import Parser, an_id, family, place
from holdfast.cli.command_context import CommandContext
from holdfast.cli.commands.cancel import lines_of
from holdfast.cli.exit_status import Exit
from holdfast.cli.formatting import table
from holdfast.cli.run_result import as_text
from holdfast.cli.screen import one_line
from holdfast.schema.runs import Queue, Run

WHY = {
    "user": "paused by a person",
    "server_stop": "paused: the server was stopped",
    "predecessor": "paused: the run before did not complete",
}


def configure(parser: Parser) -> None:
    parser.explain(
        "Show and change what waits in a session.",
        examples=(
            ("holdfast queue list", "of the session that was used last here"),
            ('holdfast queue edit run_… "do this instead"', "as long as it waits"),
            ("holdfast queue move run_… 1", "to the front"),
            ("holdfast queue remove run_…", "it never begins"),
        ),
    )
    make = family(parser)
    listed = make("list", "what runs and what waits")
    listed.add_argument("session", type=an_id, nargs="?", metavar="SESSION")
    listed.add_argument("--json", action="store_true")
    listed.set_defaults(run=show)
    edited = make("edit", "another prompt for a run that waits")
    edited.add_argument("run_id", type=an_id, metavar="RUN")
    edited.add_argument("prompt", nargs="+", metavar="PROMPT")
    edited.set_defaults(run=edit)
    moved = make("move", "another place for a run that waits")
    moved.add_argument("run_id", type=an_id, metavar="RUN")
    moved.add_argument("position", type=place, metavar="POSITION", help="1 is the next to begin")
    moved.set_defaults(run=move)
    removed = make("remove", "take a run out of the queue")
    removed.add_argument("run_id", type=an_id, metavar="RUN")
    removed.set_defaults(run=remove)


def configure_pause(parser: Parser) -> None:
    parser.explain("Hold a session's queue. What runs goes on; what waits does not begin.")
    parser.add_argument("session", type=an_id, nargs="?", metavar="SESSION", help="the last one here, if none is named")
    parser.set_defaults(run=pause)


def configure_resume(parser: Parser) -> None:
    parser.explain("Let a session's queue go on.")
    parser.add_argument("session", type=an_id, nargs="?", metavar="SESSION", help="the last one here, if none is named")
    parser.set_defaults(run=resume)


def show(args: argparse.Namespace) -> int:
    with CommandContext() as here:
        session_id = here.session_id(args.session)
        queue = here.client.session(session_id).queue
        if args.json:
            print(as_text(queue))
            return Exit.COMPLETED
        runs = [here.client.get_run(run_id) for run_id in _ids(queue)]
    print("\n".join(lines_for(queue, runs)))
    return Exit.COMPLETED


def lines_for(queue: Queue, runs: list[Run]) -> list[str]:
    rows = [(run.id, run.state, one_line(run.prompt or run.kind, most=80)) for run in runs]
    lines = table(rows) or ["nothing runs or waits"]
    return [*lines, WHY[queue.paused]] if queue.paused else lines


def _ids(queue: Queue) -> list[str]:
    return [*([queue.active] if queue.active else []), *queue.waiting, *queue.run_ids]


def edit(args: argparse.Namespace) -> int:
    with CommandContext() as here:
        run = here.client.change_run(args.run_id, prompt=" ".join(args.prompt))
    print(f"{run.id}  {one_line(run.prompt)}")
    return Exit.COMPLETED


def move(args: argparse.Namespace) -> int:
    with CommandContext() as here:
        run = here.client.change_run(args.run_id, position=args.position)
        queue = here.client.session(run.session_id).queue
        runs = [here.client.get_run(run_id) for run_id in _ids(queue)]
    print("\n".join(lines_for(queue, runs)))
    return Exit.COMPLETED


def remove(args: argparse.Namespace) -> int:
    with CommandContext() as here:
        receipt = here.client.cancel_run(args.run_id)
    print("\n".join(lines_of(receipt)))
    return Exit.COMPLETED


def pause(args: argparse.Namespace) -> int:
    with CommandContext() as here:
        queue = here.client.pause(here.session_id(args.session))
    print(WHY[queue.paused] if queue.paused else "not paused")
    return Exit.COMPLETED


def resume(args: argparse.Namespace) -> int:
    with CommandContext() as here:
        queue = here.client.resume(here.session_id(args.session))
    waiting = len(queue.run_ids)
    print(f"goes on; {waiting} run{'s' * (waiting != 1)} waiting" if not queue.paused else WHY[queue.paused])
    return Exit.COMPLETED
