"""How text, Markdown, output, diffs and blocks look at given widths."""

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from holdfast.client.view_values import (
    AttachedFile,
    Block,
    CallBlock,
    NoticeBlock,
    PromptBlock,
    ShellBlock,
    SummaryBlock,
    TextBlock,
    ThinkingBlock,
    TurnEndBlock,
)
from holdfast.schema.usage import Usage
from holdfast.tui.transcript.block_rows import DrawContext, draw_block, duration, estimated_height
from holdfast.tui.transcript.cells import break_line, clean, expand_tabs, shorten
from holdfast.tui.transcript.code_rows import TARGETS
from holdfast.tui.transcript.diff_rows import DiffHunk, diff_rows, read_diff
from holdfast.tui.transcript.markdown_rows import MarkdownRows, split_blocks
from holdfast.tui.transcript.output_rows import output_rows
from holdfast.tui.transcript.palette import Palette
from holdfast.tui.transcript.row_heights import RowHeights
from holdfast.tui.transcript.rows import RowSource

PALETTE = Palette.from_variables({}, name="test", dark=True)
INDENT = ("", PALETTE.text)


def lines(rows: RowSource) -> list[str]:
    return [rows.row(number).plain.rstrip() for number in range(rows.height)]


def copied(rows: RowSource) -> str:
    pieces: list[str] = []
    for number in range(rows.height):
        row = rows.row(number)
        if number:
            pieces.append("\n" if row.joint is None else row.joint)
        pieces.append(row.text)
    return "".join(pieces)


def drawn(block: Block, width: int = 60, *, opened: bool = False, **fields: Any) -> list[str]:
    return lines(draw_block(block, DrawContext(width=width, palette=PALETTE, is_open=lambda _: opened, **fields)))


def markdown(text: str, width: int = 40, *, is_open: bool = False) -> MarkdownRows:
    rows = MarkdownRows(width, PALETTE, indent=INDENT)
    rows.update(text, is_open=is_open)
    return rows


def call(**fields: Any) -> CallBlock:
    return CallBlock(**{"id": "b", "run_id": "r", "call_id": "c", "name": "bash", "state": "ok", **fields})


class TestCells:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("plain", "plain"),
            ("a\x00b\x1b[2Jc", "a␀b␛[2Jc"),
            ("bell\x07 delete\x7f", "bell␇ delete␡"),
            ("c1\x9b31m", "c1⟨9B⟩31m"),
            ("rlo\u202etxt", "rlo⟨202E⟩txt"),
            ("שלום", "שלום"),
            ("👨‍👩‍👧 e\u0301", "👨‍👩‍👧 e\u0301"),
        ],
    )
    def test_control_characters_are_shown(self, text: str, shown: str) -> None:
        assert clean(text) == shown

    def test_tabs_end_at_tab_stops_counted_in_cells(self) -> None:
        assert expand_tabs("a\tb\t\tc", size=4) == "a   b       c"
        assert expand_tabs("日\tx", size=4) == "日  x"

    @given(st.text(alphabet="ab \u65e5\U0001f642e\u0301\u05d0", max_size=200), st.integers(2, 30))
    def test_broken_lines_fit_and_lose_only_blanks(self, text: str, width: int) -> None:
        pieces = break_line(text, width)
        assert all(cell_len(text[start:end]) <= width for start, end in pieces)
        kept = "".join(text[start:end] for start, end in pieces)
        assert kept.replace(" ", "") == text.replace(" ", "")

    def test_words_are_kept_whole(self) -> None:
        text = "the quick brown fox"
        assert [text[start:end] for start, end in break_line(text, 10)] == ["the quick", "brown fox"]

    def test_a_very_long_line_is_broken_at_the_width(self) -> None:
        pieces = break_line("x" * 1_000_000, 80)
        assert len(pieces) == 12_500

    def test_shortened_text_fits(self) -> None:
        assert shorten("日本語の長い文", 7) == "日本語…"
        assert shorten("two\n lines", 20) == "two lines"


