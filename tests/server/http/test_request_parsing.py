"""Bodies and queries: exactly what is declared, or a refusal that says where."""

from collections.abc import MutableMapping
from datetime import date
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from holdfast.errors import BadRequest, TooLarge
from holdfast.schema.api.request_bodies import QueryParameters, RequestBody
from holdfast.server.http.request_parsing import (
    ClientDisconnected,
    QueryReader,
    decode_body,
    read_body,
    read_key,
    request_hash,
)


class Inner(RequestBody, frozen=True):
    size: Annotated[int, Meta(ge=1, le=9)] = 1


class Outer(RequestBody, frozen=True):
    name: str
    inner: Inner = Inner()
    free: Any = None


class Asked(QueryParameters, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=9)] = 5
    wait: Annotated[float, Meta(ge=0, le=9)] = 0.0
    q: str | None = None
    flag: bool = False
    state: tuple[str, ...] = ()
    day: date | None = None


OUTER = msgspec.json.Decoder(Outer)
ASKED = QueryReader(Asked)


def decode(body: bytes, content_type: bytes | None = b"application/json") -> Outer:
    return decode_body(body, OUTER, content_type=content_type)


@pytest.mark.promise("W9")
@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "name"),
        (b"{}", "name"),
        (b'{"name": 1}', "name"),
        (b'{"name": "a", "nmae": "b"}', "nmae"),
        (b'{"name": "a", "inner": {"size": 0}}', "inner.size"),
        (b'{"name": "a", "inner": {"sise": 1}}', "inner.sise"),
        (b'{"name": "\\ud800", "inner": {"size": 0}}', "inner.size"),
    ],
)
def test_a_refusal_names_the_field(body: bytes, field: str) -> None:
    with pytest.raises(BadRequest) as refused:
        decode(body)
    assert refused.value.detail == {"field": field}


@pytest.mark.parametrize(
    "body",
    [
        b"null",
        b"[]",
        b"{",
        b"\xff",
        b'"\xff"',
        b'{"name": "a"} x',
        b'{"name": NaN}',
        b'{"name": "\\ud800", "free": NaN}',
        b'{"name": "a", "free": ' + b"[" * 100_000,
        b'{"name": "\\ud800", "free": ' + b"[" * 100_000,
    ],
)
def test_a_body_that_is_not_a_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        decode(body)


def test_a_body_that_is_not_json_is_refused_and_an_empty_one_is_an_empty_object() -> None:
    with pytest.raises(BadRequest, match="text/plain"):
        decode(b'{"name": "a"}', b"text/plain")
    assert decode(b'{"name": "a"}', b"Application/JSON; charset=utf-8") == Outer(name="a")
    assert decode_body(b"", msgspec.json.Decoder(Inner), content_type=b"text/plain") == Inner()


@given(text=st.text(alphabet=st.characters(categories=["L", "Cs"]) | st.sampled_from("\ud83d\ude00\udc00")))
def test_half_surrogate_pairs_are_replaced_in_any_text(text: str) -> None:
    escaped = "".join(f"\\u{ord(char):04x}" if ord(char) < 0x10000 else char for char in text)
    found = decode(f'{{"name": "{escaped}", "free": [{{"{escaped}": "{escaped}"}}]}}'.encode())
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert found == Outer(name=whole, free=[{whole: whole}])


def test_a_number_without_a_fraction_is_an_integer() -> None:
    assert decode(b'{"name": "a", "inner": {"size": 2.0}}') == Outer(name="a", inner=Inner(size=2))
    with pytest.raises(BadRequest, match="size"):
        decode(b'{"name": "a", "inner": {"size": 2.5}}')


def test_a_query_is_read_by_its_types() -> None:
    assert ASKED.read(b"") == Asked()
    found = ASKED.read(b"limit=7&wait=1.5&q=a%20b%26&flag=true&state=x&state=y")
    assert found == Asked(limit=7, wait=1.5, q="a b&", flag=True, state=("x", "y"))


@pytest.mark.promise("W9")
@pytest.mark.parametrize(
    "query",
    [
        *(b"limit=0", b"limit=x", b"limit=", b"limit=1&limit=2", b"limt=1"),
        *(
            b"wait=nan",
            b"wait=inf",
            b"wait=-1",
            b"flag=2",
            b"q=%ff",
            b"novalue",
            b"day=null",
            b"day=2026-02-30",
            b"\xff=1",
        ),
        b"&".join(b"state=x" for _ in range(40)),
    ],
)
def test_an_invalid_query_is_refused(query: bytes) -> None:
    with pytest.raises(BadRequest):
        ASKED.read(query)


class Pieces:
    """A request's body as a server hands it over."""

    def __init__(self, *pieces: bytes, then: str = "end") -> None:
        self.messages: list[MutableMapping[str, Any]] = [
            {"type": "http.request", "body": piece, "more_body": True} for piece in pieces
        ]
        self.messages.append(
            {"type": "http.request", "body": b"", "more_body": False} if then == "end" else {"type": "http.disconnect"}
        )

    async def __call__(self) -> MutableMapping[str, Any]:
        return self.messages.pop(0)


async def test_a_body_larger_than_the_limit_is_refused() -> None:
    assert await read_body(Pieces(b"ab", b"cd"), length=None, limit=4) == b"abcd"
    with pytest.raises(TooLarge):
        await read_body(Pieces(b"ab", b"cde"), length=None, limit=4)
    endless = Pieces(*[b"abcd"] * 10)
    with pytest.raises(TooLarge):
        await read_body(endless, length=None, limit=4)
    assert len(endless.messages) > 5
    with pytest.raises(TooLarge):
        await read_body(Pieces(), length=b"9", limit=4)


async def test_a_disconnect_within_a_body_ends_the_request() -> None:
    with pytest.raises(ClientDisconnected):
        await read_body(Pieces(b"ab", then="left"), length=b"4", limit=4)


def test_requests_that_join_to_the_same_bytes_have_different_hashes() -> None:
    hashes = {
        request_hash("POST", "/a", b"", b"bc"),
        request_hash("POST", "/a", b"b", b"c"),
        request_hash("POST", "/ab", b"", b"c"),
        request_hash("PATCH", "/a", b"", b"bc"),
    }
    assert len(hashes) == 4


@pytest.mark.parametrize("key", [b"", b"a b", b"x" * 129, b"\xff", b"a\n"])
def test_an_invalid_idempotency_key_is_refused(key: bytes) -> None:
    with pytest.raises(BadRequest):
        read_key(key)
