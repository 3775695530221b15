"""The prompts that clients send for a person's standard tasks, one Markdown file each."""

from pathlib import Path

INSTRUCTIONS_FILE = "AGENTS.md"
_WRITE = f"Write the file `{INSTRUCTIONS_FILE}` for this repository, in the current directory."
_UPDATE = (
    f"Improve the file `{INSTRUCTIONS_FILE}` in the current directory: correct what is not true any more, add what is"
    " missing, and remove what does not help. Keep what the user wrote and is still right, in its words."
)


def read_task_prompt(name: str) -> str:
    """Return the text of a prompt. It reads a file."""
    return Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8").removesuffix("\n")


def read_init_prompt(*, exists: bool, wish: str) -> str:
    """The prompt that lets the agent write or improve the instructions of a repository. It reads a file."""
    prompt = read_task_prompt("init").replace("{task}", _UPDATE if exists else _WRITE)
    return f"{prompt}\n\nThe user asks especially: {wish}" if wish else prompt
