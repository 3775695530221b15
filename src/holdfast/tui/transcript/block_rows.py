"""How each kind of block looks. What is folded and what is open comes from the UI's own state."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

from rich.style import Style

from holdfast.client.view_values import (
    Block,
    CallBlock,
    CallState,
    NoticeBlock,
    PromptBlock,
    ShellBlock,
    SummaryBlock,
    TextBlock,
    ThinkingBlock,
    TurnEndBlock,
)
from holdfast.schema.hooks import hook_lines
from holdfast.schema.usage import Usage
from holdfast.tui.transcript.cells import clean, expand_tabs, shorten, width_of
from holdfast.tui.transcript.code_rows import clean_lines, plain_rows, with_targets
from holdfast.tui.transcript.diff_rows import diff_rows
from holdfast.tui.transcript.glyphs import SYMBOLS, Glyphs
from holdfast.tui.transcript.markdown_rows import MarkdownRows
from holdfast.tui.transcript.output_rows import output_rows, visible_lines
from holdfast.tui.transcript.palette import Palette
from holdfast.tui.transcript.rows import (
    BLANK,
    JoinedRows,
    Row,
    RowSource,
    StaticRows,
    StyledRun,
    decoration,
    make_row,
    wrap_runs,
)

_PREVIEW_LINES = 3
"""Lines of output that a running or failed call shows when it is folded."""

_NAME_AND_TITLE_CELLS = 60
"""What calls came to stands in one column behind them, however long their names are."""
_COLUMNS_FROM = 60
"""From this width on, what calls came to and their times are columns."""

_STATE_WORDS: Mapping[CallState, str] = {
    "writing": "being written",
    "waiting": "waiting for you",
    "running": "running",
    "ok": "",
    "error": "failed",
    "denied": "denied",
    "cancelled": "stopped",
    "unknown": "may have run: no result was stored",
}


@dataclass(frozen=True, slots=True)
class DrawContext:
    """What the look of blocks depends on besides the blocks."""

    width: int
    palette: Palette
    is_open: Callable[[Block], bool]
    """Whether the body of a block is shown."""
    subagent: Callable[[str], Sequence[Block]] = field(default=lambda _: ())
    """The blocks of a sub-agent's session."""
    glyphs: Glyphs = SYMBOLS


def draw_block(block: Block, context: DrawContext, previous: MarkdownRows | None = None) -> RowSource:
    """The rows of a block. ``previous`` continues the rows of a text that has grown."""
    match block:
        case PromptBlock():
            return _draw_prompt(block, context)
        case TextBlock():
            rows = previous or new_markdown(context)
            rows.update(block.text, is_open=block.open)
            return rows.rows
        case ThinkingBlock():
            return _draw_thinking(block, context)
        case CallBlock():
            return _draw_call(block, context, depth=0)
        case ShellBlock():
            return _draw_shell(block, context)
        case SummaryBlock():
            return _draw_summary(block, context)
        case NoticeBlock():
            return _draw_rule([(clean(block.text), context.palette.dim)], context)
        case TurnEndBlock():
            return _draw_end(block, context)
        case _ as never:
            assert_never(never)


def new_markdown(context: DrawContext) -> MarkdownRows:
    return MarkdownRows(context.width - 1, context.palette, indent=(" ", context.palette.text))


def _draw_prompt(block: PromptBlock, context: DrawContext) -> RowSource:
    palette = context.palette
    bar: StyledRun = (context.glyphs.prompt, palette.accent if not block.unsent else palette.dim)
    style = palette.prompt if not block.unsent else palette.dim
    rows: list[Row] = []
    for line in clean_lines(block.text):
        rows += wrap_runs(with_targets(line, style, palette), context.width - 1, first=(bar,), following=(bar,))
    for file in block.attachments:
        rows.append(make_row([(f"+ {clean(file.name)}  {clean(file.media_type)}", palette.dim)], prefix=(bar,)))
    note = "never sent" if block.unsent else "steered" if block.steered else ""
    if note:
        rows.append(decoration(bar, (note, palette.dim)))
    return StaticRows(rows)


