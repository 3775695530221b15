"""Tokens and cost of model requests, and statistics of models and tools."""

from holdfast.schema.base import Value


class Usage(Value, frozen=True, omit_defaults=True):
    """Tokens and cost, summed over steps, sub-agents and titles."""

    input: int = 0
    """Input tokens that were neither read from nor written to a cache."""
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float = 0.0
    """US dollars, by the prices of the catalogue."""
    estimated: bool = False
    """Whether any number was estimated, because the provider did not send it."""

    def __add__(self, other: "Usage") -> "Usage":
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
        """Tokens of the context window that the request and its answer used."""
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
