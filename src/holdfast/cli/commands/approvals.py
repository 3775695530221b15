"""`holdfast approvals`: list and answer approval requests from any shell."""

from __future__ import annotations

import argparse

from holdfast.cli.argument_parser import Parser, add_json_argument, add_subcommands, identifier
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import CommandError, Exit
from holdfast.cli.formatting import json_text
from holdfast.cli.screen import one_line, plain
from holdfast.errors import Conflict


def configure(parser: Parser) -> None:
    parser.explain(
        "List and answer approval requests. The first answer counts, whichever client gives it.",
        examples=(
            ("holdfast approvals", "the requests of this directory"),
            ("holdfast approvals answer apr_… once", "allow this call"),
            ("holdfast approvals answer apr_… always", "also allow the patterns that the list shows"),
            ('holdfast approvals answer apr_… deny --feedback "use make test"', "deny it, and tell the agent why"),
        ),
    )
    add = add_subcommands(parser, default="list")
    listed = add("list", "list pending approvals and questions")
    listed.set_defaults(run=show)
    answered = add("answer", "answer an approval request")
    answered.add_argument("approval", type=identifier, metavar="ID")
    answered.add_argument("decision", choices=("once", "session", "always", "deny"))
    answered.add_argument("--feedback", default="", metavar="TEXT", help="reason for the agent, with deny")
    answered.set_defaults(run=answer)
    for each in (listed, answered):
        add_json_argument(each)


def show(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        approvals = context.client.approvals(context.workspace.id)
        asked = context.client.questions(context.workspace.id)
    if args.json:
        print(json_text({"approvals": approvals, "questions": asked}))
        return Exit.COMPLETED
    found, questions = approvals.items, asked.items
    for approval in found:
        print(f"{approval.id}  {approval.tool}: {plain(approval.title)}")
        if approval.why:
            print(f"  {one_line(approval.why)}")
        if approval.patterns:
            print(f"  always would allow: {', '.join(map(one_line, approval.patterns))}")
    for question in questions:
        print(f"{question.id}  {'; '.join(one_line(item.text) for item in question.items)}")
        print(f"  'holdfast attach {question.root_session_id}' answers it")
    if not found and not questions:
        print("no approvals or questions are pending in this directory")
    return Exit.COMPLETED


def answer(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        try:
            approval_id = context.full_id(args.approval, "approval")
            approval = context.client.answer_approval(approval_id, args.decision, feedback=args.feedback)
        except Conflict as error:
            raise CommandError(
                error.message,
                advice="the first answer counts; 'holdfast approvals list' shows the pending requests",
                status=1,
            ) from None
    print(json_text(approval) if args.json else f"{approval.decision}: {approval.tool} {one_line(approval.title)}")
    return Exit.COMPLETED
