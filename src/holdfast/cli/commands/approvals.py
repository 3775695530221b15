"""`holdfast approvals`: what waits for a person, answered from any shell."""

from __future__ import annotations

import argparse

from holdfast.cli.argument_parser import Parser, an_id, family
from holdfast.cli.command_context import CommandContext
from holdfast.cli.error_messages import Problem
from holdfast.cli.exit_status import Exit
from holdfast.cli.run_result import as_text
from holdfast.cli.screen import one_line, plain
from holdfast.errors import Conflict


def configure(parser: Parser) -> None:
    parser.explain(
        "What the agent asks before it does it. The first answer counts, wherever it is given.",
        examples=(
            ("holdfast approvals list", "in this directory"),
            ("holdfast approvals answer apr_… once", "allow this call"),
            ("holdfast approvals answer apr_… always", "and every one like it, as the list shows"),
            ('holdfast approvals answer apr_… deny --feedback "use make test"', "the agent reads why"),
        ),
    )
    make = family(parser)
    listed = make("list", "what waits for an answer")
    listed.set_defaults(run=show)
    answered = make("answer", "allow or deny")
    answered.add_argument("approval", type=an_id, metavar="ID")
    answered.add_argument("decision", choices=("once", "session", "always", "deny"))
    answered.add_argument("--feedback", default="", metavar="TEXT", help="what the agent is told, with deny")
    answered.set_defaults(run=answer)
    for each in (listed, answered):
        each.add_argument("--json", action="store_true")


def show(args: argparse.Namespace) -> int:
    with CommandContext() as here:
        found = here.client.approvals(here.workspace.id).items
        questions = here.client.questions(here.workspace.id).items
    if args.json:
        print(as_text({"approvals": found, "questions": questions}))
        return Exit.COMPLETED
    for approval in found:
        print(f"{approval.id}  {approval.tool}: {plain(approval.title)}")
        if approval.why:
            print(f"  {one_line(approval.why)}")
        if approval.patterns:
            print(f"  always would save: {', '.join(map(one_line, approval.patterns))}")
    for question in questions:
        print(f"{question.id}  {'; '.join(one_line(item.text) for item in question.items)}")
        print(f"  'holdfast attach {question.root_session_id}' answers it")
    if not found and not questions:
        print("nothing waits for an answer here")
    return Exit.COMPLETED


def answer(args: argparse.Namespace) -> int:
    with CommandContext() as here:
        try:
            approval = here.client.answer_approval(args.approval, args.decision, feedback=args.feedback)
        except Conflict as error:
            raise Problem(
                error.message, advice="the first answer counts; 'holdfast approvals list' shows the rest", status=1
            ) from None
    print(as_text(approval) if args.json else f"{approval.decision}: {approval.tool} {one_line(approval.title)}")
    return Exit.COMPLETED
