"""`web_search`: search the web with the configured service."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, ClassVar, NamedTuple
from urllib.parse import urlencode

import msgspec
from msgspec import Meta

from holdfast.config import Keyring, Secret, Settings, search_key
from holdfast.config.provider_catalogue import SEARCH_VARIABLES
from holdfast.errors import HoldfastError, ToolError
from holdfast.schema.approvals import Effect, Subject
from holdfast.schema.base import repair_text
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan
from holdfast.tools.web.page_text import html_to_text
from holdfast.tools.web.web_requests import WebClient

SECONDS = 20.0
_MAX_RESPONSE_BYTES = 2 << 20
_MAX_EXCERPT_CHARS = 500

NOT_CONFIGURED = (
    "web search is not configured; the user can set web_search.provider to 'brave', 'tavily' or 'searxng',"
    " with web_search.api_key or web_search.url"
)


class WebSearchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(min_length=1, max_length=400)]
    count: Annotated[int, Meta(description="Maximum number of results.", ge=1, le=20)] = 8


class SearchResult(NamedTuple):
    title: str
    url: str
    text: str


class _SearchRequest(NamedTuple):
    """One request to a search service."""

    method: str
    url: str
    headers: Mapping[str, str] = {}
    body: bytes | None = None


class WebSearchTool:
    """`web` makes the client; tests pass their own."""

    name: ClassVar[str] = "web_search"
    description: ClassVar[str] = "Search the web. Returns titles, URLs and excerpts; read a page with fetch."
    arguments: ClassVar[type[Any]] = WebSearchArguments
    effect: ClassVar[Effect] = "network"
    parallel: ClassVar[bool] = True

    def __init__(self, *, web: Callable[..., WebClient] = WebClient) -> None:
        self._web = web

    async def plan(self, arguments: WebSearchArguments, context: ToolContext) -> ToolPlan:
        if context.settings.web_search.provider == "none":
            raise ToolError(NOT_CONFIGURED)
        return ToolPlan(Subject(tool=self.name, effect="network", title=context.redact(arguments.query)))

    async def run(self, arguments: WebSearchArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        search = context.settings.web_search
        key = await _key(context)
        request = _search_request(context.settings, arguments, key)
        # A configured service may have a private address; the built-in ones must be public.
        web = self._web(context.settings, private=True if search.url else None)
        async with web.request(
            request.url, seconds=SECONDS, method=request.method, headers=request.headers, body=request.body
        ) as response:
            if response.status in (401, 403):
                raise ToolError(f"{search.provider} rejected the key ({response.status}); the user must check it")
            if response.status >= 400:
                raise ToolError(
                    f"{search.provider} responded with {response.status} {response.reason}; try again later"
                )
            body, _ = await response.read(_MAX_RESPONSE_BYTES)
        results = (await asyncio.to_thread(_results, search.provider, body))[: arguments.count]
        text = "\n\n".join(_format_result(number, result) for number, result in enumerate(results, 1))
        return ToolOutput(context.redact(repair_text(text or "no results")), display={"results": len(results)})


def search_key_finder(
    keyring: Keyring, settings: Settings, *, env: Mapping[str, str]
) -> Callable[[], Awaitable[Secret | None]]:
    """Return the `search_key` function of a tool context."""

    async def find() -> Secret | None:
        source = search_key(settings, env=env, stored=await keyring.stored_names())
        return await keyring.resolve(source) if source else None

    return find


async def _key(context: ToolContext) -> str:
    provider = context.settings.web_search.provider
    try:
        key = await context.search_key()
    except HoldfastError as error:
        raise ToolError(f"web search has no key: {error.message}") from None
    if key is None and (variables := SEARCH_VARIABLES[provider]):
        raise ToolError(f"web search has no key; the user can set web_search.api_key or {variables[0]}")
    return key.reveal() if key else ""


def _search_request(settings: Settings, arguments: WebSearchArguments, key: str) -> _SearchRequest:
    search = settings.web_search
    match search.provider:
        case "brave":
            base = search.url or "https://api.search.brave.com"
            query = urlencode({"q": arguments.query, "count": arguments.count})
            headers = {"X-Subscription-Token": key, "Accept": "application/json"}
            return _SearchRequest("GET", f"{base}/res/v1/web/search?{query}", headers)
        case "tavily":
            base = search.url or "https://api.tavily.com"
            body = msgspec.json.encode({"query": arguments.query, "max_results": arguments.count})
            headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
            return _SearchRequest("POST", f"{base}/search", headers, body)
        case "searxng":
            if not search.url:
                raise ToolError("web search with 'searxng' needs a URL; the user can set web_search.url")
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            query = urlencode({"q": arguments.query, "format": "json"})
            return _SearchRequest("GET", f"{search.url}/search?{query}", headers)
        case "none":
            raise ToolError(NOT_CONFIGURED)


def _results(provider: str, body: bytes) -> list[SearchResult]:
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ToolError(f"{provider} sent a response that is not JSON") from None
    if provider == "brave":
        found = found.get("web") if isinstance(found, dict) else None
    rows = found.get("results") if isinstance(found, dict) else None
    results = []
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and isinstance(row.get("url"), str):
            text = row.get("description") or row.get("content") or ""
            results.append(SearchResult(html_to_text(str(row.get("title") or "")), row["url"], html_to_text(str(text))))
    return results


def _format_result(number: int, result: SearchResult) -> str:
    text = " ".join(result.text.split())
    cut = text if len(text) <= _MAX_EXCERPT_CHARS else f"{text[:_MAX_EXCERPT_CHARS]}…"
    return f"{number}. {result.title or '(no title)'}\n   {result.url}\n   {cut}".rstrip()
