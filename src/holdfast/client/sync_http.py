"""HTTP/1.1 on plain sockets (Unix or TCP), with only the features that the command line needs.

A connection stays open between requests. Any failure during an exchange closes it, so that a response is never read as
the response to another request.
"""

from __future__ import annotations

import _socket as socket  # `socket` adds enumerations of all its constants, which take longer than a request
import sys
import time
from collections.abc import Iterator, Mapping

from holdfast.client.server_address import ServerAddress
from holdfast.errors import ClientError, NoAnswer, NotHoldfast, Unreachable
from holdfast.schema.base import Value

CONNECT_SECONDS = 10.0
_LONGEST_HEAD = 64 * 1024
_CHUNK = 64 * 1024
_BACKLOG_POLL_SECONDS = 0.02


class ResponseHead(Value, frozen=True):
    """Status and headers of a response."""

    status: int
    headers: dict[str, str]
    """Names in lower case. Of repeated headers, the last one."""

    @property
    def length(self) -> int | None:
        """Bytes of the body; ``None`` if the server did not declare it."""
        text = self.headers.get("content-length")
        if text is None:
            return 0 if self.status in (204, 304) else None
        if not text.isascii() or not text.isdigit():
            raise NotHoldfast(f"the response has an invalid Content-Length: {text!r}")
        return int(text)

    @property
    def chunked(self) -> bool:
        return self.headers.get("transfer-encoding", "").lower() == "chunked"

    @property
    def keeps_alive(self) -> bool:
        return self.headers.get("connection", "").lower() != "close"


