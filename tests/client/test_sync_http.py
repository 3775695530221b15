"""HTTP on plain sockets: all forms of bodies, kept connections, and invalid responses."""

import socket
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.client.server_address import ServerAddress
from holdfast.client.sync_http import Connection, ResponseHead
from holdfast.errors import ClientError, NoAnswer, NotHoldfast, Unreachable
from tests.client.stub_server import STREAM_END, Cut, Piece, Request, StubServer, Wait, answer, chunk, one_after_another

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def ask(
    connection: Connection, target: str = "/", *, body: bytes | None = None, seconds: float = 20.0
) -> tuple[ResponseHead, bytes]:
    method = "GET" if body is None else "POST"
    return connection.exchange(method, target, body=body, headers={"X-One": "1"}, seconds=seconds)


def test_a_request_has_the_expected_headers(home: Path) -> None:
    with StubServer(lambda request: answer(b"yes"), path=home / "s.sock") as stub:
        connection = Connection(stub.address, headers={"X-Holdfast-Client": "test"})
        head, body = ask(connection, "/v1/x?y=1", body=b'{"a":1}')
        connection.close()
    assert (head.status, body) == (200, b"yes")
    (request,) = stub.requests
    assert (request.method, request.target, request.body) == ("POST", "/v1/x?y=1", b'{"a":1}')
    assert request.headers == {
        "host": "localhost",
        "x-holdfast-client": "test",
        "x-one": "1",
        "content-type": "application/json",
        "content-length": "7",
    }


def test_a_connection_is_kept_for_the_next_request() -> None:
    with StubServer(
        one_after_another(answer(b"a"), [CHUNKED + chunk(b"b") + STREAM_END], answer(b"", status=204))
    ) as stub:
        connection = Connection(stub.address, headers={})
        assert [ask(connection)[1] for _ in range(3)] == [b"a", b"b", b""]
        connection.close()
    assert stub.connections == 1


@pytest.mark.parametrize(
    ("pieces", "body"),
    [
        ([b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the ", b"end", Cut()], b"until the end"),
        ([b"HTTP/1.1 200 OK\r\n\r\nuntil the ", b"end", Cut()], b"until the end"),
        ([b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nold"], b"old"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nnew"], b"new"),
    ],
)
def test_a_connection_that_ends_with_its_response_is_not_reused(pieces: list[Piece], body: bytes) -> None:
    with StubServer(one_after_another(pieces, answer(b"next"))) as stub:
        connection = Connection(stub.address, headers={})
        assert ask(connection)[1] == body
        assert not connection.is_open
        assert ask(connection)[1] == b"next"
        connection.close()
    assert stub.connections == 2


@settings(max_examples=25)
@given(parts=st.lists(st.binary(min_size=1, max_size=60), max_size=6), data=st.data())
def test_a_chunked_body_is_the_same_however_its_bytes_arrive(parts: list[bytes], data: st.DataObject) -> None:
    raw = CHUNKED + b"".join(chunk(part) for part in parts) + b"0;ext=1\r\nX-Trailer: 1\r\n\r\n"
    cuts = sorted(data.draw(st.sets(st.integers(1, len(raw) - 1), max_size=8)))
    pieces: list[Piece] = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    with StubServer(one_after_another(pieces, answer(b"next"))) as stub:
        connection = Connection(stub.address, headers={})
        assert ask(connection)[1] == b"".join(parts)
        assert ask(connection)[1] == b"next"
        connection.close()


def test_interim_responses_are_skipped() -> None:
    pieces: list[Piece] = [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n", *answer(b"yes")]
    with StubServer(lambda request: pieces) as stub:
        connection = Connection(stub.address, headers={})
        assert ask(connection)[1] == b"yes"
        connection.close()


@pytest.mark.parametrize(
    "pieces",
    [
        [b"SSH-2.0-OpenSSH\r\n\r\n"],
        [b"HTTP/1.1 abc\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"],
        [CHUNKED + b"zz\r\n"],
        [CHUNKED + b"1\r\nab\r\n"],
        [b"x" * 70_000],
        [CHUNKED + b"1" * 70_000],
    ],
)
def test_a_response_that_is_not_http_is_refused(pieces: list[Piece]) -> None:
    with StubServer(lambda request: pieces) as stub:
        connection = Connection(stub.address, headers={})
        with pytest.raises(NotHoldfast):
            ask(connection)
        assert not connection.is_open


@pytest.mark.parametrize("cut_at", [0, 5, 20, 42, 45])
def test_a_response_cut_anywhere_is_unreachable(cut_at: int) -> None:
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789"
    with StubServer(lambda request: [whole[:cut_at], Cut()]) as stub:
        connection = Connection(stub.address, headers={})
        with pytest.raises(Unreachable):
            ask(connection)
        assert not connection.is_open


def test_a_silent_server_raises_no_answer() -> None:
    go_on = threading.Event()
    with StubServer(lambda request: [Wait(go_on), *answer(b"late")]) as stub:
        connection = Connection(stub.address, headers={})
        with pytest.raises(NoAnswer, match="has not answered in time"):
            ask(connection, seconds=0.05)
        assert not connection.is_open
        go_on.set()


def test_an_interrupted_exchange_closes_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    with StubServer(lambda request: answer(b"yes")) as stub:
        connection = Connection(stub.address, headers={})

        def interrupted(head: ResponseHead) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(connection, "chunks", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ask(connection)
        assert not connection.is_open


def test_a_refused_connection_names_the_address(home: Path) -> None:
    with StubServer(lambda request: [], path=home / "s.sock") as stub:
        address = stub.address
    with pytest.raises(ClientError, match=r"cannot connect to unix:/.*s\.sock: Connection refused"):
        ask(Connection(address, headers={}))


def test_an_early_error_response_is_read(home: Path) -> None:
    def respond(request: Request) -> list[Piece]:
        return [*answer(b"too large", status=413, headers="Connection: close\r\n"), Cut()]

    with StubServer(respond, path=home / "s.sock", reads_bodies=False) as stub:
        connection = Connection(stub.address, headers={})
        head, body = ask(connection, body=b"x" * 5_000_000)
        assert (head.status, body) == (413, b"too large")


def test_a_full_listen_backlog_raises_no_answer() -> None:
    with tempfile.TemporaryDirectory(prefix="hfc-") as home, socket.socket(socket.AF_UNIX) as listener:
        path = str(Path(home) / "s")
        listener.bind(path)
        listener.listen(0)
        with socket.socket(socket.AF_UNIX) as first:
            first.connect(path)
            connection = Connection(ServerAddress(path=path), headers={})
            with pytest.raises(NoAnswer, match="accepts no connections"):
                connection.exchange("GET", "/v1/health", body=None, headers={}, seconds=0.05)
