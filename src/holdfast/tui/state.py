"""What only the terminal interface knows of a session: which blocks are open, the cursor, the search. Pure.

Everything else comes from the server by way of the client's fold, so a killed interface comes back to the same view.
"""

from __future__ import annotations

import json

from msgspec.structs import replace

from holdfast.client.view_values import (
    Block,
    CallBlock,
    NoticeBlock,
    PromptBlock,
    ShellBlock,
    SummaryBlock,
    TextBlock,
    ThinkingBlock,
    TurnEndBlock,
)
from holdfast.schema.base import Value


class TranscriptState(Value, frozen=True):
    toggled_ids: frozenset[str] = frozenset()
    """Blocks that were opened or closed by hand. All start folded."""
    cursor: str = ""
    """The block under the cursor; empty if there is none."""
    search: str = ""
    """The text that is marked."""

    def is_open(self, block: Block) -> bool:
        return block.id in self.toggled_ids

    def toggled(self, block: Block) -> TranscriptState:
        return replace(self, toggled_ids=self.toggled_ids ^ {block.id}, cursor=block.id)

    def with_cursor(self, block_id: str) -> TranscriptState:
        return replace(self, cursor=block_id)

    def with_search(self, query: str) -> TranscriptState:
        return replace(self, search=query)


def block_text(block: Block) -> str:
    """A block as text: what is searched and copied."""
    match block:
        case PromptBlock() | TextBlock() | ThinkingBlock() | SummaryBlock() | NoticeBlock():
            return block.text
        case CallBlock():
            diff = block.display.get("diff")
            head = f"{block.name} {block.title or json.dumps(block.arguments, ensure_ascii=False)}"
            body = diff if isinstance(diff, str) and diff else block.output
            return f"{head}\n{body}".rstrip("\n")
        case ShellBlock():
            return f"{block.command}\n{block.output}".rstrip("\n")
        case TurnEndBlock():
            return block.error
