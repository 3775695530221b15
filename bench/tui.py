"""What the terminal interface costs: start, keys, streaming, long sessions, memory.

Two cases use the real program on a pseudo-terminal, with a server and a provider on loopback:

- start: the time to the first frame and to the first typed character, in turn with Textual's empty app.
- keys: the time from a key to its character on the screen, and the CPU time of the interface, while an answer streams.

Two cases run in a process of their own, without a terminal but with all of Textual's drawing, beside an empty app. A
frame is the CPU time from a scroll to the end of its drawing.

- long: 2,000 messages and one call with 10,000 lines of output that is unfolded; opened, then scrolled through.
- stream: an answer of Markdown with code at 100 deltas a second, added to 200 messages.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from support.figures import show
from support.sample_answer import ANSWER

AIMS = {
    "first_frame_ratio": 1.3,
    "first_key_ratio": 1.4,
    "key_p99_ms": 30.0,
    "cpu_percent": 25.0,
    "frame_p95_ms": 16.0,
    "memory_mb": 150.0,
}
SIZE = (140, 45)
FRAMES = 300
DELTAS_PER_SECOND = 100
STREAM_SECONDS = 5
AT = "2026-01-01T00:00:00.000Z"


def memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def session(count: int) -> Any:
    """A session of prompts, answers and calls, made by the client's fold."""
    from holdfast.client.view_fold import SessionSnapshot, ViewFold
    from holdfast.schema.messages import Message, Part, Role, Text, ToolCall, ToolResult
    from holdfast.schema.sessions import Session

    messages = []
    for seq in range(1, count + 1):
        role: Role
        parts: tuple[Part, ...]
        match seq % 4:
            case 1:
                role, parts = "user", (Text(f"prompt {seq}: why does the test fail? fix it"),)
            case 2:
                call = ToolCall(f"call_{seq}", "bash", {"command": f"pytest -q test_{seq}.py"})
                role, parts = "assistant", (Text("I look at the test."), call)
            case 3:
                lines = 10_000 if seq == count // 2 + 3 else 20
                output = "\n".join(f"\x1b[32mtest_{n}\x1b[0m line {n} of the output of a command" for n in range(lines))
                role, parts = "tool", (ToolResult(f"call_{seq - 1}", "bash", "ok", output, duration=1.5),)
            case _:
                role, parts = "assistant", (Text(f"{ANSWER}\nAnswer number {seq}."),)
        messages.append(Message(f"msg_{seq}", "ses_1", f"run_{seq // 4}", role, seq, AT, parts))
    view = ViewFold()
    view.open_session(SessionSnapshot(session=Session("ses_1", "wsp_1"), messages=tuple(messages)))
    return view


@asynccontextmanager
async def running(view: Any | None) -> AsyncIterator[tuple[Any, asyncio.Event]]:
    """An app with the transcript, or Textual's empty app. The event is set whenever a frame was drawn."""
    from textual.app import App, ComposeResult

    from holdfast.tui.transcript.transcript_widget import TranscriptView

    drawn = asyncio.Event()

    class BenchApp(App[None]):
        def compose(self) -> ComposeResult:
            if view is not None:
                yield TranscriptView(view.transcript("ses_1"))

        def post_display_hook(self) -> None:
            drawn.set()

    app = BenchApp()
    async with app.run_test(size=SIZE):
        await drawn.wait()
        yield app, drawn


async def bench_empty() -> dict[str, float]:
    async with running(None) as (app, drawn):
        frames = []
        for _ in range(60):
            drawn.clear()
            began = time.process_time()
            app.screen.refresh()
            await drawn.wait()
            frames.append((time.process_time() - began) * 1000)
        began_cpu, began = time.process_time(), time.monotonic()
        await asyncio.sleep(1)
        idle = 100 * (time.process_time() - began_cpu) / (time.monotonic() - began)
    return {
        "frame_p50_ms": statistics.median(frames),
        "frame_p95_ms": p95(frames),
        "idle_cpu_percent": idle,
        "memory_mb": memory_mb(),
    }


