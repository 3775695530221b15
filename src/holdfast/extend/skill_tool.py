"""`skill`: load the instructions of a skill. It is offered only if there are skills."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from holdfast.errors import ToolError
from holdfast.extend.file_extensions import FileExtensions
from holdfast.extend.skills import SkillFile, skill_files
from holdfast.schema.approvals import Effect, Subject
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan


class SkillArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(description="The skill's name in the list.", min_length=1, max_length=200)]


class SkillTool:
    name: ClassVar[str] = "skill"
    description: ClassVar[str] = (
        "Load the instructions of a skill from the list of skills, with the names of its files. Do it before you begin"
        " a task that a skill describes."
    )
    arguments: ClassVar[type[Any]] = SkillArguments
    effect: ClassVar[Effect] = "none"
    parallel: ClassVar[bool] = True

    def __init__(self, files: FileExtensions) -> None:
        self._files = files

    async def plan(self, arguments: SkillArguments, context: ToolContext) -> ToolPlan:
        skill = self._find(arguments.name)
        return ToolPlan(Subject(tool=self.name, effect="none", title=skill.name))

    async def run(self, arguments: SkillArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        skill = self._find(arguments.name)
        text = context.redact(await asyncio.to_thread(skill_text, skill))
        return ToolOutput(text, display={"path": skill.path})

    def _find(self, name: str) -> SkillFile:
        usable = {skill.name: skill for skill in self._files.found.usable_skills if skill.model_may_use}
        skill = usable.get(name.strip().removeprefix("/"))
        if skill is None:
            raise ToolError(f"there is no skill {name!r}; skills: {', '.join(usable) or 'none'}")
        return skill


def skill_text(skill: SkillFile) -> str:
    """The instructions of a skill, its folder and the files in it. Blocking."""
    blocks = [f'<skill name="{skill.name}" folder="{Path(skill.path).parent}">', skill.body.strip(), "</skill>"]
    if files := skill_files(skill):
        blocks += ["Files in its folder; read one when the skill says so:", *(f"- {path}" for path in files)]
    return "\n".join(blocks)
