"""The list of agents: choose one for this session, or none."""

from __future__ import annotations

from holdfast.schema.extensions import AgentView
from holdfast.tui.background_calls import call_in_background
from holdfast.tui.picker import Picker, PickerRow
from holdfast.tui.tui_host import TuiHost

NO_AGENT = "main"


class AgentPicker(Picker):
    """Dismissed with the name of the agent, ``main`` for none."""

    heading = "agents"
    hint = "enter uses it for the next prompts of this session"

    def __init__(self, host: TuiHost) -> None:
        super().__init__(chosen=host.controller.agent or NO_AGENT, hint=self.hint)
        self._host = host

    def on_mount(self) -> None:
        super().on_mount()
        call_in_background(self, self._load())

    async def _load(self) -> None:
        link = self._host.link
        client = await link.ready()
        assert link.workspace is not None
        found = (await client.agents(link.workspace.id)).items
        self.show_rows(agent_rows(found, self._host.controller.agent or NO_AGENT))

    def choose(self, row: PickerRow) -> None:
        if row.value:
            self.dismiss(row.value)


def agent_rows(agents: tuple[AgentView, ...], current: str) -> list[PickerRow]:
    """Agents that cannot be used say why, and cannot be chosen."""
    rows = [_row(NO_AGENT, "no agent: all tools, the mode that you choose", current=current)]
    for agent in agents:
        if agent.state == "ready":
            notes = ("only reads",) if agent.read_only else ()
            rows.append(_row(agent.name, agent.description, current=current, notes=notes))
        else:
            rows.append(PickerRow("", f"{agent.name}: {agent.problem}", mark="✗", style="$text-muted"))
    return rows


def _row(name: str, description: str, *, current: str, notes: tuple[str, ...] = ()) -> PickerRow:
    mark, style = ("●", "$primary") if name == current else (" ", "")
    return PickerRow(name, f"{name} {description}", notes=notes, mark=mark, style=style)
