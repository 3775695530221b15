"""Calls that the server has the editor execute: each once, and whatever the editor answers."""

import asyncio
from typing import Any

import pytest
from acp.exceptions import RequestError

from holdfast.acp.editor_calls import EditorCalls
from holdfast.acp.editor_offers import EditorOffers, EditorPaths
from holdfast.schema.client_tools import ClientCall, ClientResult, ClientTools


class FixedPeers:
    """The server and the editor. The editor answers each method as given; ``None``: never."""

    def __init__(self, **answers: Any) -> None:
        self._answers = answers
        self.methods: list[str] = []
        self.results: list[ClientResult] = []
        self.changed = asyncio.Event()

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        self.methods.append(method)
        self.changed.set()
        answer = self._answers.get(method.partition("/")[2], {})
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        raise NotImplementedError

    async def attach_tools(self, session_id: str, tools: Any) -> ClientTools:
        return ClientTools(session_id, "acp/1 cli_1", tuple(tools))

    async def server(self) -> Any:
        return ClientCall("", "", "", "", "", "", "", "")

    async def answer_call(self, call_id: str, result: ClientResult) -> None:
        self.results.append(result)
        self.changed.set()

    async def until(self, count: int) -> None:
        while len(self.results) < count:
            self.changed.clear()
            await self.changed.wait()


async def _attached(peers: FixedPeers) -> EditorCalls:
    async def show(call_id: str, terminal_id: str) -> None:
        pass

    calls = EditorCalls(
        "ses_1",
        client=peers,  # type: ignore[arg-type]
        editor=peers,
        offers=EditorOffers(reads=True, writes=True),
        paths=EditorPaths("/work", "/work"),
        env={},
        show_terminal=show,
    )
    await calls.attach()
    return calls


def _call(tool: str = "editor_read_file", number: int = 1, **fields: str) -> ClientCall:
    run = {"program": "bash", "arguments": [], "directory": "/work", "environment": {}}
    arguments = run if tool == "editor_run" else {"path": "/work/a", "text": "b"}
    given: dict[str, Any] = {"root_session_id": "ses_1", "client_id": "cli_1", "arguments": arguments, **fields}
    return ClientCall(f"ccl_{number}", "wsp_1", "ses_1", run_id="run_1", call_id="call_1", tool=tool, **given)


@pytest.mark.promise("W13")
async def test_a_call_is_executed_once_and_only_by_its_editor() -> None:
    peers = FixedPeers(read_text_file={"content": "text"})
    calls = await _attached(peers)
    for call in (_call(), _call(), _call(number=2, client_id="cli_2"), _call(number=3, root_session_id="ses_2")):
        calls.begin(call)
    await peers.until(1)
    assert peers.methods == ["fs/read_text_file"]
    assert peers.results == [ClientResult("text")]
    await calls.close()


async def test_a_closed_call_is_not_answered() -> None:
    peers = FixedPeers(read_text_file=None)
    calls = await _attached(peers)
    calls.begin(_call())
    await peers.changed.wait()
    calls.closed("ccl_1")
    await calls.close()
    assert peers.results == []


@pytest.mark.parametrize(
    ("tool", "answers"),
    [
        ("editor_read_file", {"read_text_file": answer})
        for answer in ({}, [], "text", 5, {"content": None}, {"content": [1]}, RequestError(-32002, "no file"))
    ]
    + [
        ("editor_run", {"create": {"terminalId": "t"}, **answers})
        for answers in ({"wait_for_exit": "x"}, {"output": []}, {"output": {"output": "x", "exitStatus": "y"}})
    ]
    + [("editor_run", {"create": answer}) for answer in ("x", {}, [])]
    + [("editor_magic", {})],
)
async def test_an_answer_of_the_wrong_form_is_an_error(tool: str, answers: dict[str, Any]) -> None:
    peers = FixedPeers(**answers)
    calls = await _attached(peers)
    calls.begin(_call(tool))
    await peers.until(1)
    assert [one.status for one in peers.results] == ["error"]
    await calls.close()
