"""The bytes of streams as vendors send them. Our readers and the vendors' SDKs read the same ones (see oracles/)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Stream:
    """One HTTP response."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def content_type(self) -> str:
        return "text/event-stream" if self.status == 200 else "application/json"


def sse(*events: Any, named: bool = False, end: str = "\n", ascii_only: bool = False) -> bytes:
    """Encode events. ``named`` also writes their type as the event's name."""
    written = []
    for event in events:
        if isinstance(event, bytes):
            written.append(event)
            continue
        text = event if isinstance(event, str) else json.dumps(event, ensure_ascii=ascii_only)
        head = f"event: {event['type']}{end}" if named else ""
        written.append(f"{head}data: {text}{end}{end}".encode())
    return b"".join(written)


def failure(status: int, body: Any, **headers: str) -> Stream:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Stream(json.dumps(body).encode(), status, names)
