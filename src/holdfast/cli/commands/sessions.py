"""`holdfast sessions`: list, read, search and manage conversations."""

from __future__ import annotations

import argparse
import sys
import time

from holdfast.cli.argument_parser import Parser, add_json_argument, add_session_argument, add_subcommands
from holdfast.cli.argument_values import count, identifier
from holdfast.cli.command_context import CommandContext
from holdfast.cli.event_printer import outcome_of, title_with_target
from holdfast.cli.exit_status import CommandError, Exit
from holdfast.cli.formatting import ago, json_text, short_number, table
from holdfast.cli.run_result import receipt_lines
from holdfast.cli.screen import Screen, is_terminal, one_line, plain
from holdfast.schema.messages import Finish, Message, Notice, Shell, Summary, Text, ToolCall, ToolResult


def configure(parser: Parser) -> None:
    parser.explain(
        "List, show, search, export and manage the sessions of this directory.",
        examples=(
            ("holdfast sessions", "list them, newest first"),
            ("holdfast sessions show", "print the last conversation"),
            ("holdfast sessions export ses_… > talk.md", "Markdown; --json has everything"),
            ("holdfast sessions search slug", "search all conversations of this directory"),
        ),
    )
    add = add_subcommands(parser, default="list")
    listed = add("list", "list the sessions of this directory, newest first")
    listed.add_argument("-n", "--limit", type=count, default=20, metavar="N", help="maximum number (20)")
    listed.add_argument("--archived", action="store_true", help="also list archived sessions")
    listed.set_defaults(run=show_list)
    shown = add("show", "print a conversation")
    shown.set_defaults(run=show)
    renamed = add("rename", "change the title of a session")
    renamed.set_defaults(run=rename)
    deleted = add("delete", "delete a session and its conversation")
    deleted.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    deleted.set_defaults(run=delete)
    exported = add("export", "export a session as Markdown or JSON")
    exported.add_argument("--format", choices=("markdown", "json"), default="markdown", help="markdown by default")
    exported.add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format json")
    exported.add_argument("-o", "--file", metavar="FILE", help="write to a new file instead of stdout")
    exported.set_defaults(run=export)
    found = add("search", "search all sessions of this directory")
    found.add_argument("words", nargs="+", metavar="WORD")
    found.add_argument("--everywhere", action="store_true", help="search all directories")
    found.add_argument("-n", "--limit", type=count, default=20, metavar="N", help="maximum number (20)")
    found.set_defaults(run=search)
    forked = add("fork", "copy a session into a new one, up to a message")
    forked.add_argument(
        "--to",
        "--message",
        dest="message",
        type=identifier,
        metavar="MESSAGE",
        help="copy up to this message; everything by default",
    )
    forked.set_defaults(run=fork)
    for required in (renamed, deleted):
        required.add_argument("session", type=identifier, metavar="SESSION")
    renamed.add_argument("title", nargs="+", metavar="TITLE")
    for optional in (shown, exported, forked):
        add_session_argument(optional)
    for with_json in (listed, shown, renamed, deleted, found, forked):
        add_json_argument(with_json)


def show_list(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        page = context.client.sessions(context.workspace.id, limit=args.limit, archived=args.archived or None)
    if args.json:
        print(json_text(page))
        return Exit.COMPLETED
    now = time.time()
    rows = [
        (
            session.id,
            ago(session.updated_at, now=now),
            "busy" if session.busy else f"{session.queued} queued" if session.queued else "",
            short_number(session.usage.context),
            one_line(session.title, most=70),
        )
        for session in page.items
    ]
    if rows:
        print("\n".join(table([("SESSION", "USED", "STATE", "TOKENS", "TITLE"), *rows], right=frozenset({3}))))
    else:
        print("this directory has no session yet; 'holdfast run PROMPT' starts one")
    return Exit.COMPLETED


def show(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        session_id = context.session_id(args.session)
        view = context.client.session(session_id)
        messages, _ = context.client.all_messages(session_id)
    if args.json:
        print(json_text({"session": view, "messages": messages}))
        return Exit.COMPLETED
    screen = Screen()
    screen.line(f"{view.id}  {one_line(view.title)}")
    for line in conversation_lines(messages, screen):
        screen.line(line)
    return Exit.FAILED if screen.out_failed else Exit.COMPLETED


def conversation_lines(messages: list[Message], screen: Screen) -> list[str]:
    """A conversation as text, oldest message first."""
    calls = {part.id: part for message in messages for part in message.parts if isinstance(part, ToolCall)}
    lines: list[str] = []
    for message in messages:
        for part in message.parts:
            match part:
                case Text():
                    text = plain(part.text.rstrip())
                    lines += ["", f"> {text}" if message.role == "user" else text]
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
                    lines += ["", "[the conversation before this point was summarized]"]
                case Finish() if part.reason not in ("end_turn", "tool_use"):
                    lines.append(f"  [{part.reason}{': ' + one_line(part.detail) if part.detail else ''}]")
                case _:
                    pass
    return lines


def rename(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        session = context.client.change_session(context.session_id(args.session), title=" ".join(args.title))
    print(json_text(session) if args.json else f"{session.id}  {one_line(session.title)}")
    return Exit.COMPLETED


def delete(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        session = context.client.session(context.session_id(args.session))
        if not args.yes:
            _confirm(f"delete {session.id} ({one_line(session.title, most=60)!r}) and its conversation?")
        receipt = context.client.delete_session(session.id)
    if args.json:
        print(json_text(receipt))
    else:
        print("\n".join([*(receipt_lines(receipt) if receipt.runs else ()), f"deleted {session.id}"]))
    return Exit.COMPLETED


def _confirm(question: str) -> None:
    if not is_terminal(sys.stdin):
        raise CommandError(
            "deleting needs a confirmation, and stdin is not a terminal",
            advice="add --yes to confirm",
            status=Exit.USAGE,
        )
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was deleted", advice="answer y to delete the session", status=Exit.FAILED)


def export(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        session_id = context.session_id(args.session)
        if args.format == "markdown":
            text = context.client.export_markdown(session_id)
        else:
            text = json_text(context.client.export(session_id)) + "\n"
    if not args.file:
        sys.stdout.write(text)
        return Exit.COMPLETED
    try:
        with open(args.file, "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise CommandError(
            f"cannot write {args.file!r}: {error.strerror}",
            advice="choose a file that does not exist yet",
            status=Exit.USAGE,
        ) from None
    return Exit.COMPLETED


def search(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        workspace_id = None if args.everywhere else context.workspace.id
        page = context.client.search(" ".join(args.words), workspace_id=workspace_id, limit=args.limit)
    if args.json:
        print(json_text(page))
        return Exit.COMPLETED
    now = time.time()
    for hit in page.items:
        print(f"{hit.session_id}  {ago(hit.created_at, now=now)}  {one_line(hit.session_title, most=60)}")
        print(f"  {hit.role}: {one_line(hit.excerpt, most=200)}")
    if not page.items:
        print("no matches")
    return Exit.COMPLETED


def fork(args: argparse.Namespace) -> int:
    with CommandContext() as context:
        message_id = context.full_id(args.message, "message") if args.message else None
        session = context.client.fork(context.session_id(args.session), message_id=message_id)
    print(json_text(session) if args.json else session.id)
    return Exit.COMPLETED
