"""`fetch` and `download` through their own door, against a server on loopback that the settings allow."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from holdfast.errors import ToolError
from holdfast.tools.download import DownloadTool
from holdfast.tools.fetch import MAX_BODY_BYTES, FetchTool
from holdfast.tools.long_output import ANSWER_LIMIT
from holdfast.tools.protocol import ToolContext, ToolOutput
from tests.support.file_sessions import FileWorkspace
from tests.support.raw_web_server import RawWebServer, page, redirect
from tests.support.tool_contexts import ToolWorkspace, settings_of

LOCAL = settings_of(tools={"fetch_private": True})


@pytest_asyncio.fixture
async def server() -> AsyncIterator[RawWebServer]:
    async with RawWebServer({}).running() as running:
        yield running


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return ToolWorkspace(tmp_path).context(settings=LOCAL)


async def call(tool: Any, context: ToolContext, **arguments: Any) -> ToolOutput:
    struct = msgspec.convert(arguments, tool.arguments)
    return await tool.run(struct, context, await tool.plan(struct, context))


def in_box(workspace: FileWorkspace) -> ToolContext:
    return msgspec.structs.replace(workspace.session().context(), settings=LOCAL)


def url_of(server: RawWebServer, path: str = "/") -> str:
    return f"http://127.0.0.1:{server.port}{path}"


@pytest.mark.parametrize(
    ("wanted", "text"),
    [("markdown", "# Hello\n\n**World**"), ("text", "Hello\n\nWorld"), ("html", "<h1>Hello</h1><p><b>World</b>")],
)
async def test_html_is_converted_to_the_requested_format(
    server: RawWebServer, context: ToolContext, wanted: str, text: str
) -> None:
    server.answers["/"] = page("<h1>Hello</h1><p><b>World</b>")
    output = await call(FetchTool(), context, url=url_of(server), format=wanted)
    assert output.text == f"[{url_of(server)}]\n\n{text}"


async def test_other_text_stays_as_it_is(server: RawWebServer, context: ToolContext) -> None:
    server.answers["/"] = page('{"a": "<b>"}', kind="application/json")
    assert (await call(FetchTool(), context, url=url_of(server))).text.endswith('\n\n{"a": "<b>"}')


async def test_the_result_has_the_url_after_redirects(server: RawWebServer, context: ToolContext) -> None:
    server.answers |= {"/": redirect("/there"), "/there": page("here", kind="text/plain")}
    assert (await call(FetchTool(), context, url=url_of(server))).text == f"[{url_of(server, '/there')}]\n\nhere"


async def test_a_long_page_is_cut_and_whole_in_a_file(server: RawWebServer, context: ToolContext) -> None:
    text = "".join(f"line {number}\n" for number in range(20_000))
    server.answers["/"] = page(text, kind="text/plain")
    output = await call(FetchTool(), context, url=url_of(server))
    path = context.outputs / f"{context.call_id}.txt"
    assert path.read_text() == text
    assert f"[the first 30,000 of {len(text):,} characters; the whole text is in {path}]" in output.text
    assert len(output.text) < ANSWER_LIMIT + 300


async def test_an_endless_page_is_read_up_to_a_limit(server: RawWebServer, context: ToolContext) -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n")
        while True:
            writer.write("€uro ".encode() * 10_000)
            await writer.drain()

    server.answers["/"] = endless
    output = await call(FetchTool(), context, url=url_of(server))
    assert f"[only the first {MAX_BODY_BYTES >> 20} MiB were read]" in output.text
    assert "\ufffd" not in (context.outputs / f"{context.call_id}.txt").read_text()


@pytest.mark.parametrize("kind", ["image/png", "application/octet-stream", "application/pdf", "text/plain"])
async def test_content_that_is_not_text_raises_an_error(server: RawWebServer, context: ToolContext, kind: str) -> None:
    server.answers["/"] = page(b"\x89PNG\0\0\0\1", kind=kind)
    with pytest.raises(ToolError, match=r"is not text .*use download"):
        await call(FetchTool(), context, url=url_of(server))


async def test_an_http_error_is_reported_without_its_page(server: RawWebServer, context: ToolContext) -> None:
    with pytest.raises(ToolError, match=r"http://.*/gone responded with 404 Not Found$"):
        await call(FetchTool(), context, url=url_of(server, "/gone"))


async def test_private_addresses_need_the_setting(server: RawWebServer, tmp_path: Path) -> None:
    context = ToolWorkspace(tmp_path / "other").context()
    for tool in (FetchTool(), DownloadTool()):
        with pytest.raises(ToolError, match=r"not a public address.*tools\.fetch_private"):
            await call(tool, context, url=url_of(server), **({"path": "x"} if tool.name == "download" else {}))
    assert server.requests == []


async def test_the_subject_is_the_exact_address(context: ToolContext) -> None:
    plan = await FetchTool().plan(msgspec.convert({"url": "http://a.test/?q=1"}, FetchTool.arguments), context)
    assert (plan.subject.url, plan.subject.title, plan.subject.effect) == ("http://a.test/?q=1",) * 2 + ("network",)


async def test_a_secret_in_a_page_is_redacted(server: RawWebServer, tmp_path: Path) -> None:
    server.answers["/"] = page("the key is tok-12345678.", kind="text/plain")
    context = ToolWorkspace(tmp_path).context(
        settings=LOCAL, redact=lambda text: text.replace("tok-12345678", "[redacted]")
    )
    assert (await call(FetchTool(), context, url=url_of(server))).text.endswith("the key is [redacted].")


async def test_a_download_is_the_bytes_that_were_sent_and_can_be_undone(server: RawWebServer, tmp_path: Path) -> None:
    workspace = FileWorkspace(tmp_path)
    context = in_box(workspace)
    server.answers["/"] = page(bytes(range(256)), kind="application/octet-stream")
    output = await call(DownloadTool(), context, url=url_of(server), path="sub/file.bin")
    assert (workspace.directory / "sub/file.bin").read_bytes() == bytes(range(256))
    assert output.text == f"saved 256 bytes from {url_of(server)} as sub/file.bin"
    assert [event.path for event in workspace.records.events if event.change == "created"] == [
        str(workspace.directory / "sub/file.bin")
    ]


async def test_the_subject_of_a_download_is_its_file_and_its_address(tmp_path: Path) -> None:
    context = in_box(FileWorkspace(tmp_path))
    arguments = msgspec.convert({"url": "http://a.test/x", "path": "../y"}, DownloadTool.arguments)
    plan = await DownloadTool().plan(arguments, context)
    assert plan.subject.paths == (str(context.workspace.parent / "y"),)
    assert (plan.subject.url, plan.subject.effect) == ("http://a.test/x", "writes")
    assert not (context.workspace.parent / "y").exists()


async def test_a_download_never_replaces_a_file(server: RawWebServer, tmp_path: Path) -> None:
    workspace = FileWorkspace(tmp_path)
    workspace.put("mine", "precious")
    context = in_box(workspace)
    with pytest.raises(ToolError, match="'mine' already exists"):
        await call(DownloadTool(), context, url=url_of(server), path="mine")
    server.answers["/"] = page("theirs", kind="text/plain")
    arguments = msgspec.convert({"url": url_of(server), "path": "new"}, DownloadTool.arguments)
    plan = await DownloadTool().plan(arguments, context)
    workspace.put("new", "the user was faster")
    with pytest.raises(ToolError, match="changed after this call was planned"):
        await DownloadTool().run(arguments, context, plan)
    assert workspace.tree() == {"mine": b"precious", "new": b"the user was faster"}


async def test_a_download_that_is_too_large_leaves_nothing(server: RawWebServer, tmp_path: Path) -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(bytes(1 << 20))
            await writer.drain()

    server.answers["/"] = endless
    workspace = FileWorkspace(tmp_path)
    with pytest.raises(ToolError, match="larger than the limit of 16 MiB; nothing was written"):
        await call(DownloadTool(), in_box(workspace), url=url_of(server), path="big")
    assert workspace.tree() == {}


async def test_a_redirect_that_the_rules_do_not_allow_is_not_followed(server: RawWebServer, tmp_path: Path) -> None:
    server.answers["/"] = redirect("/other")
    server.answers["/other"] = page("<p>secret</p>")
    asked: list[tuple[str, str]] = []

    async def permits(tool: str, url: str) -> bool:
        asked.append((tool, url))
        return False

    context = ToolWorkspace(tmp_path).context(settings=LOCAL, permits_url=permits)
    with pytest.raises(ToolError, match=r"redirects to .*/other, which needs approval; request that URL itself"):
        await call(FetchTool(), context, url=url_of(server))
    assert asked == [("fetch", url_of(server).rstrip("/") + "/other")]
