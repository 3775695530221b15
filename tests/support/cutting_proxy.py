"""A proxy between a store and PostgreSQL that cuts its connections after a number of bytes, or refuses them."""

import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

_CUT_SECONDS = 120.0


class CuttingProxy:
    """Listens on a Unix socket. Set ``cut_after`` to a number of bytes, in both directions together."""

    def __init__(self, directory: Path, *, database: str) -> None:
        split = urlsplit(database)
        self._target = f"{parse_qs(split.query)['host'][0]}/.s.PGSQL.5432"
        self.address = f"{split.scheme}://{split.netloc}{split.path}?host={directory}"
        self.passed = 0
        """Bytes since it was last set to 0."""
        self.cut_after: int | None = None
        """Cut everything once so many bytes have passed; then None."""
        self.cuts = 0
        self.is_down = False
        """Whether new connections are closed at once."""
        self._was_cut = threading.Event()
        self.delay = 0.0
        """How long each piece of data takes, in seconds."""
        self._swallowed: set[tuple[socket.socket, socket.socket]] = set()
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(directory / ".s.PGSQL.5432"))
        self._listener.listen(64)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def arm(self, count: int) -> None:
        with self._lock:
            self.passed, self.cut_after = 0, count
            self._was_cut.clear()

    def wait_for_cut(self) -> None:
        """Wait until so many bytes have passed since it was armed. Blocks."""
        if not self._was_cut.wait(_CUT_SECONDS):
            raise AssertionError(f"only {self.passed} bytes in {_CUT_SECONDS} s; the cut is after {self.cut_after}")

    def cut_all(self) -> None:
        with self._lock:
            pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def swallow_all(self) -> None:
        """Pass nothing more on over the connections that there are, and keep them open, as a firewall does."""
        with self._lock:
            self._swallowed |= self._pairs

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        self.cut_all()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                if self.is_down:
                    raise ConnectionRefusedError
                server.connect(self._target)
            except OSError:
                client.close()
                server.close()
                continue
            pair = (client, server)
            with self._lock:
                self._pairs.add(pair)
            closing = _CloseBoth(pair)
            for source, target in (pair, pair[::-1]):
                threading.Thread(target=self._pump, args=(source, target, closing), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, closing: "_CloseBoth") -> None:
        with closing, suppress(OSError):
            while data := source.recv(65536):
                if self.delay:
                    time.sleep(self.delay)
                if closing.pair in self._swallowed:
                    continue
                with self._lock:
                    left = len(data) if self.cut_after is None else self.cut_after - self.passed
                    self.passed += len(data)
                    if is_cut := left < len(data):
                        self.cut_after = None
                        self.cuts += 1
                        self._was_cut.set()
                target.sendall(data[: max(left, 0)])
                if is_cut:
                    self.cut_all()
                    return


class _CloseBoth:
    """Closes two sockets when both of their threads are done; the first ends both."""

    def __init__(self, pair: tuple[socket.socket, socket.socket]) -> None:
        self.pair = pair
        self._users = 2
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            users = self._users
        for end in self.pair:
            if users == 0:
                end.close()
            else:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