def _draw_thinking(block: ThinkingBlock, context: DrawContext) -> RowSource:
    palette = context.palette
    took = f" for {duration(block.duration_ms)}" if block.duration_ms is not None and block.duration_ms >= 100 else ""
    open_now = context.is_open(block)
    mark = context.glyphs.unfolded if open_now else context.glyphs.folded
    title = "thinking…" if block.open else f"thought{took}"
    head: StyledRun = (f" {mark} ", palette.dim)
    last = block.text.strip().rpartition("\n")[2] if not open_now else ""
    runs = [
        (title, palette.dim + Style(italic=True)),
        (f"  {shorten(clean(last), max(context.width - 24, 0))}", palette.dim),
    ]
    header = StaticRows((make_row(runs if last else runs[:1], prefix=(head,)),))
    if not open_now:
        return header
    return JoinedRows(
        (header, plain_rows(block.text.strip("\n"), context.width - 1, palette.dim, indent=("   ", palette.dim)))
    )


def _draw_call(block: CallBlock, context: DrawContext, *, depth: int) -> RowSource:
    palette = context.palette
    indent = "   " + "  " * depth
    header = _call_header(block, context, indent)
    parts: list[RowSource] = [StaticRows((header,))]
    bar: StyledRun = (f"{indent}  {context.glyphs.bar}", palette.dim)
    is_open = context.is_open(block)
    hooks = hook_lines(block.display, without=() if is_open else ("ok",))
    parts += [plain_rows(line, context.width - 1, palette.dim, indent=bar) for line in hooks]
    if block.child_session_id is not None and depth < 4:
        parts += _draw_subagent(block, context, depth)
    elif is_open:
        parts.append(_call_body(block, context, bar))
    else:
        parts += _call_preview(block, context, bar, f"{indent}  {context.glyphs.end}")
    return JoinedRows(parts)


def _call_header(block: CallBlock, context: DrawContext, indent: str) -> Row:
    palette = context.palette
    style = {
        "ok": palette.good,
        "error": palette.bad,
        "denied": palette.bad,
        "cancelled": palette.warn,
        "unknown": palette.warn,
        "waiting": palette.accent,
        "running": palette.accent,
        "writing": palette.dim,
    }[block.state]
    outcome = call_outcome(block) if context.glyphs is SYMBOLS or block.state in ("ok", "error") else ""
    took = duration(block.duration_ms) if block.duration_ms is not None and block.duration_ms >= 100 else ""
    right = f"{outcome:<9} {took:>7}".rstrip() if context.width >= _COLUMNS_FROM else f"{outcome}  {took}".strip()
    right = "  ".join(part for part in (answered_elsewhere(block), right) if part)
    mark = context.glyphs.call[block.state]
    lead = [(indent, palette.text), (f"{mark} ", style)]
    name = clean(block.name)
    reserved = max(width_of(right), 17 if context.width >= _COLUMNS_FROM else 0) + 2 if right else 0
    room = context.width - 1 - width_of(indent) - width_of(mark) - 1 - width_of(name) - 2 - reserved
    title = shorten(expand_tabs(clean(call_title(block))), max(room, 0)) if room > 3 else ""
    gap = max(min(room, _NAME_AND_TITLE_CELLS - width_of(name)) - width_of(title), 0) if right else 0
    runs: list[StyledRun] = [(name, palette.strong), ("  ", palette.text), *with_targets(title, palette.text, palette)]
    row = make_row(runs, prefix=lead)
    if not right:
        return row
    tail = make_row(
        (), prefix=[(" " * (gap + 2), palette.text), (right, palette.dim if block.state == "ok" else style)]
    )
    return row._replace(segments=(*row.segments, *tail.segments))


