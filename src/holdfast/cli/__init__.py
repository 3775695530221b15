"""The command line.

So far it tells its version and its help; the commands come with the parts they drive. Nothing heavy is imported
here: a command loads what it needs when it is called.
"""

import argparse
import sys
from collections.abc import Sequence

from holdfast import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="holdfast",
        description="A coding agent that runs as a small local server, and that loses nothing.",
        epilog="No commands yet: they come with the server they talk to.",
    )
    parser.add_argument("--version", action="version", version=f"holdfast {__version__}")
    parser.parse_args(argv)
    parser.print_help(sys.stdout)
    return 0
