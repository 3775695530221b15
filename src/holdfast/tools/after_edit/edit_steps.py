"""The steps after an edit: their order, their limits, and what they add to the result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, Protocol

from holdfast.errors import CommitRefused, StoreError, ToolError
from holdfast.tools.files.file_changes import clean_text
from holdfast.tools.protocol import ToolContext

EditPhase = Literal["format", "check"]
_ORDER: tuple[EditPhase, ...] = ("format", "check")
"""A check must see the file as it stays."""

_log = logging.getLogger(__name__)


class EditStep(Protocol):
    """One step. Formatters are one; a language server's diagnostics will be another."""

    name: str
    phase: EditPhase
    seconds: float
    """How long it may take for one call."""

    async def run(self, paths: tuple[Path, ...], context: ToolContext) -> str:
        """Return what the model is told; nothing if there is nothing to tell."""
        ...


class EditSteps:
    """The steps of one workspace, as the `AfterEdit` of its tool contexts."""

    def __init__(self, steps: Iterable[EditStep]) -> None:
        self._steps = order_steps(steps)

    async def run(self, context: ToolContext) -> str:
        """Run all steps for the files that the call has written."""
        texts = [await _run_step(step, context) for step in self._steps] if context.files.written else []
        return "\n".join(text for text in texts if text)


def order_steps(steps: Iterable[EditStep]) -> tuple[EditStep, ...]:
    """Sort by phase, then by name. Pure."""
    return tuple(sorted(steps, key=lambda step: (_ORDER.index(step.phase), step.name)))


async def _run_step(step: EditStep, context: ToolContext) -> str:
    try:
        async with asyncio.timeout(step.seconds):
            return await step.run(context.files.written, context)
    except TimeoutError:
        return f"[{step.name}: stopped after {step.seconds:g} s]"
    except (StoreError, CommitRefused):
        raise
    except ToolError as error:
        return clean_text(context, f"[{step.name}: {error.message}]")
    except Exception as error:  # noqa: BLE001 - the edit is done; a bug in a step must not hide that
        _log.exception("after call %s: step %s failed", context.call_id, step.name)
        return f"[{step.name}: failed with an unexpected {type(error).__name__}]"
