"""Turns the result of an MCP call or a resource into text and images for the model. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.schema.base import MAX_DEPTH, Value, is_nested_deeper, repair_text
from holdfast.schema.messages import File

MAX_IMAGES = 8
_MAX_IMAGE = 7 << 20
"""Characters of an image in base64."""
_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


class McpResult(Value, frozen=True):
    text: str
    files: tuple[File, ...] = ()
    is_error: bool = False


def read_result(result: dict[str, Any], *, can_see_images: bool) -> McpResult:
    """Return what a call answered. ``result`` is the JSON of the protocol."""
    reader = _ContentReader(can_see_images=can_see_images)
    reader.add_all(result.get("content"))
    structured = result.get("structuredContent")
    if structured is not None and not reader.has_text and not is_nested_deeper(structured, MAX_DEPTH):
        reader.add_text(msgspec.json.format(msgspec.json.encode(structured), indent=1).decode())
    return McpResult(reader.text or "(empty)", tuple(reader.files), result.get("isError") is True)


def read_resource_contents(result: dict[str, Any], *, can_see_images: bool) -> McpResult:
    """Return the content of a resource that was read."""
    reader = _ContentReader(can_see_images=can_see_images)
    contents = result.get("contents")
    for content in contents if isinstance(contents, list) else ():
        reader.add({"type": "resource", "resource": content})
    return McpResult(reader.text or "(empty)", tuple(reader.files))


class _ContentReader:
    def __init__(self, *, can_see_images: bool) -> None:
        self._can_see_images = can_see_images
        self._texts: list[str] = []
        self.files: list[File] = []
        self.has_text = False

    @property
    def text(self) -> str:
        return "\n".join(self._texts)

    def add_all(self, blocks: object) -> None:
        for block in blocks if isinstance(blocks, Iterable) and not isinstance(blocks, str | dict) else ():
            self.add(block)

    def add(self, block: object) -> None:
        if not isinstance(block, dict):
            return
        match block.get("type"):
            case "text":
                self.add_text(str(block.get("text", "")))
            case "image":
                self._add_image(block.get("mimeType"), block.get("data"))
            case "audio":
                self._note(f"audio ({_shown(block.get('mimeType'))}) is not shown")
            case "resource":
                self._add_resource(block.get("resource"))
            case "resource_link":
                name, uri = _shown(block.get("name")), _shown(block.get("uri"))
                self._note(f"resource {name}: {uri}")
            case kind:
                self._note(f"content of the type {_shown(kind)} is not shown")

    def add_text(self, text: str) -> None:
        self.has_text = True
        self._texts.append(repair_text(text))

    def _note(self, text: str) -> None:
        self._texts.append(f"[{text}]")

    def _add_image(self, media_type: object, data: object) -> None:
        if not isinstance(data, str) or media_type not in _IMAGE_TYPES:
            self._note(f"an image of the type {_shown(media_type)} is not shown")
        elif not self._can_see_images:
            self._note("an image is not shown: this model cannot see images")
        elif len(data) > _MAX_IMAGE or len(self.files) >= MAX_IMAGES:
            self._note("an image is not shown: it is too large, or there are too many")
        else:
            self.files.append(File(f"image-{len(self.files) + 1}", str(media_type), data=data))
            self._note(f"image {len(self.files)}")

    def _add_resource(self, resource: object) -> None:
        if not isinstance(resource, dict):
            return
        uri, media_type = _shown(resource.get("uri")), resource.get("mimeType")
        if isinstance(text := resource.get("text"), str):
            self._note(f"resource {uri}")
            self.add_text(text)
        elif media_type in _IMAGE_TYPES:
            self._add_image(media_type, resource.get("blob"))
        else:
            self._note(f"resource {uri} ({_shown(media_type)}) is not text and is not shown")


def _shown(value: object) -> str:
    text = repair_text(value if isinstance(value, str) else "unknown")
    return text if len(text) <= 200 and text.isprintable() else repr(text[:200])
