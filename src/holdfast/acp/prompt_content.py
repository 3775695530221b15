"""The content blocks of an editor's prompt as our prompt and attachments. Pure.

Text stays where it is. A file that the editor links becomes a mention (``@path``), which the model reads as far as it
needs it. A resource that the editor embeds is attached with its content, and mentioned where it stood.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.errors import BadRequest
from holdfast.schema.base import Value
from holdfast.schema.messages import File

_PERCENT = re.compile(r"%([0-9A-Fa-f]{2})")
_LINES = re.compile(r"^L?(\d+)(?:[-:]L?(\d+))?$")
_DEFAULT_TYPE = "application/octet-stream"


class ReadPrompt(Value, frozen=True):
    text: str
    attachments: tuple[File, ...] = ()


def read_prompt(blocks: Sequence[Mapping[str, Any]], *, directory: str) -> ReadPrompt:
    """Read a prompt. Raises `BadRequest` for content that cannot be sent to a model."""
    pieces: list[str] = []
    files: list[File] = []
    for block in blocks:
        match block.get("type"):
            case "text":
                pieces.append(block["text"])
            case "image":
                files.append(File(_image_name(block, len(files) + 1), block["mimeType"], data=block["data"]))
            case "resource_link":
                pieces.append(mention(block["uri"], directory=directory))
            case "resource":
                resource = block["resource"]
                named = mention(resource["uri"], directory=directory)
                pieces.append(named)
                files.append(_embedded(resource, named.removeprefix("@")))
            case other:
                raise BadRequest(f"a prompt cannot contain {other!r}; send text, images or resources")
    text = "".join(pieces).strip()
    if not text and not any(file.text for file in files):
        raise BadRequest("the prompt is empty; write what should be done")
    return ReadPrompt(text, tuple(files))


def mention(uri: str, *, directory: str) -> str:
    """How a prompt names a resource: ``@path`` for a file, relative if it is in the directory; else the address."""
    path, line = file_of(uri)
    if path is None:
        return uri
    return f"@{path.removeprefix(directory.rstrip('/') + '/')}{line}"


def file_of(uri: str) -> tuple[str | None, str]:
    """The path that an address names, and the lines as ``:first-last``; no path if it is not a file."""
    if uri.startswith("/"):
        return uri, ""
    if not uri.startswith("file://"):
        return None, ""
    rest, _, fragment = uri.removeprefix("file://").partition("#")
    path = rest if rest.startswith("/") else "/" + rest.partition("/")[2]
    found = _LINES.match(fragment)
    line = "" if found is None else f":{found[1]}-{found[2] or found[1]}"
    return _decoded(path), line


def _decoded(path: str) -> str:
    raw = _PERCENT.sub(lambda found: chr(int(found[1], 16)), path.encode().decode("latin-1"))
    return raw.encode("latin-1").decode("utf-8", "replace")


def _embedded(resource: Mapping[str, Any], name: str) -> File:
    if "text" in resource:
        return File(name[-1000:] or "resource", "text/plain", text=resource["text"])
    return File(name[-1000:] or "resource", resource.get("mimeType") or _DEFAULT_TYPE, data=resource["blob"])


def _image_name(block: Mapping[str, Any], number: int) -> str:
    path, _ = file_of(block.get("uri") or "")
    ending = block["mimeType"].partition("/")[2].partition("+")[0] or "image"
    return posixpath.basename(path or "") or f"image-{number}.{ending}"
