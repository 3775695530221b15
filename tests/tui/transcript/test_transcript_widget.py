"""The transcript widget in a real app: what it draws, and that the place that is read stays where it is."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest
from rich.console import RenderableType
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import App, ComposeResult
from textual.containers import Horizontal
from textual.geometry import Region
from textual.pilot import Pilot
from textual.screen import Screen
from textual.scrollbar import ScrollBar

from holdfast.client.view_values import CallBlock
from holdfast.schema.messages import Text, ToolCall, ToolResult
from holdfast.tui.transcript.transcript_scrollbar import TranscriptScrollBar
from holdfast.tui.transcript.transcript_widget import TranscriptView
from tests.tui.transcript.session_folds import SessionMaker, conversation, message


class TranscriptApp(App[None]):
    def __init__(self, session: SessionMaker) -> None:
        super().__init__()
        self.session = session
        self.chosen: list[str] = []
        self.older_wanted = 0

    def compose(self) -> ComposeResult:
        yield TranscriptView(self.session.fold, subagent=self._subagent)

    def _subagent(self, session_id: str) -> tuple[object, ...]:
        fold = self.session.view.transcript(session_id)
        return fold.view().blocks if fold else ()

    def on_transcript_view_target_chosen(self, event: TranscriptView.TargetChosen) -> None:
        self.chosen.append(event.target)

    def on_transcript_view_older_wanted(self) -> None:
        self.older_wanted += 1

    @property
    def transcript(self) -> TranscriptView:
        return self.query_one(TranscriptView)

    def screen_text(self) -> list[str]:
        view = self.transcript
        return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


@asynccontextmanager
async def shown(
    session: SessionMaker, size: tuple[int, int] = (60, 20)
) -> AsyncIterator[tuple[TranscriptApp, TranscriptView, Pilot[None]]]:
    app = TranscriptApp(session)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, app.transcript, pilot


async def test_a_session_is_shown_from_its_end() -> None:
    async with shown(SessionMaker(*conversation(200))) as (app, view, _):
        text = app.screen_text()
        assert " Answer 200" in text
        assert " • two" in text[-1]
        assert view.following


async def test_only_visible_entries_are_drawn() -> None:
    session = SessionMaker(*conversation(2000))
    async with shown(session) as (_, view, _):
        assert len(view._rows._drawn) < 30


async def test_new_text_is_followed_at_the_end() -> None:
    session = SessionMaker(*conversation(50))
    async with shown(session) as (app, view, pilot):
        answer = session.add("assistant")
        session.stream(answer, "word " * 100)
        view.draw_now()
        await pilot.pause()
        assert "word" in app.screen_text()[-1]


async def test_the_place_that_is_read_stays_while_text_is_added_below() -> None:
    session = SessionMaker(*conversation(100))
    async with shown(session) as (app, view, pilot):
        view.scroll_to(y=40, animate=False)
        await pilot.pause()
        before = app.screen_text()
        assert not view.following
        for number in range(5):
            session.add("user", Text(f"new {number}"))
        view.draw_now()
        await pilot.pause()
        assert app.screen_text()[:-1] == before[:-1]
        assert view.unseen == 5
        assert "5 new" in app.screen_text()[-1]
        view.scroll_to_end()
        await pilot.pause()
        assert view.unseen == 0
        assert "new 4" in "\n".join(app.screen_text())


async def test_the_place_that_is_read_stays_when_older_messages_arrive_above() -> None:
    session = SessionMaker(*(message(n, "user", Text(f"prompt {n}")) for n in range(100, 160)), older="100")
    async with shown(session) as (app, view, pilot):
        view.scroll_to(y=30, animate=False)
        await pilot.pause()
        before = app.screen_text()
        older = [message(n, "user", Text(f"older {n}\n" * 3)) for n in range(1, 100)]
        session.view.load_older("ses_1", older, (), older=None)
        view.draw_now()
        await pilot.pause()
        assert app.screen_text() == before


async def test_scrolling_up_through_estimated_entries_reaches_the_first_row() -> None:
    session = SessionMaker(*conversation(120), older="1")
    async with shown(session) as (app, view, pilot):
        while view.scroll_y > 0:
            view.scroll_relative(y=-15, animate=False)
            await pilot.pause()
        assert app.screen_text()[0] == " ▌ prompt 1"
        assert app.older_wanted == 1


async def test_a_resize_keeps_the_place() -> None:
    session = SessionMaker(*(message(n, "user", Text(f"prompt {n} " + "long words " * 10)) for n in range(1, 80)))
    async with shown(session) as (app, view, pilot):
        view.scroll_to(y=50, animate=False)
        await pilot.pause()
        entry = view._anchor.entry
        await pilot.resize_terminal(40, 20)
        await pilot.pause()
        assert view._anchor.entry == entry
        assert f"prompt {entry + 2}" in "\n".join(app.screen_text()[:8])


async def test_a_call_is_folded_and_unfolds_under_the_cursor() -> None:
    call = ToolCall("call_1", "bash", {"command": "make test"})
    result = ToolResult("call_1", "bash", "ok", "\n".join(f"line {n}" for n in range(8)), duration=1.2)
    session = SessionMaker(message(1, "assistant", call), message(2, "tool", result))
    async with shown(session) as (app, view, pilot):
        assert app.screen_text()[0].startswith("   ✓ bash  make test")
        assert "1.2 s" in app.screen_text()[0]
        assert "line 0" not in "\n".join(app.screen_text())
        view.move_cursor(-1)
        assert isinstance(view.cursor_block, CallBlock)
        view.toggle_block()
        await pilot.pause()
        assert "     │ line 0" in app.screen_text()
        await pilot.click(TranscriptView, offset=(8, 0))
        await pilot.pause()
        assert "line 0" not in "\n".join(app.screen_text())


async def test_search_marks_and_finds_text_in_folded_output() -> None:
    call = ToolCall("call_1", "bash", {"command": "make"})
    result = ToolResult("call_1", "bash", "ok", "\n".join(f"line {n}" for n in range(500)) + "\nNeedle here")
    session = SessionMaker(message(1, "assistant", call), message(2, "tool", result), *_later(3, 60))
    async with shown(session) as (app, view, pilot):
        assert view.search("needle") == 1
        await pilot.pause()
        assert "Needle here" in "\n".join(app.screen_text())
        assert view.search("no such text") == 0


def _later(first: int, count: int) -> tuple[object, ...]:
    return tuple(message(n, "user", Text(f"later {n}")) for n in range(first, first + count))


async def test_matches_are_visited_in_turn() -> None:
    session = SessionMaker(*conversation(60))
    async with shown(session) as (_, view, _):
        assert view.search("answer 1") == 5
        first = view.state.cursor
        view.next_match(-1)
        assert view.state.cursor != first
        view.next_match(1)
        assert view.state.cursor == first


async def test_prompts_are_visited_in_turn() -> None:
    session = SessionMaker(*conversation(60))
    async with shown(session) as (app, view, pilot):
        view.move_to_prompt(-1)
        view.move_to_prompt(-1)
        await pilot.pause()
        first = app.screen_text()[0]
        view.move_to_prompt(1)
        await pilot.pause()
        assert first.startswith(" ▌ prompt")
        assert app.screen_text()[0] != first


async def test_selected_text_has_no_decoration_and_joins_wrapped_lines() -> None:
    text = "This answer is long enough to be wrapped over several rows of the screen.\n\n- a point"
    session = SessionMaker(message(1, "user", Text("question")), message(2, "assistant", Text(text)))
    async with shown(session, (40, 12)) as (app, view, pilot):
        await pilot.mouse_down(TranscriptView, offset=(0, 0))
        await pilot.hover(TranscriptView, offset=(30, 6))
        await pilot.mouse_up(TranscriptView, offset=(30, 6))
        await pilot.pause()
        assert view.selected_text == "question\n\n" + text.replace("- ", "")
        assert app.clipboard == view.selected_text
        view.clear_selection()
        assert view.selected_text == ""


async def test_text_is_selected_with_keys() -> None:
    session = SessionMaker(message(1, "user", Text("one\ntwo\nthree")))
    async with shown(session) as (_, view, _):
        view.extend_selection(rows=1, columns=5)
        assert view.selected_text == "one\ntwo"


async def test_a_block_is_copied_as_its_source() -> None:
    session = SessionMaker(message(1, "assistant", Text("- **bold**\n- `code`")))
    async with shown(session) as (app, view, _):
        view.move_cursor(-1)
        assert view.copy() == "- **bold**\n- `code`"
        assert app.clipboard == "- **bold**\n- `code`"


@pytest.mark.parametrize(
    ("text", "target"), [("see src/a.py:12 now", "src/a.py:12"), ("[x](https://a.b/c)", "https://a.b/c")]
)
async def test_links_and_places_in_files_can_be_clicked(text: str, target: str) -> None:
    session = SessionMaker(message(1, "assistant", Text(text)))
    async with shown(session) as (app, _, pilot):
        column = app.screen_text()[0].index(target) if target in text and "[" not in text else 1
        await pilot.click(TranscriptView, offset=(column, 0))
        await pilot.pause()
        assert app.chosen == [target]


async def test_control_characters_never_reach_the_screen() -> None:
    session = SessionMaker(message(1, "user", Text("a\x1b[31mb\x07\u202ec")), message(2, "assistant", Text("x\x9b2Jy")))
    async with shown(session) as (app, _, _):
        text = "\n".join(app.screen_text())
        assert "a␛[31mb␇⟨202E⟩c" in text
        assert "x⟨9B⟩2Jy" in text


async def test_the_theme_can_change() -> None:
    session = SessionMaker(*conversation(10))
    async with shown(session) as (app, view, pilot):
        before = view._rows.context.palette
        app.theme = "textual-light"
        await pilot.pause()
        assert view._rows.context.palette != before
        assert "Answer 10" in "\n".join(app.screen_text())


def screen_model(app: TranscriptApp) -> dict[int, str]:
    """The rows of the terminal, filled from what is sent to it from now on."""
    rows: dict[int, str] = {}
    send = app._display

    def display(screen: Screen[object], update: RenderableType | None) -> None:
        width = app.transcript._layout_width  # without the scroll bar
        if isinstance(update, LayoutUpdate):
            for y, strips in enumerate(update.strips):
                rows[y] = "".join(strip.text for strip in strips)[:width]
        elif isinstance(update, ChopsUpdate):
            for y, first, last in update.spans:
                pieces = [strip.text for x, strip in update.chops[y].items() if strip and first <= x < min(last, width)]
                if pieces:
                    rows[y] = "".join(pieces)
        send(screen, update)

    app._display = display  # type: ignore[method-assign]
    return rows


async def test_only_rows_that_changed_are_sent_to_the_terminal() -> None:
    session = SessionMaker(*conversation(50))
    async with shown(session) as (app, view, pilot):
        answer = session.add("assistant")
        session.stream(answer, "A first line\n\nand the ")
        view.draw_now()
        await pilot.pause()
        rows = screen_model(app)
        session.stream(answer, "last words", offset=len("A first line\n\nand the "))
        view.draw_now()
        await pilot.pause()
        assert {y: text.strip() for y, text in rows.items()} == {view.size.height - 1: "and the last words"}


async def test_the_terminal_shows_the_same_as_if_everything_were_drawn_each_time() -> None:
    session = SessionMaker(*conversation(40))
    async with shown(session, size=(50, 12)) as (app, view, pilot):
        rows = screen_model(app)
        app.refresh()
        random, answer, length = Random(7), session.add("assistant"), 0
        for _ in range(150):
            match random.randrange(8):
                case 0:
                    view.scroll_relative(y=random.choice((-9, -1, 2, 30)), animate=False)
                case 1:
                    view.scroll_to_end()
                case 2:
                    answer, length = session.add("assistant"), 0
                case 3:
                    view.move_cursor(random.choice((-1, 1)))
                case 4:
                    view.search(random.choice(("text", "")))
                case _:
                    piece = random.choice(("word ", "`code` ", "\n\n", "- item\n", "```\nx = 1\n```\n"))
                    session.stream(answer, piece, offset=length)
                    length += len(piece)
            view.draw_now()
            await pilot.pause()
            assert [rows[y] for y in range(view.size.height)] == [strip.text for strip in view._make_visible()]


async def test_the_scroll_bar_looks_like_the_librarys() -> None:
    ours, theirs = TranscriptScrollBar(), ScrollBar()

    class BarApp(App[None]):
        def compose(self) -> ComposeResult:
            with Horizontal():
                yield ours
                yield theirs

    async with BarApp().run_test(size=(2, 20)) as pilot:
        for bar in (ours, theirs):
            bar.styles.width, bar.styles.height, bar.window_size = 1, 20, 20
        await pilot.pause()
        before = None
        for rows, position in (
            (20, 0),
            (21, 1),
            (21, 0),
            (50, 30),
            (51, 31),
            (400, 77),
            (40_000, 39_980),
            (40_001, 39_981),
        ):
            ours.show(rows=rows, position=position)
            theirs.window_virtual_size, theirs.position = rows, position
            drawn, expected = (
                [
                    [(segment.text, segment.style) for segment in strip]
                    for strip in bar.render_lines(Region(0, 0, 1, 20))
                ]
                for bar in (ours, theirs)
            )
            assert drawn == expected
            assert (ours._rows is before) == (rows == 40_001)
            before = ours._rows
