"""`holdfast queue`, `pause` and `resume`: the queued runs of a session."""

from __future__ import annotations

import argparse

from holdfast.cli.argument_parser import Parser, add_json_argument, add_session_argument, add_subcommands
from holdfast.cli.argument_values import identifier, queue_position
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import Exit
from holdfast.cli.formatting import json_text, table
from holdfast.cli.run_follower import PAUSES
from holdfast.cli.run_result import receipt_lines
from holdfast.cli.screen import one_line
from holdfast.schema.runs import Queue, Run


def configure(parser: Parser) -> None:
    parser.explain(
        "List, edit, move and remove the queued runs of a session.",
        examples=(
            ("holdfast queue", "the last session of this directory"),
            ('holdfast queue edit run_… "do this instead"', "change the prompt of a queued run"),
            ("holdfast queue move run_… 1", "start it next"),
            ("holdfast queue remove run_…", "remove it from the queue"),
        ),
    )
    add = add_subcommands(parser, default="list")
    listed = add("list", "list active and queued runs")
    add_session_argument(listed)
    listed.set_defaults(run=show)
    edited = add("edit", "change the prompt of a queued run")
    edited.add_argument("run_id", type=identifier, metavar="RUN")
    edited.add_argument("prompt", nargs="+", metavar="PROMPT")
    edited.set_defaults(run=edit)
    moved = add("move", "move a queued run")
    moved.add_argument("run_id", type=identifier, metavar="RUN")
    moved.add_argument("position", type=queue_position, metavar="POSITION", help="1 starts next")
    moved.set_defaults(run=move)
    removed = add("remove", "remove a run from the queue")
    removed.add_argument("run_id", type=identifier, metavar="RUN")
    removed.set_defaults(run=remove)
    for each in (listed, edited, moved, removed):
        add_json_argument(each)


def configure_pause(parser: Parser) -> None:
    parser.explain(
        "Pause a session's queue. The active run continues; queued runs do not start.",
        examples=(("holdfast pause", "pause the last session of this directory"),),
    )
    add_session_argument(parser)
    add_json_argument(parser)
    parser.set_defaults(run=pause)


def configure_resume(parser: Parser) -> None:
    parser.explain(
        "Resume a session's queue.", examples=(("holdfast resume", "resume the last session of this directory"),)
    )
    add_session_argument(parser)
    add_json_argument(parser)
    parser.set_defaults(run=resume)


def show(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        session_id = context.session_id(args.session)
        queue = context.client.session(session_id).queue
        if args.json:
            print(json_text(queue))
            return Exit.COMPLETED
        runs = [context.client.get_run(run_id) for run_id in _run_ids(queue)]
    print("\n".join(queue_lines(queue, runs)))
    return Exit.COMPLETED


def queue_lines(queue: Queue, runs: list[Run]) -> list[str]:
    rows = [(run.id, run.state, one_line(run.prompt or run.kind, most=80)) for run in runs]
    lines = table(rows) or ["no run is active or queued"]
    return [*lines, PAUSES[queue.paused]] if queue.paused else lines


def _run_ids(queue: Queue) -> list[str]:
    return [*([queue.active] if queue.active else []), *queue.waiting, *queue.run_ids]


def edit(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        run = context.client.change_run(context.full_id(args.run_id, "run"), prompt=" ".join(args.prompt))
    print(json_text(run) if args.json else f"{run.id}  {one_line(run.prompt)}")
    return Exit.COMPLETED


def move(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        run = context.client.change_run(context.full_id(args.run_id, "run"), position=args.position)
        queue = context.client.session(run.session_id).queue
        runs = [context.client.get_run(run_id) for run_id in _run_ids(queue)]
    print(json_text(queue) if args.json else "\n".join(queue_lines(queue, runs)))
    return Exit.COMPLETED


def remove(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        receipt = context.client.cancel_run(context.full_id(args.run_id, "run"))
    print(json_text(receipt) if args.json else "\n".join(receipt_lines(receipt)))
    return Exit.COMPLETED


def pause(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        queue = context.client.pause(context.session_id(args.session))
    text = PAUSES[queue.paused] if queue.paused else "the queue is not paused"
    print(json_text(queue) if args.json else text)
    return Exit.COMPLETED


def resume(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        queue = context.client.resume(context.session_id(args.session))
    queued = len(queue.run_ids)
    if args.json:
        print(json_text(queue))
        return Exit.COMPLETED
    print(PAUSES[queue.paused] if queue.paused else f"resumed; {queued} run{'s' * (queued != 1)} queued")
    return Exit.COMPLETED
