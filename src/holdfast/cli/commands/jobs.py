"""`holdfast jobs`: the commands that the agent left running in the background."""

from __future__ import annotations

import argparse
import sys
import time

from holdfast.cli.argument_parser import Parser, add_json_argument, add_subcommands
from holdfast.cli.argument_values import identifier
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import Exit
from holdfast.cli.formatting import ago, json_text, table
from holdfast.cli.screen import one_line, plain
from holdfast.schema.sessions import Job


def configure(parser: Parser) -> None:
    parser.explain(
        "List, show and end the commands that the agent left running in the background of this directory.",
        examples=(
            ("holdfast jobs", "list them, newest first"),
            ("holdfast jobs show job_…", "print the output so far"),
            ("holdfast jobs kill job_…", "end it and everything it started"),
        ),
    )
    add = add_subcommands(parser, default="list")
    listed = add("list", "list the background jobs of this directory, newest first")
    listed.add_argument("--running", action="store_true", help="only those that are running")
    listed.set_defaults(run=show_list)
    shown = add("show", "print the output of a job so far")
    shown.set_defaults(run=show)
    killed = add("kill", "end a job with all its processes")
    killed.set_defaults(run=kill)
    for each in (shown, killed):
        each.add_argument("job", type=identifier, metavar="JOB")
    for each in (listed, shown, killed):
        add_json_argument(each)


def show_list(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        page = context.client.jobs(context.workspace.id, running=args.running or None)
    if args.json:
        print(json_text(page))
        return Exit.COMPLETED
    now = time.time()
    rows = [(job.id, ago(job.started_at, now=now), state_of(job), one_line(job.command, most=80)) for job in page.items]
    if rows:
        print("\n".join(table([("JOB", "STARTED", "STATE", "COMMAND"), *rows])))
    else:
        print("no background jobs are running" if args.running else "this directory has no background jobs")
    return Exit.COMPLETED


def state_of(job: Job) -> str:
    return f"exit {job.exit_code}" if job.state == "exited" and job.exit_code is not None else job.state


def show(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        job = context.client.job(context.full_id(args.job, "job"))
        output = "" if args.json or job.call_id is None else context.client.call_output(job.call_id)
    if args.json:
        print(json_text(job))
        return Exit.COMPLETED
    sys.stdout.write(plain(output))
    print(f"{job.id}  {state_of(job)}  {one_line(job.command)}", file=sys.stderr)
    return Exit.COMPLETED


def kill(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        job = context.client.kill_job(context.full_id(args.job, "job"))
    if args.json:
        print(json_text(job))
        return Exit.COMPLETED
    print(f"{job.id}  {state_of(job)}  {one_line(job.command)}")
    for name in job.left_running:
        print(f"  still running: {one_line(name)}")
    return Exit.FAILED if job.left_running else Exit.COMPLETED
