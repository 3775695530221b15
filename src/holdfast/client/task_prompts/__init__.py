"""The prompts that clients send for a person's standard tasks, one Markdown file each."""

from pathlib import Path


def read_task_prompt(name: str) -> str:
    """Return the text of a prompt. It reads a file."""
    return Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8").removesuffix("\n")
