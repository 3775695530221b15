"""docs/protocol.md is true: its table is the interface's, its codes exist, its examples are executed."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from holdfast import errors
from holdfast.schema.api.request_bodies import EmptyBody
from holdfast.schema.events import KnownDurable, KnownLive
from holdfast.server.application import ENDPOINTS
from holdfast.server.http.endpoint import Endpoint
from holdfast.testing import Answer, Call, Hang, ReceivedRequest, Say, TestProvider, calls, text
from tests.support.http_client import HttpClient
from tests.support.running_server import run_server

DOC = Path(__file__).parents[2] / "docs" / "protocol.md"
TEXT = DOC.read_text()
DIRECTORY = "/home/me/project"

_ID = re.compile(r"\b(?:wsp|ses|run|msg|apr|qst|job|call)_\d+\b")
_BLOCK = re.compile(r"^```(http|sse)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def row(endpoint: Endpoint) -> str:
    """The line of the table that an endpoint has."""
    given = [f"`?{field.name}`" for field in msgspec.structs.fields(endpoint.query)]
    if endpoint.body not in (None, EmptyBody):
        given += [
            f"`{field.name}`" + ("" if field.required else "?") for field in msgspec.structs.fields(endpoint.body)
        ]
    answer = str(getattr(endpoint.response, "__name__", "object"))
    if arguments := getattr(endpoint.response, "__args__", ()):
        answer = f"{answer} of {arguments[0].__name__}" if answer == "PageView" else "object"
    if endpoint.media_type != "application/json":
        answer = f"`{endpoint.media_type}`"
    statuses = "/".join(str(status) for status in (endpoint.status, *endpoint.other_responses))
    return f"| `{endpoint.method} {endpoint.path}` | {endpoint.summary} | {', '.join(given)} | {statuses} {answer} |"


def test_the_table_names_every_route_with_what_it_takes_and_answers() -> None:
    rows = [line for line in TEXT.splitlines() if re.match(r"\| `(GET|POST|PUT|PATCH|DELETE) /(v1|metrics)", line)]
    expected = [row(endpoint) for endpoint in ENDPOINTS]
    assert sorted(rows) == sorted(expected)


def test_every_kind_of_event_is_named() -> None:
    kinds = {kind.__struct_config__.tag for kind in (*get_args(KnownDurable), *get_args(KnownLive))}
    section = TEXT.partition("## The stream")[2]
    named = {
        kind
        for line in section.splitlines()
        if line.startswith("| `")
        for kind in re.findall(r"`([a-z.]+)`", line.split("|")[1])
    }
    assert named == kinds


def test_every_code_of_the_table_has_its_status() -> None:
    section = TEXT.partition("## Errors")[2].partition("\n## ")[0]
    told = {
        code: int(status)
        for status, codes in re.findall(r"^\| (\d{3}) \| (.*?) \|", section, re.MULTILINE)
        for code in re.findall(r"`([a-z_]+)`", codes)
    }
    leaves = {leaf.code: leaf.status for leaf in _leaves(errors.CallerError, errors.ServerError)}
    for code, status in leaves.items():
        assert told[code] == status, code
    assert told["store_locked"] == errors.StoreLocked.status


def _leaves(*bases: type[errors.HoldfastError]) -> Iterator[type[errors.HoldfastError]]:
    for base in bases:
        if below := base.__subclasses__():
            yield from _leaves(*below)
        else:
            yield base


class Reader:
    """Executes the document's examples in their order. Ids like ``ses_1`` become what the server gave."""

    def __init__(self, http: HttpClient, directory: str) -> None:
        self._http = http
        self._known: dict[str, str] = {DIRECTORY: directory}
        self._cursor = ""
        self._answered: Any = None
        self._stream: str | None = None

    async def take(self, kind: str, text: str) -> None:
        text = text.replace(DIRECTORY, self._known[DIRECTORY])
        if kind == "sse":
            await self._read_stream(text)
        elif re.match(r"[A-Z]+ /", text):
            await self._request(text)
        else:
            status, _, body = text.partition("\n")
            answer = self._answered
            assert answer.status == int(status.split()[0]), answer.body
            self._match(json.loads(body), answer.json())

    async def _request(self, text: str) -> None:
        head, _, body = text.partition("\n\n") if "\n\n" in text else (text.strip(), "", "")
        line, *given = _ID.sub(lambda found: self._known.get(found[0], found[0]), head).strip().split("\n")
        method, target = line.split(" ", 1)
        target = target.replace("CURSOR", self._cursor)
        headers = dict(header.split(": ", 1) for header in given)
        if "/events" in target:
            self._stream = target
            return
        sent = _ID.sub(lambda found: self._known.get(found[0], found[0]), body).encode() or None
        self._answered = await self._http.send(method, target, body=sent, **headers)

    async def _read_stream(self, text: str) -> None:
        assert self._stream is not None
        wanted = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]
        async with self._http.stream(self._stream) as stream:
            for expected in wanted:
                while (found := await stream.data())["kind"] != expected["kind"]:
                    pass
                self._match(expected, found)

    def _match(self, expected: Any, found: Any, place: str = "$") -> None:
        match expected:
            case "…":
                return
            case dict():
                for name, value in expected.items():
                    assert name in found, f"{place}.{name} is not in {found}"
                    self._match(value, found[name], f"{place}.{name}")
                self._cursor = found.get("cursor", self._cursor)
            case list():
                assert len(expected) == len(found), (place, found)
                for number, value in enumerate(expected):
                    self._match(value, found[number], f"{place}[{number}]")
            case str() if _ID.fullmatch(expected):
                assert self._known.setdefault(expected, found) == found, place
            case str() if "…" in expected:
                pattern = ".*".join(re.escape(piece) for piece in expected.split("…"))
                assert re.fullmatch(pattern, found, re.DOTALL), (place, found)
            case _:
                assert expected == found, (place, found)


@pytest.mark.promise("R2", "R3", "C3", "E2", "W4", "W9")
async def test_every_example_is_true(home: Path) -> None:
    answers = {
        "Say hello": Answer(pieces=(Say("Hello to you."),)),
        "Take your time": Answer(pieces=(Say("I begin"), Hang())),
        "Make the file": calls(Call("bash", {"command": "touch made"})),
    }

    def respond(received: ReceivedRequest) -> Answer:
        """By prompt, not in order: a run that is cancelled at once may never ask the model."""
        last = str(received.body["messages"][-1])
        return next((answer for prompt, answer in answers.items() if prompt in last), text("Fine."))

    blocks = _BLOCK.findall(TEXT)
    assert len(blocks) > 20
    async with run_server(home, TestProvider(respond)) as server:
        reader = Reader(server.http, str(server.work))
        for kind, example in blocks:
            await reader.take(kind, example)