class TestMarkdown:
    def test_blocks_are_drawn_without_boxes(self) -> None:
        text = "# Title\n\nA **bold** `word`.\n\n- one\n- two\n  1. in\n\n> said\n\n---\n\n```py\nx = 1\n```"
        assert lines(markdown(text).rows) == [
            "Title",
            "",
            "A bold word.",
            "",
            "• one",
            "• two",
            "  1. in",
            "",
            "│ said",
            "",
            "─" * 40,
            "",
            "  x = 1",
        ]

    def test_a_table_has_columns_if_it_fits_and_paragraphs_if_not(self) -> None:
        text = "| name | value |\n|---|---|\n| a | one |\n| b | two |"
        assert lines(markdown(text).rows) == ["name  value", "───────────", "a     one", "b     two"]
        assert lines(markdown(text, 10).rows) == ["name: a", "value: one", "name: b", "value: two"]

    def test_copied_text_has_whole_lines_and_no_decoration(self) -> None:
        text = "> a quote that is long enough to be wrapped more than once here"
        assert copied(markdown(text, 20).rows) == text.removeprefix("> ")

    @pytest.mark.parametrize("step", [1, 7])
    def test_streamed_markdown_ends_as_if_it_came_whole(self, step: int) -> None:
        code = "```python\ndef f():\n    return 1\n```\n"
        text = f"Intro\n\n{code}after\n\n1. one\n2. two\n\n   more\n\n| a |\n|---|\n| b |\n"
        streamed = MarkdownRows(40, PALETTE, indent=INDENT)
        for end in range(0, len(text), step):
            streamed.update(text[:end], is_open=True)
        streamed.update(text, is_open=False)
        assert lines(streamed.rows) == lines(markdown(text).rows)

    def test_finished_blocks_are_drawn_once(self) -> None:
        rows = markdown("one\n\ntwo\n\nthree", is_open=True)
        first = rows.rows.leaf(0)[0]
        rows.update("one\n\ntwo\n\nthree and more", is_open=True)
        assert rows.rows.leaf(0)[0] is first

    def test_an_open_fence_is_plain_and_gets_colours_when_it_closes(self) -> None:
        source = "```python\ndef f(): pass\n"
        still_open = markdown(source, is_open=True).rows
        closed = markdown(source + "```\n", is_open=True).rows
        assert lines(still_open) == lines(closed) == ["  def f(): pass"]
        assert len({segment.style for segment in still_open.row(0).segments}) == 1
        assert len({segment.style for segment in closed.row(0).segments}) > 2

    def test_a_new_attempt_starts_again(self) -> None:
        rows = markdown("first\n\nsecond\n\nthird", is_open=True)
        rows.update("other", is_open=True)
        assert lines(rows.rows) == ["other"]

    @given(st.text(alphabet="a` \n#-*|>~", max_size=120))
    def test_blocks_cover_the_source_in_order(self, source: str) -> None:
        position = 0
        for start, end, _ in split_blocks(source):
            assert position <= start < end <= len(source)
            assert not source[position:start].strip()
            position = end

    def test_markup_of_other_languages_is_text(self) -> None:
        assert lines(markdown("[bold]x[/bold] <b>y</b>").rows) == ["[bold]x[/bold] <b>y</b>"]

    def test_colours_of_a_terminal_with_16_colours_are_its_own(self) -> None:
        palette = Palette.from_variables({}, name="ansi-dark", dark=True, ansi=True)
        assert palette.bad.color is not None
        assert palette.bad.color.is_system_defined


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("see src/a.py:12.", "src/a.py:12"),
        ("at ./x/b.test.ts:3:14", "./x/b.test.ts:3:14"),
        ("(https://a.b/c?d=e).", "https://a.b/c?d=e"),
        ("at 12:30 o'clock", None),
        ("std::vector", None),
    ],
)
def test_links_and_places_are_found(text: str, target: str | None) -> None:
    found = TARGETS.search(text)
    assert (found[0] if found else None) == target


