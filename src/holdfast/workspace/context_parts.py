"""Measures what is sent before the first prompt of a session: the system prompt, instructions, skills and tools."""

from __future__ import annotations

from holdfast.agent.context_window import estimate_text
from holdfast.agent.model_families import family_of
from holdfast.agent.system_prompt import PromptContext, RunConditions, render_system_prompt, sent_characters
from holdfast.errors import NoModel
from holdfast.extend.mcp.mcp_tools import McpRunTools
from holdfast.schema.api.response_bodies import ContextKind, ContextPart
from holdfast.schema.base import encode
from holdfast.workspace.open_workspace import OpenWorkspace
from holdfast.workspace.workspace_setup import Setup


async def context_parts(workspace: OpenWorkspace) -> tuple[ContextPart, ...]:
    """``workspace`` has read its files (`OpenWorkspace.refresh_extensions`)."""
    setup = await workspace.setup()
    gathered = await workspace.context_gatherer(setup).gather()
    workspace.offer_skills()
    mode = setup.settings.approvals.mode
    joining = McpRunTools(workspace.mcp, max_tokens=setup.settings.tools.mcp_tokens).join
    tools = workspace.tools.offer(setup.settings, mode=mode, interactive=True, depth=0, agent=None, joining=joining)
    own = len(tools.specs)
    texts = _prompt_texts(gathered, setup)
    parts = [
        _part("system prompt", "prompt", texts[0]),
        _part("surroundings", "surroundings", texts[1]),
    ]
    files = gathered.instructions
    for file, sent in zip(files, sent_characters(files), strict=True):
        text = file.text.strip()
        parts.append(_part(file.path, "instructions", text[:sent], cut=len(text) - sent))
    if gathered.skills:
        parts.append(_part("skills", "skills", _block(texts, "Skills:")))
    if gathered.agents:
        parts.append(_part("agents", "agents", _block(texts, "Further agents")))
    parts += [_part(f"instructions of the MCP server {one.server}", "mcp", one.text) for one in gathered.servers]
    parts.append(_part("tools", "tools", encode(tools.specs).decode()))
    tools.update()
    if joined := tools.specs[own:]:
        parts.append(_part("tools of MCP servers", "mcp", encode(joined).decode()))
    return tuple(parts)


def _prompt_texts(gathered: PromptContext, setup: Setup) -> tuple[str, ...]:
    try:
        family = family_of(setup.model(None).model)
    except NoModel:
        family = "other"
    return render_system_prompt(gathered, conditions=RunConditions(family=family)).blocks


def _block(texts: tuple[str, ...], begin: str) -> str:
    return next((text for text in texts if text.startswith(begin)), "")


def _part(name: str, kind: ContextKind, text: str, *, cut: int = 0) -> ContextPart:
    return ContextPart(name, kind, len(text), estimate_text([text]), cut)
