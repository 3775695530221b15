"""`web_search` with each service, played by a server on loopback."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from holdfast.config import Keyring, Secret, SecretStore
from holdfast.errors import ToolError
from holdfast.tools.protocol import ToolContext, ToolOutput
from holdfast.tools.web_search import WebSearchTool, search_key_finder
from tests.support.raw_web_server import RawWebServer, page
from tests.support.tool_contexts import ToolWorkspace, settings_of

ROWS = [
    {"title": "<b>One</b>", "url": "https://one.test/", "description": "The <strong>first</strong> &amp; best"},
    {"title": "Two", "url": "https://two.test/", "content": "x" * 1_000},
    {"title": "broken"},
    "nonsense",
]


@pytest_asyncio.fixture
async def server() -> AsyncIterator[RawWebServer]:
    async with RawWebServer({}).running() as running:
        yield running


def context_for(
    tmp_path: Path, server: RawWebServer, provider: str, *, key: str | None = "search-key-1"
) -> ToolContext:
    async def find() -> Secret | None:
        return Secret(key) if key else None

    settings = settings_of(web_search={"provider": provider, "url": f"http://127.0.0.1:{server.port}"})
    return ToolWorkspace(tmp_path).context(settings=settings, search_key=find)


async def call(context: ToolContext, query: str = "what is it?", **more: Any) -> ToolOutput:
    tool = WebSearchTool()
    struct = msgspec.convert({"query": query, **more}, tool.arguments)
    return await tool.run(struct, context, await tool.plan(struct, context))


@pytest.mark.parametrize(
    ("provider", "path", "answer"),
    [
        ("brave", "/res/v1/web/search", {"web": {"results": ROWS}}),
        ("tavily", "/search", {"results": ROWS}),
        ("searxng", "/search", {"results": ROWS}),
    ],
)
async def test_results_are_titles_addresses_and_excerpts(
    server: RawWebServer, tmp_path: Path, provider: str, path: str, answer: dict[str, Any]
) -> None:
    server.answers[path] = page(json.dumps(answer), kind="application/json")
    output = await call(context_for(tmp_path, server, provider))
    one, two = output.text.split("\n\n")
    assert one == "1. One\n   https://one.test/\n   The first & best"
    assert two.startswith("2. Two\n   https://two.test/\n   xxx")
    assert two.endswith("x…")
    [asked] = server.requests
    sent = asked.path + asked.body.decode()
    assert "what" in sent
    assert "search-key-1" in str(asked.headers)
    assert "search-key-1" not in output.text + sent


async def test_only_as_many_as_asked_for(server: RawWebServer, tmp_path: Path) -> None:
    server.answers["/search"] = page(json.dumps({"results": ROWS}), kind="application/json")
    assert (await call(context_for(tmp_path, server, "searxng"), count=1)).text.count("https://") == 1


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (page("denied", status="401 Unauthorized"), r"brave rejected the key \(401\)"),
        (page("secret details", status="429 Too Many Requests"), "brave responded with 429 Too Many Requests"),
        (page("<html>", kind="text/html"), "not JSON"),
        (page(b"\xff\xfe", kind="application/json"), "not JSON"),
    ],
)
async def test_a_failure_is_reported_without_the_response_body(
    server: RawWebServer, tmp_path: Path, answer: bytes, problem: str
) -> None:
    server.answers["/res/v1/web/search"] = answer
    with pytest.raises(ToolError, match=problem) as caught:
        await call(context_for(tmp_path, server, "brave"))
    assert "details" not in caught.value.message


@pytest.mark.parametrize("answer", ["[]", "{}", '{"web": []}', '{"web": {"results": null}}', '"x"'])
async def test_an_answer_of_another_shape_is_no_results(server: RawWebServer, tmp_path: Path, answer: str) -> None:
    server.answers["/res/v1/web/search"] = page(answer, kind="application/json")
    assert (await call(context_for(tmp_path, server, "brave"))).text == "no results"


async def test_without_a_provider_the_error_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"web search is not configured; the user can set web_search\.provider"):
        await call(ToolWorkspace(tmp_path).context())


async def test_without_a_key_the_error_says_what_to_set(server: RawWebServer, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"web_search\.api_key or TAVILY_API_KEY"):
        await call(context_for(tmp_path, server, "tavily", key=None))
    assert server.requests == []


async def test_a_keyring_finds_the_key_where_it_is(tmp_path: Path) -> None:
    settings = settings_of(web_search={"provider": "brave"})
    env = {"BRAVE_API_KEY": "from-the-environment"}
    keyring = Keyring(SecretStore(tmp_path / "keys"), env=env)
    found = await search_key_finder(keyring, settings, env=env)()
    assert found == Secret("from-the-environment")
    assert await search_key_finder(keyring, settings, env={})() is None