class TestOutput:
    def test_colours_are_kept_and_other_sequences_dropped(self) -> None:
        rows = output_rows(
            "\x1b[31mred\x1b[0m plain\x1b[2J\x1b]0;title\x07!\n\x1b[1;38;5;4mblue", 40, PALETTE, indent=INDENT
        )
        assert lines(rows) == ["red plain!", "blue"]
        red, plain = rows.row(0).segments[:2]
        assert red.style != plain.style
        assert rows.row(1).segments[0].style.bold

    def test_a_colour_lasts_until_it_is_reset(self) -> None:
        rows = output_rows("\x1b[32mone\ntwo\x1b[0m\nthree", 40, PALETTE, indent=INDENT)
        first, second, third = (rows.row(number).segments[0].style for number in range(3))
        assert first == second != third

    def test_an_overwritten_line_shows_its_last_version(self) -> None:
        assert lines(output_rows("10%\r50%\r100%\ndone\r\n", 40, PALETTE, indent=INDENT)) == ["100%", "done"]

    def test_markup_is_text_and_control_characters_are_shown(self) -> None:
        assert lines(output_rows("[red]x[/red]\x08\x1bZ", 40, PALETTE, indent=INDENT)) == ["[red]x[/red]␈"]

    def test_long_lines_are_wrapped_and_copied_whole(self) -> None:
        rows = output_rows("word " * 20 + "end\nnext", 30, PALETTE, indent=("  │ ", PALETTE.dim))
        assert all(cell_len(line) <= 30 for line in lines(rows))
        assert copied(rows) == "word " * 20 + "end\nnext"

    def test_only_the_last_lines_are_shown_if_asked(self) -> None:
        assert lines(output_rows("1\n2\n3\n4\n", 40, PALETTE, indent=INDENT, last=2)) == ["3", "4"]

    @given(st.text(max_size=200))
    def test_nothing_that_a_terminal_obeys_is_drawn(self, text: str) -> None:
        for line in lines(output_rows(text, 30, PALETTE, indent=INDENT)):
            assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in line)


DIFF = """--- a/src/slug.py
+++ b/src/slug.py
@@ -7,3 +7,3 @@ def slug(text):
     kept = clean(text)
-    return "-".join(kept.split(" "))
+    return "-".join(kept.split())
     # end
"""


class TestDiff:
    def test_one_column_has_line_numbers_and_signs(self) -> None:
        assert lines(diff_rows(DIFF, 60, PALETTE, indent=INDENT)) == [
            "7       kept = clean(text)",
            '8 -     return "-".join(kept.split(" "))',
            '8 +     return "-".join(kept.split())',
            "9       # end",
        ]

    def test_two_columns_when_there_is_room(self) -> None:
        found = lines(diff_rows(DIFF, 130, PALETTE, indent=INDENT))
        assert len(found) == 3
        assert 'kept.split(" ")' in found[1]
        assert found[1].rstrip().endswith('return "-".join(kept.split())')

    def test_the_changed_words_are_emphasised(self) -> None:
        rows = diff_rows(DIFF, 60, PALETTE, indent=INDENT)
        marked = [segment.text for segment in rows.row(1).segments if segment.style == PALETTE.removed_word]
        assert "".join(marked) == '" "'

    def test_lines_that_look_like_headers_are_content(self) -> None:
        (hunk,) = (
            part
            for part in read_diff("--- a/x\n+++ b/x\n@@ -1 +1 @@\n--- old\n+++ new\n")
            if isinstance(part, DiffHunk)
        )
        assert [line.text for line in hunk.lines] == ["-- old", "++ new"]

    def test_copied_lines_have_no_numbers(self) -> None:
        assert copied(diff_rows(DIFF, 60, PALETTE, indent=INDENT)).splitlines()[0] == "    kept = clean(text)"

    def test_several_files_are_named(self) -> None:
        found = lines(diff_rows(DIFF + DIFF.replace("slug.py", "other.py"), 60, PALETTE, indent=INDENT))
        assert found[0] == "src/slug.py"
        assert "src/other.py" in found