async def bench_long() -> dict[str, float]:
    from holdfast.client.view_values import CallBlock
    from holdfast.tui.transcript.transcript_widget import TranscriptView

    view = session(2000)
    loaded = memory_mb()
    began = time.process_time()
    async with running(view) as (app, drawn):
        opened = (time.process_time() - began) * 1000
        transcript = app.query_one(TranscriptView)
        longest = max(
            (block for _, block in transcript._rows.all_blocks() if isinstance(block, CallBlock)),
            key=lambda block: len(block.output),
        )
        began = time.process_time()
        transcript.toggle_block(longest)
        transcript.scroll_to_block(longest.id)
        unfolded = (time.process_time() - began) * 1000
        frames = [await _scroll(transcript, drawn, step) for step in [-7] * (FRAMES // 2) + [40] * (FRAMES // 2)]
        far = [await _jump(transcript, drawn, share) for share in (0.1, 0.9, 0.3, 0.7, 0.5, 0.2, 0.8, 0.4)]
        gc.collect()
    return {
        "open_ms": opened,
        "unfold_10000_lines_ms": unfolded,
        "frame_p50_ms": statistics.median(frames),
        "frame_p95_ms": p95(frames),
        "frame_max_ms": max(frames),
        "jump_max_ms": max(far),
        "memory_mb": memory_mb(),
        "memory_of_messages_mb": loaded,
    }


async def _scroll(transcript: Any, drawn: asyncio.Event, step: int) -> float:
    drawn.clear()
    began = time.process_time()
    transcript.scroll_relative(y=step, animate=False)
    await drawn.wait()
    return (time.process_time() - began) * 1000


async def _jump(transcript: Any, drawn: asyncio.Event, share: float) -> float:
    drawn.clear()
    began = time.process_time()
    transcript.scroll_to(y=transcript.max_scroll_y * share, animate=False)
    await drawn.wait()
    return (time.process_time() - began) * 1000


async def bench_stream() -> dict[str, float]:
    from holdfast.schema.events import Delta, MessageCreated
    from holdfast.schema.messages import Message
    from holdfast.tui.transcript.transcript_widget import TranscriptView

    view = session(200)
    async with running(view) as (app, _):
        transcript = app.query_one(TranscriptView)
        message = Message("msg_stream", "ses_1", "run_x", "assistant", 1000, AT)
        view.apply(MessageCreated(AT, "ses_1", message))
        text = ANSWER * 40
        size, offset = 24, 0
        began_cpu, began = time.process_time(), time.monotonic()
        fold_seconds = 0.0
        for number in range(DELTAS_PER_SECOND * STREAM_SECONDS):
            piece = text[offset : offset + size]
            started = time.perf_counter()
            view.apply(Delta(AT, "ses_1", message.id, 0, 1, "text", offset, piece))
            fold_seconds += time.perf_counter() - started
            offset += len(piece)
            transcript.session_changed()
            await asyncio.sleep(max(began + (number + 1) / DELTAS_PER_SECOND - time.monotonic(), 0))
        elapsed = time.monotonic() - began
        cpu = time.process_time() - began_cpu
    return {
        "stream_cpu_percent": 100 * cpu / elapsed,
        "deltas_per_second": DELTAS_PER_SECOND * STREAM_SECONDS / elapsed,
        "fold_us_per_delta": 1e6 * fold_seconds / (DELTAS_PER_SECOND * STREAM_SECONDS),
        "memory_mb": memory_mb(),
    }


def p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


CASES = {"empty": bench_empty, "long": bench_long, "stream": bench_stream}


def in_process() -> None:
    results = {}
    for name in CASES:
        done = subprocess.run([sys.executable, __file__, name], check=True, capture_output=True, text=True)
        results[name] = json.loads(done.stdout.splitlines()[-1])
        title = "Textual's empty app" if name == "empty" else name
        print(f"{title}: " + ", ".join(f"{key} {value:.1f}" for key, value in results[name].items()))
    for key, name, unit in (
        ("frame_p95_ms", "scroll through 2,000 messages, frame p95", "ms"),
        ("memory_mb", "memory at 2,000 messages", "MB"),
    ):
        show(name, results["long"][key], unit, base=results["empty"][key], base_name="empty app", most=AIMS[key])


def on_a_terminal() -> None:
    from support.terminal_bench import measure_empty_keys, measure_keys, measure_start, running_home

    with running_home() as home:
        ours, empty = measure_start(home)
        for name, mine, its, aim in (
            ("first frame", ours.frame_ms, empty.frame_ms, "first_frame_ratio"),
            ("first typed character", ours.key_ms, empty.key_ms, "first_key_ratio"),
        ):
            show(name, mine, "ms", base=its, base_name="empty app", most_ratio=AIMS[aim])
        idle = measure_empty_keys(home)
        print(f"keys in Textual's empty app: p50 {idle.p50_ms:.1f} ms, p99 {idle.p99_ms:.1f} ms")
        for rate in (100, 200):
            keys = measure_keys(home, rate=rate)
            print(
                f"keys at {keys.rate:.0f} deltas/s: p50 {keys.p50_ms:.1f} ms, p99 {keys.p99_ms:.1f} ms, "
                f"CPU {keys.cpu_percent:.1f} % ({keys.idle_percent:.1f} % without keys)"
            )
            if rate == 100:
                show("CPU while 100 deltas/s stream", keys.idle_percent, "%", most=AIMS["cpu_percent"])
            else:
                name = "key to screen, 200 deltas/s stream, p99"
                show(name, keys.p99_ms, "ms", base=idle.p99_ms, base_name="empty app", most=AIMS["key_p99_ms"])


def main() -> None:
    on_a_terminal()
    in_process()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(asyncio.run(CASES[sys.argv[1]]())))
    else:
        main()
