"""What an editor can choose for the prompts of a session: mode, model, effort, queue or steer. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec.structs import replace

from holdfast.acp.editor_offers import EditorOffers
from holdfast.acp.tool_updates import JsonObject
from holdfast.errors import BadRequest
from holdfast.schema.api.response_bodies import ModelsView
from holdfast.schema.base import Value
from holdfast.schema.commands import PromptCommand
from holdfast.schema.runs import Delivery, Mode, Run

_MODES: Mapping[Mode, tuple[str, str]] = {
    "ask": ("Ask", "Ask before files are written and commands are run, unless they are known to be harmless"),
    "accept_edits": ("Accept edits", "Write files in the directory without asking; ask before commands"),
    "plan": ("Plan", "Change nothing; make a plan"),
    "auto": ("Auto", "Ask only before leaving the directory or the sandbox, and for protected files"),
}
_DELIVERIES: Mapping[Delivery, tuple[str, str]] = {
    "queue": ("Queue", "The prompt waits for its turn"),
    "steer": ("Steer", "The prompt joins the running turn at its next step"),
}
_BUILT_IN = (
    ("compact", "Replace the conversation so far by a summary", "what to keep"),
    ("accept", "Carry out the plan of the last run in plan mode", "what to change about the plan"),
    ("undo", "Undo the file changes of the last run", ""),
    ("redo", "Redo what was undone", ""),
    ("init", "Write the instructions of this repository (AGENTS.md)", "what to pay attention to"),
)
BuiltIn = Literal["compact", "accept", "undo", "redo", "init"]


class EditorChoices(Value, frozen=True):
    """What the editor chose. ``None``: as configured."""

    mode: Mode | None = None
    model: str | None = None
    effort: str | None = None
    delivery: Delivery = "queue"


class SessionChoices(Value, frozen=True):
    """The choices, and what there is to choose from."""

    configured_mode: Mode
    models: ModelsView
    chosen: EditorChoices = EditorChoices()
    offers: EditorOffers = EditorOffers()
    """What is used of the editor."""

    @property
    def mode(self) -> Mode:
        return self.chosen.mode or self.configured_mode

    @property
    def model(self) -> str:
        return self.chosen.model or self.models.large or ""

    @property
    def context_window(self) -> int:
        return next((model.context_window for model in self.models.models if model.name == self.model), 0)

    @property
    def efforts(self) -> tuple[str, ...]:
        return next((model.reasoning for model in self.models.models if model.name == self.model), ())

    @property
    def effort(self) -> str | None:
        """The effort that the next prompt is sent with."""
        return self.chosen.effort if self.chosen.effort in self.efforts else None

    def choose(self, option: str, value: object) -> SessionChoices:
        """Choose a value of an option. Raises `BadRequest`."""
        known = {each["id"]: [one["value"] for one in each["options"]] for each in self.options()}
        if option not in known:
            raise BadRequest(f"there is no option {option!r}; known: {', '.join(known)}")
        if value not in known[option]:
            raise BadRequest(f"{option} cannot be {value!r}; known: {', '.join(known[option])}")
        chosen: Any = None if option == "effort" and value == "default" else value
        return replace(self, chosen=replace(self.chosen, **{option: chosen}))

    def modes(self) -> JsonObject:
        found = [{"id": mode, "name": name, "description": text} for mode, (name, text) in _MODES.items()]
        return {"currentModeId": self.mode, "availableModes": found}

    def options(self) -> list[JsonObject]:
        """The options as the protocol describes them."""
        modes = [_value(mode, *shown) for mode, shown in _MODES.items()]
        names = {model.name: model.title or model.name for model in self.models.models}
        if self.model:
            names.setdefault(self.model, self.model)
        models = [_value(name, title, name if title != name else "") for name, title in names.items()]
        found = [_select("mode", "Mode", "mode", self.mode, modes)]
        if models:
            found.append(_select("model", "Model", "model", self.model, models))
        if self.efforts:
            efforts = [_value("default", "Default", "As the provider does it"), *(_value(e, e) for e in self.efforts)]
            found.append(_select("effort", "Effort", "thought_level", self.effort or "default", efforts))
        deliveries = [_value(delivery, *shown) for delivery, shown in _DELIVERIES.items()]
        found.append(_select("delivery", "While busy", None, self.chosen.delivery, deliveries))
        return found


def choices_of_run(run: Run | None) -> EditorChoices:
    """The choices that the last prompt of a session was sent with, so that a loaded session goes on as it was."""
    if run is None:
        return EditorChoices()
    return EditorChoices(mode=run.mode, model=run.model, effort=run.effort)


def configured_mode(values: Mapping[str, Any]) -> Mode:
    """The mode of the configuration."""
    approvals = values.get("approvals")
    name = approvals.get("mode") if isinstance(approvals, dict) else None
    return next((mode for mode in _MODES if mode == name), "ask")


def available_commands(found: tuple[PromptCommand, ...]) -> list[JsonObject]:
    """The commands that a prompt may begin with: built in, of files, skills and MCP servers."""
    own = {name for name, _, _ in _BUILT_IN}
    listed = [_command(*command) for command in _BUILT_IN]
    return listed + [
        _command(one.name, one.description or one.name, one.argument_hint) for one in found if one.name not in own
    ]


def built_in_command(text: str) -> tuple[BuiltIn, str] | None:
    """The built-in command that a prompt is, with its arguments."""
    first, _, rest = text.strip().partition(" ")
    for name, _, _ in _BUILT_IN:
        if first == f"/{name}":
            return name, rest.strip()  # type: ignore[return-value]  # a name of the table
    return None


def _command(name: str, description: str, hint: str) -> JsonObject:
    found: JsonObject = {"name": name, "description": description}
    return {**found, "input": {"hint": hint}} if hint else found


def _value(value: str, name: str, description: str = "") -> JsonObject:
    found: JsonObject = {"value": value, "name": name}
    return {**found, "description": description} if description else found


def _select(option: str, name: str, category: str | None, current: str, options: list[JsonObject]) -> JsonObject:
    found: JsonObject = {"type": "select", "id": option, "name": name, "currentValue": current, "options": options}
    return {**found, "category": category} if category else found
