"""The options of a prompt, and the request that is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from holdfast.schema.messages import File
from holdfast.schema.runs import After, Delivery, Limits, Mode, RunRequest


class PromptOptions(TypedDict, total=False):
    """What a prompt may set besides its text. What is left out is as configured."""

    run_id: str
    """An id of your choice. The same prompt with the same id is the same run, also after a crash of the program."""
    model: str
    """``provider/model``."""
    mode: Mode
    delivery: Delivery
    after: After
    effort: str
    agent: str
    attachments: Sequence[File]
    max_steps: int
    max_seconds: float
    max_cost: float
    """US dollars."""
    interactive: bool
    """Whether approvals and questions may wait for an answer. By default, if the client has a handler for them."""


def make_request(
    prompt: str, options: PromptOptions, *, output_schema: dict[str, Any] | None, interactive: bool
) -> RunRequest:
    return RunRequest(
        prompt=prompt,
        run_id=options.get("run_id"),
        model=options.get("model"),
        mode=options.get("mode"),
        delivery=options.get("delivery", "queue"),
        after=options.get("after", "any"),
        effort=options.get("effort"),
        agent=options.get("agent"),
        attachments=tuple(options.get("attachments", ())),
        limits=Limits(options.get("max_steps"), options.get("max_seconds"), options.get("max_cost")),
        interactive=options.get("interactive", interactive),
        output_schema=output_schema,
    )
