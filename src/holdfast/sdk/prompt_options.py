"""The options of a prompt, and the request that is made of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

from holdfast.client.attachments import MAX_BYTES, attachment
from holdfast.errors import BadRequest
from holdfast.files import read_limited
from holdfast.schema.messages import File
from holdfast.schema.runs import After, Delivery, Limits, Mode, RunRequest

AnyFile: TypeAlias = File | str | os.PathLike[str]
"""A path, or the name and content of a file."""


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
    attachments: Sequence[AnyFile]
    """Paths, or values."""
    max_steps: int
    max_seconds: float
    max_cost: float
    """US dollars."""
    interactive: bool
    """Whether approvals and questions may wait for an answer. By default, if the client has a handler for them."""


def read_attachments(files: Sequence[AnyFile]) -> tuple[File, ...]:
    """Read the files that are given as paths. Blocks. Raises `BadRequest` if one cannot be read."""
    return tuple(file if isinstance(file, File) else _read(os.fspath(file)) for file in files)


def _read(path: str) -> File:
    try:
        return attachment(os.path.basename(path), read_limited(Path(path).expanduser(), limit=MAX_BYTES))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise BadRequest(f"cannot attach {path!r}: {why}") from None


def make_request(
    prompt: str,
    options: PromptOptions,
    *,
    attachments: tuple[File, ...],
    output_schema: dict[str, Any] | None,
    interactive: bool,
) -> RunRequest:
    """Raises `TypeError` for an option that there is not."""
    known = PromptOptions.__annotations__
    if unknown := sorted(options.keys() - known.keys()):
        raise TypeError(f"a prompt has no option {unknown[0]!r}; options: {', '.join(known)}")
    return RunRequest(
        prompt=prompt,
        run_id=options.get("run_id"),
        model=options.get("model"),
        mode=options.get("mode"),
        delivery=options.get("delivery", "queue"),
        after=options.get("after", "any"),
        effort=options.get("effort"),
        agent=options.get("agent"),
        attachments=attachments,
        limits=Limits(options.get("max_steps"), options.get("max_seconds"), options.get("max_cost")),
        interactive=options.get("interactive", interactive),
        output_schema=output_schema,
    )