def call_title(block: CallBlock) -> str:
    if block.title:
        return block.title
    if todos := _todos(block):
        done = sum(status == "completed" for _, status in todos)
        current = next((text for text, status in todos if status == "in_progress"), "")
        return f"{done}/{len(todos)} {current}".rstrip()
    files = block.display.get("files")
    if isinstance(files, list):
        return " ".join(str(file.get("path", "")) for file in files if isinstance(file, dict))
    if block.state == "writing":
        return block.written[-200:]
    return " ".join(f"{key}={value}" for key, value in block.arguments.items() if isinstance(value, str | int | float))


def call_outcome(block: CallBlock) -> str:
    """What a call came to, in a few words."""
    if block.state not in ("ok", "error"):
        return _STATE_WORDS[block.state]
    files = block.display.get("files")
    if isinstance(files, list) and files:
        added = sum(_number(file, "added") for file in files)
        removed = sum(_number(file, "removed") for file in files)
        return f"+{added} −{removed}"
    code = block.display.get("exit_code")
    if isinstance(code, int) and code:
        return f"exit {code}"
    if block.state == "error":
        return _STATE_WORDS["error"]
    lines = block.output.count("\n") + 1 if block.output else 0
    return f"{lines} lines" if lines > 1 and block.name in ("view", "grep", "glob", "ls") else ""


_DECISIONS: Mapping[str, str] = {
    "once": "allowed once",
    "session": "allowed for the session",
    "always": "allowed always",
    "deny": "denied",
}


def answered_elsewhere(block: CallBlock) -> str:
    """``allowed once, by phone``, if another kind of client than this one answered."""
    approval = block.display.get("approval")
    if not isinstance(approval, dict) or approval.get("by") in (None, "", "tui"):
        return ""
    by = str(approval["by"])
    return f"{_DECISIONS.get(str(approval.get('decision')), 'answered')}, by {clean(by)}"


def _number(file: Any, name: str) -> int:
    value = file.get(name, 0) if isinstance(file, dict) else 0
    return value if isinstance(value, int) else 0


def _call_body(block: CallBlock, context: DrawContext, bar: StyledRun) -> RowSource:
    palette, width = context.palette, context.width - 1
    if todos := _todos(block):
        return _draw_todos(todos, context, bar)
    parts: list[RowSource] = []
    if "\n" in block.title:
        parts.append(plain_rows(block.title, width, palette.code, indent=bar))
    if block.written:
        parts.append(plain_rows(block.written, width, palette.dim, indent=bar))
    rest = {name: value for name, value in block.arguments.items() if value != block.title}
    diff = block.display.get("diff")
    if isinstance(diff, str) and diff:
        return JoinedRows((*parts, diff_rows(diff, width, palette, indent=(bar[0].replace("│", " "), palette.dim))))
    if rest and block.name != "bash":
        parts.append(plain_rows(_arguments(rest), width, palette.dim, indent=bar))
    parts.extend(
        StaticRows((make_row([(f"{clean(image.name)} ({clean(image.media_type)})", palette.dim)], prefix=(bar,)),))
        for image in block.images
    )
    if block.output:
        parts.append(output_rows(block.output, width, palette, indent=bar))
    if not parts:
        parts.append(StaticRows((decoration(bar, ("no output", palette.dim)),)))
    return JoinedRows(parts)


def _todos(block: CallBlock) -> list[tuple[str, str]]:
    """The tasks of a call that changes the list of tasks, each with its status."""
    found = block.arguments.get("todos") if block.name == "todos" else None
    if not isinstance(found, list):
        return []
    return [(str(item.get("text", "")), str(item.get("status", ""))) for item in found if isinstance(item, dict)]


