"""A small server in a thread that sends exactly the bytes of the test, and closes connections where the test says."""

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import msgspec

from holdfast.client.server_address import ServerAddress
from holdfast.schema.base import encode


class Request(msgspec.Struct, frozen=True):
    connection: int
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Cut:
    """In place of bytes: close the connection here."""


class Wait:
    """In place of bytes: send nothing until the event is set."""

    def __init__(self, event: threading.Event) -> None:
        self.event = event


Piece: TypeAlias = bytes | Cut | Wait
Respond: TypeAlias = Callable[[Request], Iterable[Piece]]


def answer(value: object, *, status: int = 200, headers: str = "") -> list[Piece]:
    body = value if isinstance(value, bytes) else encode(value)
    return [f"HTTP/1.1 {status} Said\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body]


def error(status: int, code: str, message: str = "no", **detail: object) -> list[Piece]:
    return answer({"error": {"code": code, "message": message, "detail": detail}}, status=status)


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
STREAM_END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def frame(event: object, cursor: str | None = None) -> bytes:
    body = encode(event)
    kind = msgspec.json.decode(body)["kind"]
    head = f"event: {kind}\n" + ("" if cursor is None else f"id: {cursor}\n")
    return head.encode() + b"data: " + body + b"\n\n"


class StubServer:
    """``with StubServer(respond) as stub: SyncClient(stub.address)``"""

    def __init__(self, respond: Respond, *, path: Path | None = None, reads_bodies: bool = True) -> None:
        self._respond = respond
        self._reads_bodies = reads_bodies
        self.requests: list[Request] = []
        self.address: ServerAddress
        self._listener = socket.socket(socket.AF_UNIX if path else socket.AF_INET, socket.SOCK_STREAM)
        if path:
            self._listener.bind(str(path))
            self.address = ServerAddress(path=str(path))
        else:
            self._listener.bind(("127.0.0.1", 0))
            self.address = ServerAddress(host="127.0.0.1", port=self._listener.getsockname()[1])
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.connections = 0

    def __enter__(self) -> Self:
        self._listener.listen()
        self._thread = threading.Thread(target=self._accept, name="stub")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for connection in self._open:
            _end(connection)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection, self.connections), name="stub:connection")
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection, connection.makefile("rb") as incoming:
            try:
                while request := _read(incoming, number, body=self._reads_bodies):
                    self.requests.append(request)
                    if not self._send(connection, self._respond(request)):
                        return
            except OSError:
                pass  # the client left

    def _send(self, connection: socket.socket, pieces: Iterable[Piece]) -> bool:
        for piece in pieces:
            match piece:
                case Cut():
                    _end(connection)
                    return False
                case Wait():
                    piece.event.wait(30)
                case _:
                    connection.sendall(piece)
        return True


def _end(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it is closed already


def _read(incoming: Any, number: int, *, body: bool) -> Request | None:
    line = incoming.readline().decode("latin-1").split()
    if len(line) != 3:
        return None
    headers: dict[str, str] = {}
    while (text := incoming.readline().decode("latin-1").strip()) != "":
        name, _, value = text.partition(":")
        headers[name.lower()] = value.strip()
    content = incoming.read(int(headers.get("content-length", "0"))) if body else b""
    return Request(number, line[0], line[1], headers, content)


def one_after_another(*answers: Iterable[Piece]) -> Respond:
    """The n-th request gets the n-th answer."""
    left: Iterator[Iterable[Piece]] = iter(answers)
    return lambda request: next(left)
