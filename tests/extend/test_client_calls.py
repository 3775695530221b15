"""Tools of clients: attached while a stream is open; each call is closed exactly once (`W13`)."""

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import Conflict, Forbidden, NotFound, ToolError
from holdfast.extend.client_calls import ClientCalls, check_names
from holdfast.extend.client_run_tools import ClientRunTools
from holdfast.schema.client_tools import ClientResult, ClientTool
from holdfast.schema.events import CallClosed, CallRequested
from holdfast.tools.protocol import ToolOutput
from holdfast.tools.registry import BUILT_IN, BUILT_IN_NAMES
from tests.support.tool_contexts import ToolWorkspace

pytestmark = pytest.mark.promise("W13")

LOOKUP = ClientTool("lookup", "Look something up.", {"properties": {"word": {"type": "string"}}})
RESULT = ClientResult("found")


class Peer:
    """Attaches one tool and records the events of its calls."""

    def __init__(self, directory: Path, *, seconds: float = 600.0, reconnect_seconds: float = 600.0) -> None:
        self.events: list[CallRequested | CallClosed] = []
        self.requested = asyncio.Event()
        numbers = count(1)
        self.calls = ClientCalls(
            publish=self._publish,
            new_id=lambda: f"ccl_{next(numbers)}",
            now=lambda: "",
            reconnect_seconds=reconnect_seconds,
        )
        self.context = ToolWorkspace(directory).context()
        self.attach(ClientTool(LOOKUP.name, LOOKUP.description, LOOKUP.parameters, seconds=seconds))

    def attach(self, *tools: ClientTool, client_id: str = "cli_1") -> None:
        self.calls.note_streams(client_id, 1)
        self.calls.attach("ses_1", tools, client_id=client_id, client=f"sdk/1 {client_id}")

    def _publish(self, event: CallRequested | CallClosed) -> None:
        self.events.append(event)
        self.requested.set()

    async def begin(self) -> asyncio.Task[ToolOutput]:
        """Start a call, as a run does, and return when the client is asked."""
        (tool,) = ClientRunTools(self.calls, root_session_id="ses_1").join()
        plan = await tool.plan({"word": "a"}, self.context)
        task = asyncio.create_task(tool.run({"word": "a"}, self.context, plan))
        await self.requested.wait()
        return task

    def answer(self, result: ClientResult = RESULT, *, client_id: str = "cli_1") -> str:
        return self.calls.answer("ccl_1", result, client_id=client_id).state

    @property
    def states(self) -> list[str]:
        return [event.call.state for event in self.events]


async def test_the_first_result_is_the_result_of_the_call(tmp_path: Path) -> None:
    peer = Peer(tmp_path)
    task = await peer.begin()
    with pytest.raises(Forbidden, match="another client"):
        peer.answer(client_id="cli_2")
    assert peer.answer() == "answered"
    assert peer.answer() == "answered"  # the response was lost, and the client asks again
    with pytest.raises(Conflict, match="already answered"):
        peer.answer(ClientResult("other"))
    assert (await task).text == "found"
    assert peer.answer() == "answered"
    with pytest.raises(Conflict, match="already answered"):
        peer.answer(ClientResult("other"))
    with pytest.raises(NotFound):
        peer.calls.answer("ccl_9", RESULT, client_id="cli_1")
    assert peer.states == ["open", "answered"]
    assert peer.events[0].call.arguments == {"word": "a"}


async def test_an_error_of_the_client_is_an_error_result(tmp_path: Path) -> None:
    peer = Peer(tmp_path)
    task = await peer.begin()
    peer.answer(ClientResult("no such word", status="error"))
    output = await task
    assert (output.text, output.status) == ("no such word", "error")


