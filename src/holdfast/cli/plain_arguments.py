"""Read a plain command line without argparse.

To import argparse and to make a parser with all options takes a tenth of the time of a `holdfast run`, and memory that
a server never gives back. Help, mistakes and unusual forms are left to argparse, so that there is one set of messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self


class PlainArguments:
    """Takes the arguments that a command adds to its `Parser`, and reads a command line."""

    def __init__(self) -> None:
        self.words_argument: str | None = None
        """The argument that collects all words. A command without one takes only options."""
        self._options: dict[str, PlainOption] = {}
        self._defaults: dict[str, Any] = {}
        self.add_argument("--debug", action="store_true", default=None)
        self.add_argument("-C", dest="directory")

    def explain(self, description: str, *, examples: Sequence[tuple[str, str]] = ()) -> None:
        """Help is printed by argparse."""

    def add_argument_group(self, title: str) -> Self:
        return self

    def add_argument(self, *names: str, dest: str | None = None, action: str = "store", **settings: Any) -> None:
        """Add an option, or the argument that collects all words."""
        longest = max(names, key=len)
        dest = dest or longest.lstrip("-").replace("-", "_")
        self._defaults.setdefault(dest, settings.get("default", False if action == "store_true" else None))
        if longest.startswith("-"):
            option = PlainOption(dest, action, settings)
            self._options.update((name, option) for name in names)

    def set_defaults(self, **values: Any) -> None:
        self._defaults.update(values)

    def read(self, args: Sequence[str]) -> dict[str, Any] | None:
        """The value of each argument by its name; ``None`` if argparse must read the command line."""
        values = dict(self._defaults)
        words: list[str] = []
        rest = iter(args)
        for arg in rest:
            if arg == "--" or not arg.startswith("-") or arg == "-":
                if self.words_argument is None:
                    return None
                words.extend(rest if arg == "--" else [arg])
            elif not self._read_option(arg, rest, values):
                return None
        if self.words_argument is not None:
            values[self.words_argument] = words
        return values

    def _read_option(self, arg: str, rest: Iterator[str], values: dict[str, Any]) -> bool:
        name, joined, text = arg.partition("=") if arg.startswith("--") else (arg, "", "")
        option = self._options.get(name)
        if option is None:
            return False
        if not option.takes_value:
            values[option.dest] = option.const
            return not joined
        text = text if joined else next(rest, "")
        if not text or text.startswith("-"):
            return False
        try:
            value = option.convert(text)
        except Exception:  # noqa: BLE001 - argparse converts it again, and prints why that fails
            return False
        values[option.dest] = [*values[option.dest], value] if option.repeats else value
        return option.choices is None or value in option.choices


class PlainOption:
    """One option, as argparse describes it."""

    def __init__(self, dest: str, action: str, settings: dict[str, Any]) -> None:
        self.dest = dest
        self.takes_value = action in ("store", "append")
        self.repeats = action == "append"
        self.const = settings.get("const", True)
        self.convert: Callable[[str], Any] = settings.get("type", str)
        self.choices: Sequence[Any] | None = settings.get("choices")
