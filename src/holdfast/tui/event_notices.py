"""What the user is told when something happens, on the screen or by the terminal."""

from __future__ import annotations

from holdfast.schema.events import (
    ApprovalRequested,
    ApprovalResolved,
    DeviceChanged,
    Event,
    FileChanged,
    PairingFailed,
    QuestionAsked,
    QuestionResolved,
    RunFinished,
    SessionDeleted,
)
from holdfast.tui.tui_host import TuiHost


class EventNotices:
    def __init__(self, app: TuiHost) -> None:
        self._app = app

    def tell(self, event: Event) -> None:
        app = self._app
        match event:
            case ApprovalResolved():
                app.main.tell_resolved(event.approval)
            case QuestionResolved():
                app.main.tell_resolved(event.question)
            case ApprovalRequested():
                app.notify_outside("needs your answer", event.approval.title)
            case QuestionAsked():
                app.notify_outside("has a question", event.question.items[0].text if event.question.items else "")
            case RunFinished() if event.run.parent_run_id is None and event.run.kind == "prompt":
                app.notify_outside(f"{event.run.state}", event.run.text or event.run.prompt)
            case FileChanged():
                app.draw_later({"changes"})
            case PairingFailed():
                app.main.tell(
                    f"a wrong pairing code came from {event.address or 'this machine'} "
                    f"({event.failures} in the last minute)",
                    warning=True,
                )
            case DeviceChanged(change="paired"):
                app.main.tell(f"{event.device.name} was paired; it may {event.device.scope}")
            case SessionDeleted() if event.session_id == app.link.session_id:
                app.main.tell("this session was deleted", warning=True)
                app.show_session(None)
            case _:
                pass
