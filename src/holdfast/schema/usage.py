"""What a model request cost."""

from __future__ import annotations

from holdfast.schema.base import Value


class Usage(Value, frozen=True, omit_defaults=True):
    """Tokens and money, added up over steps, sub-agents and titles."""

    input: int = 0
    """Input tokens that were neither read from nor written to a cache."""
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float = 0.0
    """US dollars by the catalogue's prices."""
    estimated: bool = False
    """True when any number in the sum was counted by us rather than told by the provider."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            cost=self.cost + other.cost,
            estimated=self.estimated or other.estimated,
        )

    @property
    def context(self) -> int:
        """How much of the window the request took, its answer included."""
        return self.input + self.cache_read + self.cache_write + self.output


class UsageRow(Value, frozen=True):
    """Statistics of one day and model."""

    day: str
    model: str
    usage: Usage = Usage()
    runs: int = 0
    steps: int = 0


class ToolRow(Value, frozen=True):
    """Statistics of one day and tool."""

    day: str
    tool: str
    calls: int = 0
    failed: int = 0
