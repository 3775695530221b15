"""`holdfast sessions`: past and present conversations."""

from __future__ import annotations

import argparse
import sys
import time

from holdfast.cli.argument_parser import Parser, an_id, count, family
from holdfast.cli.command_context import CommandContext
from holdfast.cli.commands.cancel import lines_of
from holdfast.cli.error_messages import Problem
from holdfast.cli.event_printer import outcome_of, title_with_target
from holdfast.cli.exit_status import Exit
from holdfast.cli.formatting import ago, table, thousands
from holdfast.cli.run_result import as_text
from holdfast.cli.screen import Screen, is_terminal, one_line, plain
from holdfast.schema.messages import Finish, Message, Notice, Shell, Summary, Text, ToolCall, ToolResult


def configure(parser: Parser) -> None:
    parser.explain(
        "Past and present sessions of this directory.",
        examples=(
            ("holdfast sessions list", "newest first"),
            ("holdfast sessions show", "what was said in the last one"),
            ("holdfast sessions export ses_… > talk.md", "as Markdown; --format json for all there is"),
            ("holdfast sessions search slug", "in everything that was ever said"),
        ),
    )
    make = family(parser)
    listed = make("list", "the sessions of this directory, newest first")
    listed.add_argument("-n", "--limit", type=count, default=20, metavar="N", help="how many (20)")
    listed.add_argument("--archived", action="store_true", help="also archived ones")
    listed.set_defaults(run=show_list)
    shown = make("show", "what was said")
    shown.set_defaults(run=show)
    renamed = make("rename", "give a session another title")
    renamed.set_defaults(run=rename)
    deleted = make("delete", "delete a session with all that was said in it")
    deleted.add_argument("--yes", action="store_true", help="do not ask")
    deleted.set_defaults(run=delete)
    exported = make("export", "the whole session, as Markdown or JSON")
    exported.add_argument("--format", choices=("markdown", "json"), default="markdown")
    exported.add_argument("-o", "--output", metavar="FILE", help="to a file, instead of stdout")
    exported.set_defaults(run=export)
    found = make("search", "find what was said, in all sessions of this directory")
    found.add_argument("words", nargs="+", metavar="WORD")
    found.add_argument("--everywhere", action="store_true", help="in all directories")
    found.add_argument("-n", "--limit", type=count, default=20, metavar="N", help="how many (20)")
    found.set_defaults(run=search)
    forked = make("fork", "a new session with what was said up to a message, or with all")
    forked.add_argument("--message", type=an_id, metavar="ID", help="up to this message")
    forked.set_defaults(run=fork)
    for needing_one in (renamed, deleted):
        needing_one.add_argument("session", type=an_id, metavar="SESSION")
    renamed.add_argument("title", nargs="+", metavar="TITLE")
    for with_last in (shown, exported, forked):
        with_last.add_argument(
            "session", type=an_id, nargs="?", metavar="SESSION", help="the last one here, if none is named"
        )
    for with_json in (listed, shown, renamed, deleted, found, forked):
        with_json.add_argument("--json", action="store_true")


def show_list(args: argparse.Namespace) -> int:
    with CommandContext() as here:
        page = here.client.sessions(here.workspace.id, limit=args.limit, archived=args.archived or None)
    if args.json:
        print(as_text(page.items))
        return Exit.COMPLETED
    now = time.time()
    rows = [
        (
            session.id,
            ago(session.updated_at, now=now),
            "busy" if session.busy else f"{session.queued} queued" if session.queued else "",
            thousands(session.usage.context),
            one_line(session.title, most=70),
        )
        for session in page.items
    ]
    if rows:
        print("\n".join(table([("SESSION", "USED", "STATE", "TOKENS", "TITLE"), *rows], right=frozenset({3}))))
    else:
        print("there is no session here yet; 'holdfast run PROMPT' begins one")
    return Exit.COMPLETED


