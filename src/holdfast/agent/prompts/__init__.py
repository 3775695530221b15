"""The prompts that Holdfast sends to models, one Markdown file each. A prompt is sent exactly as it is in its file."""

from pathlib import Path


def read_prompt(name: str) -> str:
    """Return the text of a prompt. Call it when a module is imported: it reads a file."""
    return Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8").removesuffix("\n")
