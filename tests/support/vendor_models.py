"""Scripted models whose messages have the opaque data and call ids of a real vendor."""

from collections.abc import AsyncGenerator
from typing import Any

from holdfast.models.model_script import ModelScript, ScriptAction
from holdfast.models.protocol import CallEnd, CallStart, ModelDelta, ModelInfo, ModelRequest, ReasoningEnd
from holdfast.models.scripted_model import ScriptedModel
from holdfast.testing import WireName
from tests.support.wire_rules import origin


def reasoning_data(wire: WireName, mark: str) -> dict[str, Any]:
    """Return the opaque data that a vendor sends with reasoning. ``mark`` can be found in a request."""
    match wire:
        case "openai-chat":
            return {"details": [{"type": "reasoning.encrypted", "data": mark}]}
        case "openai-responses":
            return {"id": f"rs_{mark}", "summary": [], "encrypted_content": mark}
        case "anthropic":
            return {"signature": mark}
        case "gemini":
            return {"signature": mark}


def call_data(wire: WireName, mark: str) -> dict[str, Any] | None:
    """Return the opaque data that a vendor sends with a call."""
    match wire:
        case "openai-chat":
            return {"extra_content": {"google": {"thought_signature": mark}}}
        case "gemini":
            return {"signature": mark}
        case _:
            return None


class VendorModel(ScriptedModel):
    """Follows a script as a model of this vendor. Its call ids are short, odd and repeated."""

    def __init__(self, wire: WireName, answers: tuple[tuple[ScriptAction, ...], ...], *, window: int = 0) -> None:
        super().__init__(ModelScript(answers=answers), info=ModelInfo(f"{wire}/m", context_window=window, images=True))
        self.wire = wire
        self._number = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        async for delta in super().stream(request):
            self._number += 1
            mark = f"mark-{self.wire}-{self._number}"
            match delta:
                case ReasoningEnd(opaque) if opaque is not None:
                    yield ReasoningEnd(reasoning_data(self.wire, mark), origin(self.wire))
                case CallStart(index, name):
                    yield CallStart(index, name, ("call 1/ä", f"fc_{index}", None)[self._number % 3])
                case CallEnd(index):
                    opaque = call_data(self.wire, mark)
                    yield CallEnd(index, opaque, origin(self.wire) if opaque else "")
                case _:
                    yield delta
