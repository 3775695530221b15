"""The provider of the self-test. The tag in the last prompt chooses the answer, so checks do not disturb each other."""

from __future__ import annotations

import json
import re

from holdfast.testing import Answer, ReceivedRequest, TestProvider, text

LARGE, SMALL = "large", "small"
_TAG = re.compile(r"\[check:([a-z0-9-]+)\]")


class CheckProvider(TestProvider):
    """Answers a prompt with the answers planned for its tag, one for each request, then with ``done``."""

    def __init__(self) -> None:
        super().__init__(self._planned_answer)
        self._plans: dict[str, list[Answer]] = {}
        self.requests_of: dict[str, list[ReceivedRequest]] = {}

    def plan(self, tag: str, *answers: Answer) -> str:
        """Plan the answers to a prompt. Returns the prompt."""
        self._plans[tag] = list(answers)
        return f"selftest [check:{tag}]"

    async def wait_for_request(self, tag: str, count: int = 1) -> None:
        """Wait until the model was asked this many times about a tag."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.requests_of.get(tag, ())) >= count)

    def _planned_answer(self, received: ReceivedRequest) -> Answer:
        if received.model == SMALL:
            return text("Self-test")
        found = _TAG.findall(json.dumps(received.body))
        tag = found[-1] if found else ""
        self.requests_of.setdefault(tag, []).append(received)
        plan = self._plans.get(tag)
        return plan.pop(0) if plan else text("done")
