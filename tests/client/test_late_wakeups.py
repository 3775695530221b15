"""A cancelled wait for the server leaves no error of the HTTP library in the log."""

import asyncio
import logging
import socket

import pytest
from anyio._backends._asyncio import UNIXSocketStream

from holdfast.client.late_wakeups import drop_late_wakeups

ASYNCIO = logging.getLogger("asyncio")


async def _cancelled_as_bytes_arrive() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    stream = UNIXSocketStream(ours)
    reading = asyncio.create_task(stream.receive())
    while getattr(stream, "_receive_future", None) is None:  # noqa: ASYNC110 - the library has no event for it
        await asyncio.sleep(0)
    theirs.send(b"x")
    asyncio.get_running_loop().call_soon(reading.cancel)  # before the socket's callback, in the same turn
    with pytest.raises(asyncio.CancelledError):
        await reading
    await stream.aclose()
    theirs.close()


async def test_a_reader_that_is_cancelled_as_bytes_arrive_leaves_no_error(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ASYNCIO, "filters", [])
    await _cancelled_as_bytes_arrive()
    assert "InvalidStateError" in caplog.text, "anyio has mended it: this module is not needed any more"
    caplog.clear()
    drop_late_wakeups()
    drop_late_wakeups()
    await _cancelled_as_bytes_arrive()
    assert caplog.text == ""
    assert len(ASYNCIO.filters) == 1


async def test_other_errors_of_the_event_loop_are_reported(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ASYNCIO, "filters", [])
    drop_late_wakeups()
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    done.set_result(1)
    loop.call_soon(done.set_result, 2)
    loop.call_soon(lambda: 1 // 0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert "Future.set_result(2)" in caplog.text
    assert "ZeroDivisionError" in caplog.text
