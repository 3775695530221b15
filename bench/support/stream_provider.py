"""A minimal provider in a process of its own, so that a benchmark counts only the CPU of the reader."""

from __future__ import annotations

import multiprocessing
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from holdfast.testing import Answer, WireName
from holdfast.testing.provider_wires import events

HEADERS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

TEXT_OF_EVENT: dict[WireName, Callable[[Any], str]] = {
    "openai-chat": lambda data: data["choices"][0]["delta"].get("content") if data["choices"] else "",
    "openai-responses": lambda data: data["delta"] if data["type"] == "response.output_text.delta" else "",
    "anthropic": lambda data: data["delta"].get("text", "") if data["type"] == "content_block_delta" else "",
    "gemini": lambda data: (
        data["candidates"][0]["content"]["parts"][0]["text"] if "content" in data["candidates"][0] else ""
    ),
}
"""The least code that gets the text out of an event of each wire."""


def encode_events(wire: WireName, answer: Answer) -> list[bytes]:
    """The events of an answer, each as an HTTP chunk."""
    found = [event for event in events(wire, answer, model="m") if isinstance(event, bytes)]
    return [b"%x\r\n%b\r\n" % (len(event), event) for event in found]


def read_request(connection: socket.socket) -> tuple[str, str, bytes]:
    """The first two parts of the path, which are the kind of stream and the wire, and the body."""
    request = b""
    while b"\r\n\r\n" not in request:
        request += connection.recv(65536)
    head, _, body = request.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(1 << 20)
    _, kind, wire, *_ = head.split(b" ")[1].decode().split("/")
    return kind, wire, body


@contextmanager
def provider_process(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """Answer each connection in another process. Yields the port."""
    near, far = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(far, answer), daemon=True)
    process.start()
    try:
        yield near.recv()
    finally:
        process.terminate()
        process.join()


def _serve(port: Connection, answer: Callable[[socket.socket], None]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port.send(listening.getsockname()[1])
        while True:
            connection, _ = listening.accept()
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                answer(connection)
