"""A file as a response: no piece and no range lets a secret out."""

from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.config import Redactor, Secret
from holdfast.server.http import file_response
from holdfast.server.http.file_response import FileResponse

SECRET = "sk-söcret-0123456789"
TEXT = f"before {SECRET} between\n{SECRET}{SECRET} after \udcff end"
DATA = TEXT.encode("utf-8", "surrogateescape")
REDACTED = TEXT.replace(SECRET, "[redacted]").encode("utf-8", "surrogateescape")


async def body_of(path: Path, *, range_header: bytes | None = None, redactor: Redactor) -> bytes:
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.disconnect"}

    response = await FileResponse.open(path, range_header=range_header, redactor=redactor)
    await response({"type": "http", "method": "GET"}, receive, send)
    return b"".join(message["body"] for message in sent[1:])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "output.txt"
    found.write_bytes(DATA)
    return found


@pytest.mark.promise("W8")
@pytest.mark.parametrize("size", range(1, len(SECRET) + 5))
async def test_a_secret_across_a_piece_boundary_is_redacted(
    path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_response, "_PIECE_BYTES", size)
    assert await body_of(path, redactor=Redactor([Secret(SECRET)])) == REDACTED


@pytest.mark.promise("W8")
async def test_a_secret_that_a_range_cuts_is_redacted_on_both_sides(path: Path) -> None:
    redactor = Redactor([Secret(SECRET)])
    encoded = SECRET.encode()
    hidden = [set(range(start, start + len(encoded))) for start in range(len(DATA)) if DATA.startswith(encoded, start)]
    secret_bytes = set().union(*hidden)
    for cut in range(1, len(DATA)):
        first = await body_of(path, range_header=b"bytes=0-%d" % (cut - 1), redactor=redactor)
        second = await body_of(path, range_header=b"bytes=%d-" % cut, redactor=redactor)
        split = any(cut in span and cut - 1 in span for span in hidden)
        assert first.replace(b"[redacted]", b"") + second.replace(b"[redacted]", b"") == bytes(
            byte for position, byte in enumerate(DATA) if position not in secret_bytes
        )
        assert (first.endswith(b"[redacted]") and second.startswith(b"[redacted]")) or not split


async def test_without_secrets_every_byte_is_sent_as_it_is(path: Path) -> None:
    assert await body_of(path, redactor=Redactor()) == DATA
    assert await body_of(path, range_header=b"bytes=3-9", redactor=Redactor()) == DATA[3:10]
