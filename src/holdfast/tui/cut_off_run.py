"""The last run of a session, if it did not complete: what it was asked, to continue or repeat it. Pure."""

from __future__ import annotations

from holdfast.client.transcript_fold import TranscriptFold
from holdfast.client.view_values import PromptBlock, TurnEndBlock
from holdfast.schema.base import Value
from holdfast.schema.messages import File
from holdfast.schema.runs import EndState

CONTINUE = "Continue where you were cut off. Check first what is done already."


class CutOffRun(Value, frozen=True):
    state: EndState
    prompt: str
    message_id: str
    attachments: tuple[File, ...] = ()


def cut_off_run(fold: TranscriptFold | None) -> CutOffRun | None:
    """``None`` if the last run completed, or if another one is active or waits."""
    if fold is None or fold.active is not None or fold.queue.queued or fold.queue.waiting:
        return None
    end: TurnEndBlock | None = None
    for entry in reversed(fold.entries):
        for block in reversed(entry.blocks):
            if end is None:
                if not isinstance(block, TurnEndBlock) or block.kind != "prompt" or block.state == "completed":
                    return None
                end = block
            elif isinstance(block, PromptBlock) and block.run_id == end.run_id and not block.unsent:
                parts = entry.message.parts if entry.message else ()
                files = tuple(part for part in parts if isinstance(part, File))
                return CutOffRun(end.state, block.text, block.message_id, files)
    return None
