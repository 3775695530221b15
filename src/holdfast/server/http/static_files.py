"""The files of the web page, from the package. Each is read and compressed once, when it is first requested."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from holdfast.digests import sha256_hex
from holdfast.errors import MethodNotAllowed, NotFound
from holdfast.schema.base import Value
from holdfast.server.http.request_parsing import HEADERS, Receive
from holdfast.server.http.responses import Header, Scope, Send

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""No inline script or style, nothing from elsewhere, in no frame."""

_ASSETS: Final = "/assets/"
"""Files with a hash of their content in their name."""
_TYPES: Final = {
    "html": b"text/html; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "json": b"application/json",
    "webmanifest": b"application/manifest+json",
    "svg": b"image/svg+xml",
    "png": b"image/png",
    "ico": b"image/x-icon",
    "woff2": b"font/woff2",
    "txt": b"text/plain; charset=utf-8",
}
"""Only files with these endings are served."""
_TEXTS: Final = frozenset({"html", "js", "css", "json", "webmanifest", "svg", "txt"})
_SAFETY: Final[tuple[Header, ...]] = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
)


class StaticFile(Value, frozen=True):
    content: bytes
    compressed: bytes | None
    """With gzip, if that is shorter."""
    etag: bytes
    headers: tuple[Header, ...]


class StaticFiles:
    """An ASGI application for the page's own paths: ``/`` and the names of its files."""

    def __init__(self, root: Traversable | None = None) -> None:
        self._root = root
        self._files: dict[str, Traversable] | None = None
        self._loaded: dict[str, StaticFile] = {}

    async def has(self, path: str) -> bool:
        return not path.startswith("/v1/") and path in await self._paths()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if not await self.has(path):
            if path == "/":
                raise NotFound("this installation has no web page; GET /v1/openapi.json lists the paths of the API")
            raise NotFound(f"there is nothing at {path[:200]!r}; GET /v1/openapi.json lists the paths")
        if scope["method"] not in ("GET", "HEAD"):
            raise MethodNotAllowed(f"method {scope['method'][:20]!r} is not allowed here; use GET or HEAD")
        file = self._loaded.get(path)
        if file is None:
            source = (await self._paths())[path]
            file = self._loaded[path] = await asyncio.to_thread(_load, path, source)
        await _send(file, scope, send)

    async def _paths(self) -> dict[str, Traversable]:
        if self._files is None:
            self._files = await asyncio.to_thread(_find, self._root or _own_files())
        return self._files


def _own_files() -> Traversable:
    from importlib.resources import files

    return files("holdfast.web").joinpath("static")


def _find(root: Traversable, prefix: str = "/") -> dict[str, Traversable]:
    found: dict[str, Traversable] = {}
    if not root.is_dir():
        return found
    for entry in root.iterdir():
        if entry.is_dir():
            found |= _find(entry, f"{prefix}{entry.name}/")
        elif entry.name.rpartition(".")[2] in _TYPES and not entry.name.startswith("."):
            found[f"{prefix}{entry.name}"] = entry
    if prefix == "/" and "/index.html" in found:
        found["/"] = found["/index.html"]
    return found


def _load(path: str, source: Traversable) -> StaticFile:
    import gzip

    content = source.read_bytes()
    ending = source.name.rpartition(".")[2]
    etag = b'"%b"' % sha256_hex(content)[:24].encode()
    caching = b"public, max-age=31536000, immutable" if path.startswith(_ASSETS) else b"no-cache"
    compressed = gzip.compress(content, 9, mtime=0) if ending in _TEXTS else content
    headers = (
        *((b"content-type", _TYPES[ending]), (b"cache-control", caching), (b"etag", etag)),
        *((b"vary", b"accept-encoding"), *_SAFETY),
    )
    return StaticFile(content, compressed if len(compressed) < len(content) else None, etag, headers)


async def _send(file: StaticFile, scope: Scope, send: Send) -> None:
    asked = scope[HEADERS]
    headers, body, status = list(file.headers), file.content, 200
    if file.etag in (one.strip().removeprefix(b"W/") for one in asked.get(b"if-none-match", b"").split(b",")):
        status, body = 304, b""
    elif file.compressed is not None and _accepts_gzip(asked.get(b"accept-encoding", b"")):
        headers.append((b"content-encoding", b"gzip"))
        body = file.compressed
    if status == 200:
        headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _accepts_gzip(header: bytes) -> bool:
    for one in header.split(b","):
        name, _, weight = one.partition(b";")
        if name.strip().lower() == b"gzip":
            return weight.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False
