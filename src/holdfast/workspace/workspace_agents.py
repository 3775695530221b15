"""The agents of a workspace that a person can choose or the `agent` tool can start: built in, in files, configured."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.config import Config
from holdfast.config.agent_types import MAIN_AGENT, AgentType
from holdfast.errors import BadRequest
from holdfast.extend.agent_files import AgentFile
from holdfast.extend.file_extensions import ExtensionFiles, FileExtensions
from holdfast.schema.extensions import AgentView

BUILT_IN = "built in"
NOT_TRUSTED = "not loaded: the directory is not trusted; 'holdfast trust' lets it use its own files"


def refuse_unknown_agent(name: str, known: Mapping[str, AgentType], files: FileExtensions, *, chosen_by: str) -> None:
    """Raise `BadRequest` that lists the known agents. ``chosen_by`` says who named this one, if not the request."""
    if path := files.find_untrusted("agents").get(name):
        raise BadRequest(
            f"agent {name!r} is in {path}, which is {NOT_TRUSTED}", code="not_trusted", detail={"agent": name}
        )
    broken = next((file for file in files.found.agents if file.name == name and file.problem), None)
    why = f" ({broken.path}: {broken.problem})" if broken else ""
    names = sorted({MAIN_AGENT, *known})
    raise BadRequest(
        f"there is no agent {name!r}{chosen_by}{why}; agents: {', '.join(names)}",
        code="unknown_agent",
        detail={"agent": name, "agents": names},
    )


def agent_views(known: Mapping[str, AgentType], config: Config, found: ExtensionFiles) -> tuple[AgentView, ...]:
    """All agents by name: those that can be used, then those that cannot, with the reason."""
    files = {file.name: file for file in found.agents}
    views = [_usable(agent, config, files.get(name)) for name, agent in sorted(known.items())]
    for file in found.agents:
        if file.problem:
            views.append(AgentView(name=file.name, source=file.path, state="failed", problem=file.problem))
        elif file.is_disabled:
            views.append(
                AgentView(
                    name=file.name,
                    source=file.path,
                    state="disabled",
                    description=file.settings.description,
                    problem="it is disabled in its file",
                )
            )
    return tuple(views)


def untrusted_views(files: FileExtensions) -> tuple[AgentView, ...]:
    """The agents that the files of a project define that is not trusted. Blocking."""
    return tuple(
        AgentView(name=name, source=path, state="disabled", problem=NOT_TRUSTED)
        for name, path in sorted(files.find_untrusted("agents").items())
    )


def _usable(agent: AgentType, config: Config, file: AgentFile | None) -> AgentView:
    origin = next((origin for path, origin in config.origins.items() if path[:2] == ("agents", agent.name)), None)
    is_of_file = origin is None and file is not None and not file.problem and not file.is_disabled
    return AgentView(
        name=agent.name,
        description=agent.description,
        source=origin.place if origin else file.path if file and is_of_file else BUILT_IN,
        model=agent.model,
        read_only=agent.read_only,
        tools=agent.tools,
        max_steps=agent.max_steps,
        is_subagent=not (file and is_of_file) or file.is_subagent,
    )