class TestBlocks:
    def test_a_prompt_has_a_bar_its_files_and_its_fate(self) -> None:
        block = PromptBlock(
            id="p",
            run_id="r",
            message_id="m",
            text="one\ntwo",
            attachments=(AttachedFile("a.png", "image/png"),),
            unsent=True,
        )
        assert drawn(block) == [" ▌ one", " ▌ two", " ▌ + a.png  image/png", " ▌ never sent"]

    def test_hooks_of_a_call_are_shown_with_their_duration(self) -> None:
        hooks = [
            {"name": "log", "event": "after_tool", "outcome": "ok", "seconds": 0.04},
            {"name": "guard", "event": "before_tool", "outcome": "failed", "seconds": 1.5, "detail": "exit code 1"},
            {"name": "newer", "event": "before_tool", "outcome": "an outcome of another version", "seconds": 1},
        ]
        block = call(title="make", display={"hooks": hooks})
        failed = "     │ hook guard (before_tool) failed in 1.50 s: exit code 1"
        assert drawn(block, width=80)[1:] == [failed]
        assert drawn(block, width=80, opened=True)[1:3] == ["     │ hook log (after_tool) ok in 0.04 s", failed]

    def test_thinking_is_one_line_with_its_duration(self) -> None:
        block = ThinkingBlock(id="t", run_id="r", text="first\nlast thought", duration_ms=4200)
        assert drawn(block) == [" ▸ thought for 4.2 s  last thought"]
        assert drawn(block, opened=True) == [" ▾ thought for 4.2 s", "   first", "   last thought"]

    @pytest.mark.parametrize(
        ("fields", "line"),
        [
            ({"title": "make", "duration_ms": 1234}, "   ✓ bash  make"),
            ({"state": "error", "title": "make", "display": {"exit_code": 2}}, "   ✗ bash  make"),
            ({"state": "running", "title": "make"}, "   ● bash  make"),
            ({"state": "waiting", "title": "git push"}, "   ? bash  git push"),
            ({"state": "cancelled", "title": "make"}, "   ■ bash  make"),
            ({"state": "unknown", "title": "make"}, "   ? bash  make"),
            ({"state": "writing", "written": '{"comm'}, '   … bash  {"comm'),
        ],
    )
    def test_a_call_is_one_line(self, fields: dict[str, Any], line: str) -> None:
        (found,) = drawn(call(**fields), 80)
        assert found.startswith(line)

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"state": "error", "display": {"exit_code": 2}, "duration_ms": 61_000}, "exit 2    1 min 1 s"),
            ({"state": "waiting"}, "waiting for you"),
            ({"state": "cancelled", "duration_ms": 3400}, "stopped     3.4 s"),
            ({"name": "edit", "display": {"files": [{"added": 3, "removed": 1}]}}, "+3 −1"),
        ],
    )
    def test_a_call_says_what_it_came_to(self, fields: dict[str, Any], words: str) -> None:
        assert drawn(call(title="x", **fields), 80)[0].endswith(words)

    def test_a_failed_call_shows_the_end_of_its_output(self) -> None:
        block = call(state="error", title="make", output="\n".join(f"line {n}" for n in range(10)))
        assert drawn(block)[1:] == ["     │ line 7", "     │ line 8", "     │ line 9", "     └ 7 more lines"]
        assert len(drawn(block, opened=True)) == 11

    def test_tasks_are_a_list(self) -> None:
        todos = [{"text": "read", "status": "completed"}, {"text": "fix", "status": "in_progress"}]
        block = call(name="todos", arguments={"todos": todos})
        assert drawn(block) == ["   ✓ todos  1/2 fix"]
        assert drawn(block, opened=True)[1:] == ["     │ ✓ read", "     │ ● fix"]

    def test_a_subagent_is_a_tree_below_its_call(self) -> None:
        inner = call(id="i", title="grep x", child_session_id="ses_3")
        innermost = call(id="j", name="view", title="a.py")
        blocks = {"ses_2": (TextBlock(id="t", run_id="r", text="I look."), inner), "ses_3": (innermost,)}
        block = call(name="agent", title="look around", child_session_id="ses_2")
        assert drawn(block, subagent=blocks.__getitem__) == ["   ✓ agent  look around", "     └ 1 call"]
        assert drawn(block, opened=True, subagent=blocks.__getitem__) == [
            "   ✓ agent  look around",
            "     │ I look.",
            "     ✓ bash  grep x",
            "       ✓ view  a.py",
            "         │ no output",
        ]

    def test_a_command_of_the_user_shows_its_output(self) -> None:
        block = ShellBlock(id="s", run_id="r", command="ls", output="a\nb\n", exit_code=1)
        assert drawn(block) == [" ! ls", "   │ a", "   │ b", "   exit 1"]

    def test_the_end_of_a_turn_says_why_and_what_it_cost(self) -> None:
        usage = Usage(input=1000, output=234, cost=0.08)
        done = TurnEndBlock(
            id="e", run_id="r", kind="prompt", state="completed", model="a/sonnet", duration_ms=12_000, usage=usage
        )
        assert drawn(done) == [" sonnet · 12 s · 1.2k tokens · $0.08"]
        cancelled = TurnEndBlock(
            id="e", run_id="r", kind="prompt", state="cancelled", reason="user_cancel", left_running=("npm (12)",)
        )
        assert drawn(cancelled) == [" ── cancelled by you · still running: npm (12)"]
        failed = TurnEndBlock(id="e", run_id="r", kind="prompt", state="failed", reason="auth", error="key refused")
        assert drawn(failed) == [" ── failed: auth · key refused"]

    def test_notices_and_summaries_are_between_rules(self) -> None:
        assert drawn(NoticeBlock(id="n", run_id="r", code="undo", text="2 files restored")) == [" ── 2 files restored"]
        (folded,) = drawn(SummaryBlock(id="s", run_id="r", text="## Task"), 80)
        assert "compacted" in folded
        assert drawn(SummaryBlock(id="s", run_id="r", text="## Task"), 80, opened=True)[-1] == " Task"

    @pytest.mark.parametrize("width", [20, 40, 79, 80, 120, 200])
    @pytest.mark.parametrize("opened", [True, False])
    def test_no_row_is_wider_than_the_screen(self, width: int, *, opened: bool) -> None:
        blocks: list[Block] = [
            TextBlock(id="t", run_id="r", text="日本語 " * 50 + "\n\n```py\nx = 1  # " + "y" * 300 + "\n```"),
            call(title="x" * 500, output="z" * 500 + "\n\t日本" * 30, state="error"),
            call(
                name="edit", title="a.py", display={"diff": DIFF, "files": [{"path": "a.py", "added": 1, "removed": 1}]}
            ),
            PromptBlock(id="p", run_id="r", message_id="m", text="👩‍👩‍👧 " * 60),
        ]
        for block in blocks:
            assert max(map(cell_len, drawn(block, width, opened=opened))) <= width

    def test_estimates_are_near_the_truth(self) -> None:
        block = TextBlock(id="t", run_id="r", text="words " * 200)
        assert abs(estimated_height(block, 80) - len(drawn(block, 80))) <= 4