@pytest.mark.parametrize("first", ["result", "cancel"])
async def test_a_result_and_a_cancel_at_the_same_moment(tmp_path: Path, first: str) -> None:
    """Both arrive before the task of the call runs again. What was accepted counts, and nothing else."""
    peer = Peer(tmp_path)
    task = await peer.begin()
    if first == "result":
        assert peer.answer() == "answered"
        task.cancel()
        assert (await task).text == "found"
        assert peer.states == ["open", "answered"]
    else:
        task.cancel()
        with pytest.raises(Conflict, match="already cancelled"):
            peer.answer()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert peer.states == ["open", "cancelled"]
        with pytest.raises(Conflict, match="already cancelled"):
            peer.answer()
    assert peer.calls.open_calls() == ()


async def test_a_client_that_is_gone_ends_its_calls_and_takes_its_tools_along(tmp_path: Path) -> None:
    peer = Peer(tmp_path, reconnect_seconds=0.0)
    task = await peer.begin()
    peer.calls.note_streams("cli_1", 0)
    with pytest.raises(ToolError, match="is gone"):
        await task
    assert peer.states == ["open", "gone"]
    assert peer.calls.attached("ses_1") == ()
    with pytest.raises(Conflict, match="already gone"):
        peer.answer()


async def test_a_client_that_reconnects_in_time_keeps_its_tools_and_calls(tmp_path: Path) -> None:
    peer = Peer(tmp_path)
    task = await peer.begin()
    for streams in (0, 1, 2, 1, 0, 1):
        peer.calls.note_streams("cli_1", streams)
    assert peer.calls.find("ses_1", "lookup") is not None
    peer.answer()
    assert (await task).text == "found"


async def test_a_call_that_takes_too_long_ends_with_an_error(tmp_path: Path) -> None:
    peer = Peer(tmp_path, seconds=0.001)
    task = await peer.begin()
    with pytest.raises(ToolError, match=r"has not answered within 0.001 s"):
        await task
    assert peer.states == ["open", "expired"]


async def test_a_tool_that_is_removed_ends_its_calls_and_other_tools_stay(tmp_path: Path) -> None:
    peer = Peer(tmp_path)
    task = await peer.begin()
    peer.attach(ClientTool("other"))
    with pytest.raises(ToolError, match="was removed"):
        await task
    assert [tool.name for attached in peer.calls.attached("ses_1") for tool in attached.tools] == ["other"]
    with pytest.raises(ToolError, match="not available any more"):
        await peer.calls.call("lookup", {}, root_session_id="ses_1", context=peer.context)


async def test_the_client_that_attached_a_name_last_is_called(tmp_path: Path) -> None:
    peer = Peer(tmp_path)
    peer.attach(LOOKUP, client_id="cli_2")
    task = await peer.begin()
    assert peer.events[0].call.client_id == "cli_2"
    peer.answer(client_id="cli_2")
    await task


async def test_tools_that_are_attached_during_a_run_join_it_once(tmp_path: Path) -> None:
    peer = Peer(tmp_path)
    run = ClientRunTools(peer.calls, root_session_id="ses_1")
    hidden = ClientTool("read_buffer", for_model=False)

    def joined() -> list[Any]:
        return [tool.name for tool in run.join()]

    assert joined() == ["lookup"]
    peer.attach(LOOKUP, ClientTool("send"), hidden)
    assert (joined(), joined()) == (["send"], [])
    assert peer.calls.find("ses_1", "read_buffer") == hidden


async def test_a_tool_whose_effect_changed_after_the_approval_does_not_run(tmp_path: Path) -> None:
    peer = Peer(tmp_path)
    peer.attach(ClientTool("lookup", effect="none"))
    (tool,) = ClientRunTools(peer.calls, root_session_id="ses_1").join()
    plan = await tool.plan({}, peer.context)
    peer.attach(LOOKUP)
    with pytest.raises(ToolError, match="changed after the approval"):
        await tool.run({}, peer.context, plan)


def test_names_of_our_tools_are_taken() -> None:
    assert len(BUILT_IN_NAMES) == len(BUILT_IN)
    with pytest.raises(Conflict, match="'bash' is taken"):
        check_names([ClientTool("bash")], taken=BUILT_IN_NAMES)
    with pytest.raises(Conflict, match="'a' is taken"):
        check_names([ClientTool("a"), ClientTool("a")], taken=())
