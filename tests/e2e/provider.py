"""The model provider of the suite: what it says follows from the prompt, so that tests do not disturb each other."""

import re
from typing import Any

import msgspec

from holdfast.testing import Answer, ReceivedRequest, TestProvider, text

_TAG = re.compile(r"\[([\w-]+)\]")


class Provider(TestProvider):
    """Answers the prompt ``… [tag]`` with the answers told for that tag, step by step; else with ``ok``."""

    __test__ = False

    def __init__(self) -> None:
        super().__init__(self._decide)
        self._told: dict[str, tuple[Answer, ...]] = {}
        self.asked: dict[str, list[int]] = {}
        """Numbers of the requests by tag."""

    def tell(self, tag: str, *answers: Answer) -> str:
        """What to answer, one answer per step, the last one again and again; gives the prompt that asks for it."""
        self._told[tag] = answers
        return f"please [{tag}]"

    def count(self, tag: str) -> int:
        return len(self.asked.get(tag, ()))

    async def wait_for(self, tag: str, count: int = 1) -> list[int]:
        """Until so many requests for the tag have come in; their numbers."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.count(tag) >= count)
        return self.asked[tag]

    async def wait_until_left(self, number: int) -> None:
        """Until nobody reads the answer to this request any more."""
        async with self._changed:
            await self._changed.wait_for(lambda: number in self.disconnects or number in self.finished)

    def forget_bodies(self) -> None:
        """Forget what the requests said, but not that they came. Each has the whole conversation."""
        self.requests[:] = [msgspec.structs.replace(one, body=None) for one in self.requests]

    def shut(self, gate: str) -> None:
        """The next answer waits at this gate again."""
        self._gate(gate).clear()

    def _receive(self, path: str, headers: dict[str, str], body: bytes) -> ReceivedRequest:
        received = super()._receive(path, headers, body)
        if received.model != "small":
            self.asked.setdefault(_last_tag(received.body)[0], []).append(received.number)
        return received

    def _decide(self, received: ReceivedRequest) -> Answer:
        if received.model == "small":
            return text("A title")
        tag, step = _last_tag(received.body)
        answers = self._told.get(tag)
        return answers[min(step, len(answers) - 1)] if answers else text("ok")


def _last_tag(body: Any) -> tuple[str, int]:
    """The tag of the last prompt, and the answers given since."""
    steps = 0
    for message in reversed(body["messages"]):
        if message["role"] == "assistant":
            steps += 1
        elif message["role"] == "user":
            found = _TAG.search(str(message["content"]))
            return found[1] if found else "", steps
    return "", steps
