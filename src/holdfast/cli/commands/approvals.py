"""`holdfast approvals`: list and answer approval requests from any shell."""

from __future__ import annotations

import argparse

from holdfast.cli.argument_parser import Parser, add_json_argument, add_subcommands
from holdfast.cli.argument_values import identifier
from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import CommandError, Exit
from holdfast.cli.formatting import json_text
from holdfast.cli.screen import one_line, plain
from holdfast.errors import Conflict
from holdfast.schema.api.response_bodies import PageView
from holdfast.schema.approvals import Grant, RuleScope


def configure(parser: Parser) -> None:
    parser.explain(
        "List and answer approval requests. The first answer counts, whichever client gives it.",
        examples=(
            ("holdfast approvals", "the requests of this directory"),
            ("holdfast approvals answer apr_… once", "allow this call"),
            (
                "holdfast approvals answer apr_… always",
                "allow the listed patterns in this directory",
            ),
            ("holdfast approvals answer apr_… always --everywhere", "allow them in every directory"),
            ("holdfast approvals rules", "what was always allowed in this directory"),
            ("holdfast approvals forget", "remove these rules"),
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
    answered.add_argument(
        "--everywhere", action="store_true", help="with always: save the rules for all directories, not only this one"
    )
    answered.set_defaults(run=answer)
    rules = add("rules", "list what was always allowed in this directory")
    rules.set_defaults(run=list_rules)
    forgotten = add("forget", "remove one of these rules, or all")
    forgotten.add_argument("rule", nargs="?", type=identifier, metavar="ID", help="its id; without it, all")
    forgotten.set_defaults(run=forget)
    for each in (listed, answered, rules, forgotten):
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


def list_rules(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        return _print_rules(context.client.grants(context.workspace.id), as_json=args.json)


def forget(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        left = context.client.remove_grants(context.workspace.id, grant_id=args.rule)
    return _print_rules(left, as_json=args.json)


def _print_rules(found: PageView[Grant], *, as_json: bool) -> int:
    if as_json:
        print(json_text(found))
        return Exit.COMPLETED
    for grant in found.items:
        print(f"{grant.id}  {one_line(grant.rule)}")
    if not found.items:
        print("no rules are saved for this directory; 'holdfast config get approvals.allow' shows those for all")
    return Exit.COMPLETED


def answer(args: argparse.Namespace) -> int:
    if args.everywhere and args.decision != "always":
        raise CommandError(
            f"--everywhere does not fit {args.decision!r}", advice="use it with always", status=Exit.USAGE
        )
    scope: RuleScope = "all" if args.everywhere else "project"
    with CommandContext() as context:
        try:
            approval_id = context.full_id(args.approval, "approval")
            approval = context.client.answer_approval(approval_id, args.decision, scope=scope, feedback=args.feedback)
        except Conflict as error:
            raise CommandError(
                error.message,
                advice="the first answer counts; 'holdfast approvals list' shows the pending requests",
                status=1,
            ) from None
    print(json_text(approval) if args.json else f"{approval.decision}: {approval.tool} {one_line(approval.title)}")
    return Exit.COMPLETED
