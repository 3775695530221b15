"""The list of background jobs: their state and output, and how to kill one."""

from __future__ import annotations

import time

from holdfast.tui.picker import Picker, PickerRow
from holdfast.tui.status_words import seconds_since, span
from holdfast.tui.text_dialog import ConfirmDialog
from holdfast.tui.tui_host import ChatHost


def pick_job(chat: ChatHost) -> None:
    jobs = {job.id: job for job in reversed(chat.tui.link.fold.jobs)}
    if not jobs:
        chat.tell("there are no background jobs")
        return
    rows = [
        PickerRow(
            job.id,
            job.command,
            notes=(job.output_path, span(seconds_since(job.started_at, time.time())), job.state),
            mark="●" if job.state == "running" else " ",
            style="$success",
        )
        for job in jobs.values()
    ]

    def chosen(job_id: str | None) -> None:
        if job_id is None or jobs[job_id].state != "running":
            return

        def confirmed(yes: bool | None) -> None:  # noqa: FBT001 - the result of the dialog
            if yes:
                chat.do(kill(chat, job_id))

        chat.tui.push_screen(ConfirmDialog(f"Kill “{jobs[job_id].command}” with all its processes?"), confirmed)

    chat.tui.push_screen(Picker(rows, heading="jobs", hint="enter kills a running job · esc closes"), chosen)


async def kill(chat: ChatHost, job_id: str) -> None:
    job = await (await chat.tui.link.ready()).kill_job(job_id)
    chat.tell(f"{job.command}: {job.state}")
