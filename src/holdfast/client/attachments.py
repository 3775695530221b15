"""Files as attachments of a prompt."""

from __future__ import annotations

from holdfast.schema.messages import File

MAX_BYTES = 24 * 1024 * 1024


def attachment(name: str, data: bytes) -> File:
    """A file that is attached as text if it is text, and as data otherwise."""
    try:
        return File(name, "text/plain", text=data.decode())
    except UnicodeDecodeError:
        import base64
        import mimetypes

        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return File(name, kind, data=base64.b64encode(data).decode("ascii"))
