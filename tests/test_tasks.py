"""Task primitives: what a cancel does to work that must be finished, and how owned tasks end."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from holdfast.tasks import CallThreads, OwnedTasks, WaitLimit, finish_before_cancel, finish_despite_cancel


class Work:
    """Work that waits at a gate until the test opens it."""

    def __init__(self, *, error: Exception | None = None) -> None:
        self.started = asyncio.Event()
        self.gate = asyncio.Event()
        self.finished = False
        self._error = error

    async def run(self) -> str:
        self.started.set()
        await self.gate.wait()
        self.finished = True
        if self._error is not None:
            raise self._error
        return "result"


async def turn_of_the_loop() -> None:
    """Run the event loop twice: once for the cancel to arrive, once for its effects."""
    for _ in range(2):
        await asyncio.sleep(0)


async def test_finish_before_cancel_returns_the_result() -> None:
    work = Work()
    work.gate.set()
    assert await finish_before_cancel(work.run()) == "result"


async def test_finish_before_cancel_passes_on_the_error_of_the_work() -> None:
    work = Work(error=ValueError("no"))
    work.gate.set()
    with pytest.raises(ValueError, match="no"):
        await finish_before_cancel(work.run())


async def test_finish_before_cancel_takes_a_future() -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    future.set_result(3)
    assert await finish_before_cancel(future) == 3


async def test_a_cancel_is_raised_only_when_the_work_is_finished() -> None:
    work = Work()
    caller = asyncio.create_task(finish_before_cancel(work.run()))
    await work.started.wait()
    caller.cancel()
    await turn_of_the_loop()
    assert not caller.done()
    work.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert work.finished


async def test_a_second_cancel_is_raised_at_once_and_the_work_goes_on() -> None:
    work = Work()
    working = asyncio.create_task(work.run())
    caller = asyncio.create_task(finish_before_cancel(working))
    await work.started.wait()
    caller.cancel()
    await turn_of_the_loop()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert not work.finished
    work.gate.set()
    assert await working == "result"


async def test_an_error_of_the_work_after_a_cancel_is_not_reported_as_unretrieved() -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    work = Work(error=ValueError("no"))
    caller = asyncio.create_task(finish_before_cancel(work.run()))
    await work.started.wait()
    caller.cancel()
    await turn_of_the_loop()
    work.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    del caller
    assert reported == []


async def test_finish_before_cancel_raises_the_cancel_of_the_work_itself() -> None:
    working = asyncio.create_task(Work().run())
    caller = asyncio.create_task(finish_before_cancel(working))
    await turn_of_the_loop()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert caller.cancelling() == 0


async def test_finish_despite_cancel_reports_that_no_cancel_came() -> None:
    work = Work()
    work.gate.set()
    assert await finish_despite_cancel(work.run()) == ("result", False)


@pytest.mark.parametrize("cancels", [1, 3])
async def test_finish_despite_cancel_absorbs_any_number_of_cancels(cancels: int) -> None:
    work = Work()
    caller = asyncio.create_task(finish_despite_cancel(work.run()))
    await work.started.wait()
    for _ in range(cancels):
        caller.cancel()
        await turn_of_the_loop()
    assert not caller.done()
    work.gate.set()
    assert await caller == ("result", True)


async def test_finish_despite_cancel_raises_the_cancel_of_the_work_itself() -> None:
    working = asyncio.create_task(Work().run())
    caller = asyncio.create_task(finish_despite_cancel(working))
    await turn_of_the_loop()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller


async def test_finish_waits_for_owned_tasks_that_end_by_themselves() -> None:
    tasks, work = OwnedTasks(), Work()
    tasks.spawn(work.run(), name="one")
    assert len(tasks) == 1
    work.gate.set()
    assert await tasks.finish(seconds=10) == ()
    assert work.finished
    assert len(tasks) == 0


async def test_finish_waits_for_owned_tasks_that_are_started_meanwhile() -> None:
    tasks, work = OwnedTasks(), Work()
    work.gate.set()

    async def second() -> None:
        for _ in range(10):
            await turn_of_the_loop()
        await work.run()

    async def first() -> None:
        tasks.spawn(second(), name="second")

    tasks.spawn(first(), name="first")
    assert await tasks.finish(seconds=10) == ()
    assert work.finished


async def test_finish_cancels_owned_tasks_that_do_not_end_in_time() -> None:
    tasks, work = OwnedTasks(), Work()
    task = tasks.spawn(work.run(), name="one")
    assert await tasks.finish(seconds=0.01) == ()
    assert task.cancelled()


async def test_finish_names_owned_tasks_that_ignore_their_cancel() -> None:
    tasks, work = OwnedTasks(), Work()
    stubborn = tasks.spawn(finish_despite_cancel(work.run()), name="stubborn")
    tasks.spawn(Work().run(), name="obedient")
    assert await tasks.finish(seconds=0.01) == ("stubborn",)
    work.gate.set()
    await stubborn


@pytest.mark.parametrize(("may_fail", "level"), [(False, logging.ERROR), (True, logging.DEBUG)])
async def test_a_failed_owned_task_is_logged(caplog: pytest.LogCaptureFixture, *, may_fail: bool, level: int) -> None:
    caplog.set_level(logging.DEBUG, logger="holdfast.tasks")
    tasks, work = OwnedTasks(), Work(error=ValueError("no"))
    work.gate.set()
    task = tasks.spawn(work.run(), name="one", may_fail=may_fail)
    await asyncio.wait((task,))
    await turn_of_the_loop()
    assert [record.levelno for record in caplog.records if "one" in record.message] == [level]


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_wait_that_takes_too_long_is_a_time_out_and_leaves_no_cancel_behind() -> None:
    limit, work = WaitLimit(), Work()
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await limit.wait(work.run(), until=now() + 0.01)
        assert limit.expired
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
    work.gate.set()
    assert await limit.wait(work.run(), until=now() + 60) == "result"
    assert not limit.expired
    limit.close()


async def test_waits_in_time_share_one_timer_and_the_earliest_end_counts() -> None:
    limit, work = WaitLimit(), Work()
    work.gate.set()
    await limit.wait(work.run(), until=now() + 60)
    timer = limit._timer
    for _ in range(100):
        await limit.wait(work.run(), until=now() + 61)
    assert limit._timer is timer
    work.gate.clear()
    with pytest.raises(TimeoutError):
        await limit.wait(work.run(), until=now() + 0.01)
    assert await limit.wait(asyncio.sleep(0, "no limit"), until=None) == "no limit"


async def test_a_timer_that_ends_early_waits_for_the_end_of_the_current_wait() -> None:
    limit, work = WaitLimit(), Work()
    work.gate.set()
    await limit.wait(work.run(), until=now() + 60)
    work.gate.clear()
    until = now() + 61
    task = asyncio.create_task(limit.wait(work.run(), until=until))
    await asyncio.sleep(0)
    assert limit._armed < until
    limit._check()
    assert limit._armed == until
    work.gate.set()
    assert await task == "result"
    limit._check()
    assert limit._timer is None


@pytest.mark.parametrize("expires", [False, True])
async def test_a_cancel_from_outside_is_not_taken_for_a_time_out(expires: bool) -> None:
    limit, work = WaitLimit(), Work()
    task = asyncio.create_task(limit.wait(work.run(), until=now() + 60))
    await work.started.wait()
    if expires:  # both in the same turn of the loop
        limit._until = 0.0
        limit._check()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    limit.close()


async def test_calls_in_threads_return_or_raise_and_use_no_more_threads_than_allowed() -> None:
    threads = CallThreads(2, name="test")
    both, go_on = threading.Barrier(2), threading.Event()
    used: set[str] = set()

    def meet() -> str:
        used.add(threading.current_thread().name)
        both.wait(30)
        return "met"

    def fail() -> None:
        go_on.wait(30)
        raise ValueError("no")

    assert await asyncio.gather(threads.call(meet), threads.call(meet)) == ["met", "met"]
    failing = [asyncio.create_task(threads.call(fail)) for _ in range(3)]
    await turn_of_the_loop()
    go_on.set()
    results = await asyncio.gather(*failing, return_exceptions=True)
    assert [str(result) for result in results] == ["no", "no", "no"]
    assert await threads.call(lambda: threading.current_thread().name) in used == {"test_0", "test_1"}
    await asyncio.to_thread(threads.close)


async def test_a_call_whose_caller_was_cancelled_ends_before_the_threads_do() -> None:
    threads = CallThreads(1, name="test")
    begun, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait(30)
        done.set()

    caller = asyncio.create_task(threads.call(work))
    assert await asyncio.to_thread(begun.wait, 30)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    go_on.set()
    await asyncio.to_thread(threads.close)
    assert done.is_set()


async def test_calls_share_the_threads_that_run_if_the_system_has_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = CallThreads(2, name="test")
    assert await threads.call(lambda: "first") == "first"

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert await asyncio.gather(threads.call(lambda: 1), threads.call(lambda: 2)) == [1, 2]
    with pytest.raises(RuntimeError, match="can't start"):
        await CallThreads(1, name="none").call(lambda: "never")
    monkeypatch.undo()
    await asyncio.to_thread(threads.close)
