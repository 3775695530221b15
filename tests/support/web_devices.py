"""Browsers for tests: they pair with a server's web page and send its cookie."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from holdfast.schema.devices import AccessScope
from tests.support.http_client import Answer, HttpClient, Stream
from tests.support.running_server import RunningServer

INDEX = "<!doctype html><script src=/assets/page-1a2b3c4d.js></script>" + "<!-- a page -->" * 50


def make_page(directory: Path) -> Path:
    """The files of a small page."""
    (directory / "assets").mkdir(parents=True)
    (directory / "index.html").write_text(INDEX)
    (directory / "assets" / "page-1a2b3c4d.js").write_text("console.log('page')\n" * 100)
    (directory / "assets" / "notes.py").write_text("not a part of the page")
    (directory / ".hidden.js").write_text("not a part of the page")
    return directory


class Browser:
    """One browser at one address, with the headers that browsers send."""

    def __init__(self, port: int, *, host: str = "127.0.0.1") -> None:
        self.http = HttpClient((host, port))
        self.origin = f"http://{host}:{port}"
        self.cookie: str | None = None
        self.page_key: str | None = None
        self.device: dict[str, Any] = {}

    @property
    def secrets(self) -> dict[str, str | None]:
        """What the browser and the page send to be recognised."""
        return {"Cookie": self.cookie, "X-Holdfast-Page": self.page_key}

    async def send(self, method: str, target: str, value: Any = None, **headers: str | None) -> Answer:
        sent: dict[str, str | None] = {"Host": self.origin.partition("//")[2], **self.secrets}
        if method != "GET":
            sent["Origin"] = self.origin
        return await self.http.send(method, target, value, **{**sent, **headers})

    async def pair(self, code: str, *, name: str = "phone") -> Answer:
        answer = await self.send("POST", "/v1/pairing", {"code": code, "name": name})
        if answer.status == 200:
            self.device = answer.json()["device"]
            if "set-cookie" in answer.headers:
                self.cookie = answer.headers["set-cookie"].partition(";")[0]
                self.page_key = answer.json()["page_key"]
        return answer

    def stream(self) -> AbstractAsyncContextManager[Stream]:
        return self.http.stream("/v1/events", **self.secrets)


async def listen(server: RunningServer, **body: Any) -> dict[str, Any]:
    found: dict[str, Any] = (await server.http.post("/v1/web", body)).ok()
    return found


async def make_code(server: RunningServer, scope: AccessScope = "drive") -> str:
    code: str = (await server.http.post("/v1/pairing/codes", {"scope": scope})).ok()["code"]
    return code


async def paired(server: RunningServer, port: int, scope: AccessScope = "drive", *, name: str = "phone") -> Browser:
    browser = Browser(port)
    (await browser.pair(await make_code(server, scope), name=name)).ok()
    return browser


def port_of(listener: dict[str, Any]) -> int:
    return int(listener["address"].rpartition(":")[2])