def show(args: argparse.Namespace) -> int:
    with CommandContext() as here:
        session_id = here.session_id(args.session)
        view = here.client.session(session_id)
        messages, _ = here.client.all_messages(session_id)
    if args.json:
        print(as_text({"session": view, "messages": messages}))
        return Exit.COMPLETED
    screen = Screen()
    screen.line(f"{view.id}  {one_line(view.title)}")
    for line in transcript(messages, screen):
        screen.line(line)
    return Exit.FAILED if screen.out_failed else Exit.COMPLETED


def transcript(messages: list[Message], screen: Screen) -> list[str]:
    """A conversation to be read from top to bottom."""
    calls = {part.id: part for message in messages for part in message.parts if isinstance(part, ToolCall)}
    lines: list[str] = []
    for message in messages:
        for part in message.parts:
            match part:
                case Text():
                    said = plain(part.text.rstrip())
                    lines += ["", f"> {said}" if message.role == "user" else said]
                case ToolResult():
                    call = calls.get(part.call_id)
                    mark = "✓" if part.status == "ok" else "✗"
                    title = title_with_target(call, part) if call else ""
                    lines.append(f"  {mark} {part.name} {title}  {outcome_of(part)}".rstrip())
                case Shell():
                    lines += ["", f"$ {plain(part.command)}", plain(part.output.rstrip())]
                case Notice():
                    lines += ["", f"[{plain(part.text)}]"]
                case Summary():
                    lines += ["", "[what was said before was summarized]"]
                case Finish() if part.reason not in ("end_turn", "tool_use"):
                    lines.append(f"  [{part.reason}{': ' + one_line(part.detail) if part.detail else ''}]")
                case _:
                    pass
    return lines


def rename(args: argparse.Namespace) -> int:
    with CommandContext() as here:
        session = here.client.change_session(args.session, title=" ".join(args.title))
    print(as_text(session) if args.json else f"{session.id}  {one_line(session.title)}")
    return Exit.COMPLETED


def delete(args: argparse.Namespace) -> int:
    with CommandContext() as here:
        session = here.client.session(args.session)
        if not args.yes:
            _confirm(f"delete {session.id} ({one_line(session.title, most=60)!r}) with all that was said in it?")
        receipt = here.client.delete_session(args.session)
    if args.json:
        print(as_text(receipt))
    else:
        print("\n".join([*(lines_of(receipt) if receipt.runs else ()), f"deleted {args.session}"]))
    return Exit.COMPLETED


def _confirm(question: str) -> None:
    if not is_terminal(sys.stdin):
        raise Problem("nobody is here to confirm that", advice="say --yes if it is meant", status=Exit.USAGE)
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Problem("nothing was deleted", advice="answer with y to delete", status=Exit.FAILED)


def export(args: argparse.Namespace) -> int:
    with CommandContext() as here:
        session_id = here.session_id(args.session)
        if args.format == "markdown":
            text = here.client.export_markdown(session_id)
        else:
            text = as_text(here.client.export(session_id)) + "\n"
    if not args.output:
        sys.stdout.write(text)
        return Exit.COMPLETED
    try:
        with open(args.output, "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise Problem(
            f"cannot write {args.output!r}: {error.strerror}", advice="choose a new file's name", status=Exit.USAGE
        ) from None
    return Exit.COMPLETED


def search(args: argparse.Namespace) -> int:
    with CommandContext() as here:
        workspace_id = None if args.everywhere else here.workspace.id
        page = here.client.search(" ".join(args.words), workspace_id=workspace_id, limit=args.limit)
    if args.json:
        print(as_text(page.items))
        return Exit.COMPLETED
    now = time.time()
    for hit in page.items:
        print(f"{hit.session_id}  {ago(hit.created_at, now=now)}  {one_line(hit.session_title, most=60)}")
        print(f"  {hit.role}: {one_line(hit.excerpt, most=200)}")
    if not page.items:
        print("nothing was found")
    return Exit.COMPLETED


def fork(args: argparse.Namespace) -> int:
    with CommandContext() as here:
        session = here.client.fork(here.session_id(args.session), message_id=args.message)
    print(as_text(session) if args.json else session.id)
    return Exit.COMPLETED
