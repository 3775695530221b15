"""Reads skills: folders with a ``SKILL.md`` whose front matter has a name and a description."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from holdfast.extend.front_matter import MarkdownFiles, SourceFolder, UnusableFile, text_field
from holdfast.schema.base import Value

_FILE = "SKILL.md"
_MAX_SKILLS = 128
_MAX_DESCRIPTION = 1024
_MAX_COMPATIBILITY = 500
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_MAX_NAME = 64
_MAX_LISTED_FILES = 50
_MAX_LISTED_DEPTH = 3


class SkillFile(Value, frozen=True, kw_only=True):
    name: str
    path: str
    """Its ``SKILL.md``."""
    origin: str
    description: str = ""
    body: str = ""
    argument_hint: str = ""
    model_may_use: bool = True
    """False: only a person uses it, as ``/name``."""
    problem: str = ""
    """Why it cannot be used."""


def read_skills(folders: tuple[SourceFolder, ...], files: MarkdownFiles) -> tuple[SkillFile, ...]:
    """Return the skills, also those that cannot be used, ordered by name. A later folder overrides an earlier one."""
    found: dict[str, SkillFile] = {}
    for folder in folders:
        for path in skill_paths(folder.path):
            skill = _read_skill(path, folder, files)
            known = found.get(skill.name)
            if known is None or not skill.problem or known.problem:
                found[skill.name] = skill
    return tuple(found[name] for name in sorted(found))[:_MAX_SKILLS]


def skill_paths(folder: Path) -> list[Path]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [path for name in names if (path := folder / name / _FILE).is_file()]


def _read_skill(path: Path, folder: SourceFolder, files: MarkdownFiles) -> SkillFile:
    directory = path.parent.name
    try:
        found = files.read(path, inside=folder.inside)
        fields = found.fields
        name, description = text_field(fields, "name"), text_field(fields, "description")
        if problem := _problem(name, description, text_field(fields, "compatibility"), directory=directory):
            raise UnusableFile(problem)
    except UnusableFile as why:
        return SkillFile(name=directory, path=str(path), origin=folder.origin, problem=str(why))
    return SkillFile(
        name=name,
        path=str(path),
        origin=folder.origin,
        description=description,
        body=found.body,
        argument_hint=text_field(fields, "argument-hint"),
        model_may_use=text_field(fields, "disable-model-invocation").lower() != "true",
    )


def _problem(name: str, description: str, compatibility: str, *, directory: str) -> str:
    if not name:
        return "the front matter has no 'name'"
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        return f"the name {name!r} must be of small letters, digits and single hyphens, at most {_MAX_NAME}"
    if name != directory:
        return f"the name {name!r} must be the name of its folder, {directory!r}"
    if not description:
        return "the front matter has no 'description'"
    if len(description) > _MAX_DESCRIPTION:
        return f"the description has {len(description):,} characters, at most {_MAX_DESCRIPTION:,} are allowed"
    if len(compatibility) > _MAX_COMPATIBILITY:
        return f"'compatibility' has {len(compatibility)} characters, at most {_MAX_COMPATIBILITY} are allowed"
    return ""


def skill_files(skill: SkillFile) -> tuple[str, ...]:
    """The paths of the files beside ``SKILL.md``, relative to its folder. Blocking."""
    folder = Path(skill.path).parent
    return tuple(sorted(_files_in(folder)))[:_MAX_LISTED_FILES]


def _files_in(folder: Path) -> Iterator[str]:
    count = 0
    for parent, folders, names in os.walk(folder):
        relative = Path(parent).relative_to(folder)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if len(relative.parts) >= _MAX_LISTED_DEPTH:
            folders.clear()
        for name in sorted(names):
            path = (relative / name).as_posix()
            if path != _FILE and not name.startswith("."):
                count += 1
                yield path
        if count > _MAX_LISTED_FILES * 4:
            return