@pytest.mark.parametrize(
    ("value", "text"), [(1234, "1.2 s"), (12_345, "12 s"), (61_000, "1 min 1 s"), (7_260_000, "2 h 1 min")]
)
def test_durations_are_short(value: int, text: str) -> None:
    assert duration(value) == text


class TestRowHeights:
    @given(st.lists(st.integers(0, 9), max_size=60), st.data())
    def test_sums_and_searches_agree_with_a_plain_list(self, heights: list[int], data: st.DataObject) -> None:
        middle = data.draw(st.integers(0, len(heights)))
        tree = RowHeights(heights[:middle])
        for height in heights[middle:]:
            tree.append(height)
        if heights:
            index = data.draw(st.integers(0, len(heights) - 1))
            heights[index] = data.draw(st.integers(0, 9))
            tree.set(index, heights[index])
        assert tree.total == sum(heights)
        assert [tree.start_of(index) for index in range(len(heights))] == [
            sum(heights[:n]) for n in range(len(heights))
        ]
        for row in range(tree.total):
            index, inner = tree.find(row)
            assert sum(heights[:index]) + inner == row
            assert inner < heights[index]


def test_the_first_code_block_loads_nothing_after_the_preparation() -> None:
    program = """
import sys
from holdfast.tui.transcript.code_rows import highlight, prepare_highlighting
from holdfast.tui.transcript.palette import Palette
palette = Palette.from_variables({}, name="", dark=True)
before = set(sys.modules)
prepare_highlighting(palette)
prepared = set(sys.modules)
for language in ("python", "bash"):
    assert highlight("if x: print('a')  # why", language, palette)
print(len(prepared - before) > 10, sorted(set(sys.modules) - prepared))
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.split(maxsplit=1) == ["True", "[]\n"]
