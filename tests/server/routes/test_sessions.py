"""Sessions over HTTP."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.store import Batch, CallOutput
from holdfast.store.writes import PutCallOutput
from holdfast.testing import Answer, Call, Say, calls
from tests.support.running_server import answering, run_server


async def test_sessions_are_listed_found_named_archived_forked_and_deleted(home: Path) -> None:
    async with run_server(home) as server:
        first, second = await server.session(title="Red"), await server.session(title="Blue")
        await server.ended((await server.prompt(first, "a question"))["run"]["id"])
        target = f"/v1/workspaces/{server.workspace_id}/sessions"

        async def titles(query: str = "") -> list[str]:
            return [session["title"] for session in (await server.http.get(target + query)).ok()["items"]]

        assert await titles() == ["Red", "Blue"]
        assert await titles("?q=blu") == ["Blue"]
        page = (await server.http.get(f"{target}?limit=1")).ok()
        assert await titles(f"?before={page['next']}") == ["Blue"]
        assert (await server.http.send("PATCH", f"/v1/sessions/{second}", {"archived": True})).ok()["archived"]
        assert await titles() == ["Red"]
        assert await titles("?archived=true") == ["Red", "Blue"]
        messages = (await server.http.get(f"/v1/sessions/{first}/messages")).ok()["items"]
        fork = (await server.http.post(f"/v1/sessions/{first}/fork", {"message_id": messages[0]["id"]})).ok(201)
        assert fork["forked_from"] == first
        copied = (await server.http.get(f"/v1/sessions/{fork['id']}/messages")).ok()["items"]
        assert [message["parts"] for message in copied] == [messages[0]["parts"]]
        unknown = await server.http.post(f"/v1/sessions/{first}/fork", {"message_id": "msg_unknown"})
        assert (unknown.status, unknown.code) == (404, "message_not_found")
        (await server.http.send("DELETE", f"/v1/sessions/{first}")).ok()
        assert (await server.http.get(f"/v1/sessions/{first}")).status == 410
        assert len((await server.http.get(f"/v1/sessions/{fork['id']}/messages")).ok()["items"]) == 1


@pytest.mark.promise("E7")
async def test_messages_come_in_pages_from_either_end_with_their_cursor(home: Path) -> None:
    async with run_server(home) as server:
        session_id = await server.session()
        for number in range(3):
            await server.ended((await server.prompt(session_id, f"number {number}"))["run"]["id"])
        target = f"/v1/sessions/{session_id}/messages"

        async def page(query: str) -> dict[str, Any]:
            found: dict[str, Any] = (await server.http.get(target + query)).ok()
            assert found["cursor"] == server.app.hub.cursor
            return found

        def seqs(found: dict[str, Any]) -> list[int]:
            return [message["seq"] for message in found["items"]]

        first = await page("?limit=2")
        assert seqs(first) == [1, 2]
        assert seqs(await page(f"?limit=10&after={first['next']}")) == [3, 4, 5, 6]
        last = await page("?limit=2&before=end")
        assert seqs(last) == [5, 6]
        assert seqs(await page(f"?limit=10&before={last['next']}")) == [1, 2, 3, 4]
        assert (await server.http.get(f"{target}?after=1&before=2")).status == 400


async def test_changes_exports_files_search_and_statistics_can_be_read(home: Path) -> None:
    writing = calls(Call("write", {"path": "new.txt", "content": "one\n"}))
    async with run_server(home, answering(writing, Answer(pieces=(Say("done"),)))) as server:
        session_id = await server.session(title="Work")
        await server.ended((await server.prompt(session_id, "write", mode="auto"))["run"]["id"])
        (change,) = (await server.http.get(f"/v1/sessions/{session_id}/changes")).ok()["items"]
        assert (change["path"], change["change"], change["state"]) == ("new.txt", "created", "applied")
        exported = (await server.http.get(f"/v1/sessions/{session_id}/export")).ok()
        assert exported["session"]["id"] == session_id
        assert len(exported["runs"]) == 1
        markdown = await server.http.get(f"/v1/sessions/{session_id}/export?format=markdown")
        assert markdown.headers["content-type"] == "text/markdown; charset=utf-8"
        assert markdown.body.startswith(b"# Work\n")
        found = (await server.http.get(f"/v1/workspaces/{server.workspace_id}/files?q=new")).ok()
        assert found == {"items": ["new.txt"]}
        hits = (await server.http.get("/v1/search?q=write")).ok()["items"]
        assert [hit["session_id"] for hit in hits] == [session_id]
        stats = (await server.http.get("/v1/stats")).ok()
        assert stats["models"][0]["model"] == "test/test-model"
        assert [row["tool"] for row in stats["tools"]] == ["write"]


async def test_the_whole_output_of_a_call_is_read_whole_or_in_part(home: Path) -> None:
    async with run_server(home) as server:
        session_id = await server.session()
        path = home / "output.txt"
        whole = "".join(f"{number}\n" for number in range(100_000)).encode()
        path.write_bytes(whole)
        output = CallOutput("call_1", session_id, str(path), size=len(whole))
        await server.app.store.commit(Batch((PutCallOutput(output),)))
        for wanted, status, span in (
            (None, 200, slice(None)),
            ("bytes=0-3", 206, slice(0, 4)),
            ("bytes=100-", 206, slice(100, None)),
            ("bytes=-5", 206, slice(-5, None)),
            ("bytes=0-0,5-9", 200, slice(None)),
            ("bytes=99999999-", 200, slice(None)),
            ("nonsense", 200, slice(None)),
        ):
            answer = await server.http.get("/v1/calls/call_1/output", Range=wanted)
            assert (answer.status, answer.body) == (status, whole[span]), wanted
        unknown = await server.http.get("/v1/calls/call_unknown/output")
        assert (unknown.status, unknown.code) == (404, "call_not_found")
        path.unlink()
        gone = await server.http.get("/v1/calls/call_1/output")
        assert (gone.status, gone.code) == (404, "output_not_found")