class Connection:
    """One connection to a server, for consecutive exchanges. The first exchange opens it."""

    def __init__(self, address: ServerAddress, *, headers: Mapping[str, str]) -> None:
        self._address = address
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._socket: socket.socket | None = None
        self._received = b""
        self._deadline = 0.0
        self.peer: int | None = None
        """The process at the other end of the last connection, where the platform reports it."""

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._received = b""

    def exchange(
        self, method: str, target: str, *, body: bytes | None, headers: Mapping[str, str], seconds: float
    ) -> tuple[ResponseHead, bytes]:
        """Send a request and read its whole response."""
        try:
            head = self.begin(method, target, body=body, headers=headers, seconds=seconds)
            received = list(self.chunks(head))
            if not head.keeps_alive or (head.length is None and not head.chunked):
                self.close()
            return head, b"".join(received)
        except BaseException:
            self.close()
            raise

    def begin(
        self, method: str, target: str, *, body: bytes | None, headers: Mapping[str, str], seconds: float
    ) -> ResponseHead:
        """Send a request and read the head of its response; `chunks` gives the body. After an error, call `close`."""
        self.set_timeout(seconds)
        if self._socket is None:
            self._connect()
        self._send(self._request(method, target, body, headers))
        while (head := self._read_head()).status < 200:  # an interim response; the final one follows
            pass
        return head

    def set_timeout(self, seconds: float) -> None:
        """Restart the time-out: bytes read from now on must arrive within this time."""
        self._deadline = time.monotonic() + seconds

    def chunks(self, head: ResponseHead) -> Iterator[bytes]:
        """The body, as it arrives."""
        if head.chunked:
            yield from self._decode_chunks()
        elif head.length is not None:
            left = head.length
            while left:
                data = self._read_some(left)
                left -= len(data)
                yield data
        else:
            while data := self._read_some(_CHUNK, until_close=True):
                yield data

    def _request(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        lines = f"{method} {target} HTTP/1.1\r\nHost: {self._address.authority}\r\n{self._headers}"
        lines += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        if body is None:
            length = "" if method == "GET" else "Content-Length: 0\r\n"
            return f"{lines}{length}\r\n".encode("latin-1")
        length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        return f"{lines}{length}\r\n".encode("latin-1") + body

    def _connect(self) -> None:
        address = self._address
        try:
            if address.path is not None:
                opened = self._connect_to_path(address.path)
            else:
                opened = self._connect_to_host(address.host, address.port)
        except TimeoutError:
            raise Unreachable(f"no connection to {address} within {CONNECT_SECONDS:g} s") from None
        except OSError as error:
            raise Unreachable(f"cannot connect to {address}: {error.strerror or error}") from None
        self._socket, self._received = opened, b""
        self.peer = None if address.path is None else peer_pid(opened)

    def _connect_to_host(self, host: str, port: int) -> socket.socket:
        from socket import create_connection

        opened = create_connection((host, port), timeout=CONNECT_SECONDS)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return opened

    def _connect_to_path(self, path: str) -> socket.socket:
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        opened.settimeout(CONNECT_SECONDS)
        try:
            while True:
                try:
                    opened.connect(path)
                except BlockingIOError as error:  # the listen backlog is full
                    if time.monotonic() >= self._deadline:
                        raise NoAnswer(f"the server at {self._address} accepts no connections") from error
                    time.sleep(_BACKLOG_POLL_SECONDS)
                else:
                    return opened
        except BaseException:
            opened.close()
            raise

    def _send(self, request: bytes) -> None:
        assert self._socket is not None
        try:
            self._socket.settimeout(self._remaining_seconds())
            self._socket.sendall(request)
        except OSError as error:
            # A server that refuses a body may respond before it has read all of it; read that response.
            if not isinstance(error, BrokenPipeError | ConnectionResetError):
                raise self._broken(error) from None

    def _read_head(self) -> ResponseHead:
        while (end := self._received.find(b"\r\n\r\n")) < 0:
            if len(self._received) > _LONGEST_HEAD:
                raise NotHoldfast(f"the process that listens at {self._address} does not speak HTTP")
            self._receive()
        raw, self._received = self._received[:end], self._received[end + 4 :]
        status_line, *lines = raw.decode("latin-1").split("\r\n")
        version, _, rest = status_line.partition(" ")
        status = rest[:3]
        if not version.startswith("HTTP/1.") or not (status.isascii() and status.isdigit()):
            raise NotHoldfast(f"the process that listens at {self._address} does not speak HTTP")
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        if version == "HTTP/1.0":
            headers.setdefault("connection", "close")
        return ResponseHead(int(status), headers)

    def _decode_chunks(self) -> Iterator[bytes]:
        while size := self._chunk_size():
            while size:
                data = self._read_some(min(size, _CHUNK))
                size -= len(data)
                yield data
            if self._read_line():
                raise NotHoldfast("the response has malformed chunks")
        while self._read_line():  # trailers are ignored
            pass

    def _chunk_size(self) -> int:
        line = self._read_line().partition(b";")[0].strip()
        try:
            return int(line, 16)
        except ValueError:
            raise NotHoldfast("the response has malformed chunks") from None

    def _read_line(self) -> bytes:
        while (end := self._received.find(b"\r\n")) < 0:
            if len(self._received) > _LONGEST_HEAD:
                raise NotHoldfast("the response has malformed chunks")
            self._receive()
        line, self._received = self._received[:end], self._received[end + 2 :]
        return line

    def _read_some(self, most: int, *, until_close: bool = False) -> bytes:
        """At least one byte. With ``until_close``, none at the end of the connection, which ends the body."""
        if not self._received:
            self._receive(until_close=until_close)
        data, self._received = self._received[:most], self._received[most:]
        return data

    def _receive(self, *, until_close: bool = False) -> None:
        assert self._socket is not None
        try:
            self._socket.settimeout(self._remaining_seconds())
            received = self._socket.recv(_CHUNK)
        except OSError as error:
            raise self._broken(error) from None
        if not received and not until_close:
            raise Unreachable(f"the server at {self._address} closed the connection")
        self._received += received

    def _remaining_seconds(self) -> float:
        return max(self._deadline - time.monotonic(), 0.001)

    def _broken(self, error: OSError) -> ClientError:
        if isinstance(error, TimeoutError):
            process = f" (process {self.peer})" if self.peer else ""
            message = f"the server at {self._address}{process} has not answered in time"
            return NoAnswer(message, detail={"pid": self.peer} if self.peer else None)
        return Unreachable(f"the connection to {self._address} broke: {error.strerror or error}")


def peer_pid(connected: socket.socket) -> int | None:
    """The process at the other end of a Unix socket, where the platform reports it."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    try:
        credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)  # pid, uid and gid
        return int.from_bytes(credentials[:4], sys.byteorder) or None
    except OSError:
        return None
