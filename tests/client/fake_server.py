"""A replacement for ``holdfast serve``: ``fake_server.py SOCKET NOTES [MODE]``.

Each start appends a line to NOTES. Modes: ``ok``; ``broken`` fails before it listens; ``mute`` never listens.
"""

import fcntl
import json
import os
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

ALREADY_RUNNING = 75


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    version = "0.1.0"
    build = "b1"
    busy = False

    def do_GET(self) -> None:
        self._say(200, {"status": "ok", "version": self.version, "build": self.build})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.busy:
            self._say(409, {"error": {"code": "server_busy", "message": "busy"}})
        else:
            self._say(202, {"stopping": True})
            threading.Thread(target=self.server.shutdown).start()

    def _say(self, status: int, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *args: object) -> None:
        pass


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 64


def main() -> int:
    socket, notes = Path(sys.argv[1]), Path(sys.argv[2])
    mode = sys.argv[3] if len(sys.argv) > 3 else "ok"
    with notes.open("a") as file:
        file.write(f"{os.getpid()} {os.getcwd()}\n")
    if mode == "broken":
        sys.stderr.write("config.toml:3: unknown key 'modles'; did you mean 'models'?\n")
        return 3
    lock = os.open(f"{socket}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return ALREADY_RUNNING
    while mode == "mute":
        if not socket.parent.exists():
            return 1  # the test ended before it knew of this process
        time.sleep(0.01)
    Handler.version = os.environ.get("FAKE_VERSION", "0.1.0")
    Handler.build = os.environ.get("FAKE_BUILD", "b1")
    Handler.busy = "FAKE_BUSY" in os.environ
    socket.unlink(missing_ok=True)
    with Server(str(socket), Handler) as server:
        server.serve_forever(poll_interval=0.01)
    socket.unlink()
    if "FAKE_LINGER" in os.environ:  # its lock outlives its socket
        time.sleep(0.3)
    return 0


sys.exit(main())