def _draw_todos(todos: Sequence[tuple[str, str]], context: DrawContext, bar: StyledRun) -> RowSource:
    palette = context.palette
    rows: list[Row] = []
    for text, status in todos:
        mark = (f"{context.glyphs.todo.get(status, '')} ", palette.good if status == "completed" else palette.accent)
        style = palette.dim if status == "completed" else palette.text
        rows += wrap_runs(
            [(expand_tabs(clean(text)), style)], context.width - 1, first=(bar, mark), following=(bar, ("  ", style))
        )
    return StaticRows(rows)


def _arguments(arguments: Mapping[str, Any]) -> str:
    lines = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines.append(f"{name}: {text}")
    return "\n".join(lines)


def _call_preview(block: CallBlock, context: DrawContext, bar: StyledRun, end: str) -> list[RowSource]:
    """Of a folded call: a diff that is short, or the last lines of a call that runs or failed."""
    palette, width = context.palette, context.width - 1
    diff = block.display.get("diff")
    if isinstance(diff, str) and 0 < diff.count("\n") <= 30 and block.state == "ok":
        return [diff_rows(diff, width, palette, indent=(bar[0].replace("│", " "), palette.dim))]
    if block.state not in ("running", "error", "denied") or not block.output:
        return []
    lines = visible_lines(block.output)
    hidden = len(lines) - _PREVIEW_LINES
    shown = output_rows(block.output[-8_000:], width, palette, indent=bar, last=_PREVIEW_LINES)
    if hidden <= 0:
        return [shown]
    return [shown, StaticRows((decoration((f"{end}{hidden} more lines", palette.dim)),))]


def _draw_subagent(block: CallBlock, context: DrawContext, depth: int) -> list[RowSource]:
    """The calls of a sub-agent as a tree below the call that started it: all, or the last ones if it is folded."""
    assert block.child_session_id is not None
    blocks = [found for found in context.subagent(block.child_session_id) if isinstance(found, CallBlock | TextBlock)]
    palette = context.palette
    indent = "   " + "  " * depth
    if not context.is_open(block):
        calls = [found for found in blocks if isinstance(found, CallBlock)]
        if block.state != "running":
            note = f"{indent}  {context.glyphs.end}{len(calls)} {'call' if len(calls) == 1 else 'calls'}"
            return [StaticRows((decoration((note, palette.dim)),))] if calls else []
        blocks = list(calls[-_PREVIEW_LINES:])
    parts: list[RowSource] = []
    for found in blocks:
        if isinstance(found, CallBlock):
            parts.append(_draw_call(found, context, depth=depth + 1))
        else:
            indent_text: StyledRun = (f"{indent}  {context.glyphs.bar}", palette.dim)
            parts.append(plain_rows(found.text.strip("\n"), context.width - 1, palette.dim, indent=indent_text))
    return parts


def _draw_shell(block: ShellBlock, context: DrawContext) -> RowSource:
    palette = context.palette
    lead: StyledRun = (context.glyphs.command, palette.accent)
    bar: StyledRun = (f"   {context.glyphs.bar}", palette.dim)
    rows: list[Row] = []
    for line in clean_lines(block.command):
        rows += wrap_runs(
            [(line, palette.prompt)],
            context.width - 1,
            first=(lead,),
            following=((" " * width_of(lead[0]), palette.dim),),
        )
    parts: list[RowSource] = [StaticRows(rows)]
    lines = visible_lines(block.output) if block.output else []
    if block.output:
        last = None if context.is_open(block) else 12
        parts.append(output_rows(block.output, context.width - 1, palette, indent=bar, last=last))
        if last is not None and len(lines) > last:
            parts.append(
                StaticRows((decoration((f"   {context.glyphs.end}{len(lines) - last} more lines", palette.dim)),))
            )
    if block.exit_code:
        parts.append(StaticRows((decoration((f"   exit {block.exit_code}", palette.bad)),)))
    return JoinedRows(parts)


