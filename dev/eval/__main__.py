"""``python -m dev.eval --model provider/model``: run the tasks and print the results."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from dev.eval.eval_report import EvalResults, EvalTotal, TaskResult, comparison, read_results, table
from dev.eval.eval_runner import EvalRunner, eval_directory
from dev.eval.eval_task import load_tasks
from holdfast import __version__


def main(argv: Sequence[str] | None = None, *, env: Mapping[str, str] = os.environ) -> int:
    args = _parser().parse_args(argv)
    try:
        if args.show:
            print(table(_read(args.show)) if not args.compare else comparison(_read(args.compare), _read(args.show)))
            return 0
        if not args.model:
            raise ValueError("no model is named; for example: make eval MODEL=anthropic/claude-sonnet-4-5")
        old = _read(args.compare) if args.compare else None
        tasks = load_tasks(tuple(args.tasks.split(",")) if args.tasks else ())
        output = Path(args.output or f"eval-{args.model.replace('/', '-')}-{time.strftime('%Y%m%d-%H%M%S')}.json")
        if not output.parent.is_dir():
            raise ValueError(f"the directory of {str(output)!r} does not exist")
    except (ValueError, OSError) as error:
        sys.stderr.write(f"eval: {error}\n")
        return 2
    with eval_directory(Path(args.keep) if args.keep else None) as directory:
        runner = EvalRunner(directory, model=args.model, env=env, options=args.option)
        try:
            found = runner.run(tasks, parallel=args.parallel, done=_tell)
        finally:
            runner.close()
    results = EvalResults(
        model=args.model,
        version=__version__,
        commit=_commit(),
        finished_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        tasks=tuple(found),
        total=EvalTotal.of(found),
    )
    output.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n")
    print(table(results))
    if old is not None:
        print(f"\n{comparison(old, results)}")
    print(f"\nwritten to {output}")
    return 0 if any(result.steps for result in found) else 1  # no model answered


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m dev.eval", description=__doc__)
    parser.add_argument("--model", metavar="PROVIDER/MODEL")
    parser.add_argument("--tasks", metavar="A,B", help="only these tasks")
    parser.add_argument("--output", metavar="FILE", help="write the JSON here; eval-MODEL-TIME.json by default")
    parser.add_argument("--compare", metavar="FILE", help="compare with these results")
    parser.add_argument("--show", metavar="FILE", help="print these results instead of running anything")
    parser.add_argument("--parallel", metavar="N", type=int, default=1, help="tasks at a time (1)")
    parser.add_argument("--keep", metavar="DIR", help="keep the copies and the sessions here")
    parser.add_argument("--option", metavar="OPTION", action="append", default=[], help="passed on to 'holdfast run'")
    return parser


def _read(name: str) -> EvalResults:
    return read_results(Path(name).read_bytes(), name=name)


def _tell(result: TaskResult) -> None:
    """Progress on stderr; the table follows at the end."""
    sys.stderr.write(f"{'solved    ' if result.solved else 'not solved'}  {result.name}  {result.seconds:.0f} s\n")
    sys.stderr.flush()


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()


if __name__ == "__main__":
    raise SystemExit(main())