def _draw_summary(block: SummaryBlock, context: DrawContext) -> RowSource:
    palette = context.palette
    mark = context.glyphs.unfolded if context.is_open(block) else context.glyphs.folded
    rule = _draw_rule([(f"{mark} the conversation was compacted; the model sees a summary", palette.dim)], context)
    if not context.is_open(block):
        return rule
    rows = new_markdown(context)
    rows.update(block.text, is_open=False)
    return JoinedRows((rule, rows.rows))


def _draw_rule(runs: Sequence[StyledRun], context: DrawContext) -> RowSource:
    """A note between rules."""
    palette = context.palette
    rule = context.glyphs.rule
    rows = wrap_runs(
        runs, context.width - 1, first=((rule, palette.dim),), following=((" " * width_of(rule), palette.dim),)
    )
    return StaticRows(rows)


_END_WORDS: Mapping[str, str] = {
    "user_cancel": "cancelled by you",
    "server_stop": "interrupted: the server was stopped",
    "server_crash": "interrupted: the server crashed",
    "limit_steps": "stopped at the limit of steps",
    "limit_time": "stopped at the limit of time",
    "limit_cost": "stopped at the limit of cost",
    "loop": "stopped: the same calls again and again",
}


def _draw_end(block: TurnEndBlock, context: DrawContext) -> RowSource:
    palette = context.palette
    facts = [
        clean(block.model.rpartition("/")[2]) if block.model else "",
        duration(block.duration_ms) if block.duration_ms is not None and block.duration_ms >= 100 else "",
        tokens_text(block.usage),
        cost_text(block.usage),
    ]
    footer = " · ".join(fact for fact in facts if fact)
    if block.state == "completed":
        if block.kind != "prompt" or not footer:
            return StaticRows(())
        return StaticRows(
            wrap_runs(
                [(footer, palette.dim)], context.width - 1, first=((" ", palette.dim),), following=((" ", palette.dim),)
            )
        )
    words = _END_WORDS.get(block.reason or "", f"{block.state}: {block.reason}" if block.reason else block.state)
    runs: list[StyledRun] = [(words, palette.warn if block.state != "failed" else palette.bad)]
    if block.error:
        runs.append((f" · {clean(block.error)}", palette.text))
    if block.left_running:
        runs.append((f" · still running: {clean(', '.join(block.left_running))}", palette.warn))
    if footer:
        runs.append((f" · {footer}", palette.dim))
    return _draw_rule(runs, context)


def duration(milliseconds: int) -> str:
    """A time in words that fit a column."""
    seconds = milliseconds / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def tokens_text(usage: Usage) -> str:
    total = usage.context
    if not total:
        return ""
    return f"{total / 1000:.1f}k tokens" if total >= 1000 else f"{total} tokens"


def cost_text(usage: Usage) -> str:
    return f"${usage.cost:.2f}" if usage.cost >= 0.005 else ""


def estimated_height(block: Block, width: int) -> int:
    """A cheap guess, for blocks that are not on the screen."""
    room = max(width - 4, 10)
    match block:
        case TextBlock(text=text) | PromptBlock(text=text):
            return 1 + text.count("\n") + len(text) // room
        case ShellBlock():
            return min(block.output.count("\n"), 12) + 1
        case CallBlock():
            diff = block.display.get("diff")
            return 1 + (diff.count("\n") if isinstance(diff, str) and diff.count("\n") <= 30 else 0)
        case ThinkingBlock() | SummaryBlock() | NoticeBlock():
            return 1
        case TurnEndBlock():
            return 1 if block.kind == "prompt" or block.state != "completed" else 0
        case _ as never:
            assert_never(never)


def needs_space_above(block: Block, above: Block | None) -> bool:
    """Whether a blank line separates two blocks. Calls that follow each other are dense."""
    if above is None:
        return False
    if isinstance(block, CallBlock | ThinkingBlock) and isinstance(above, CallBlock | ThinkingBlock):
        return False
    return not (isinstance(block, CallBlock) and isinstance(above, TextBlock))


SPACE: RowSource = StaticRows((BLANK,))
