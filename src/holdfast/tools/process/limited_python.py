"""Calls a function of ours in a process that can be killed: some input takes a library minutes or gigabytes.

The process gets its input on standard input and has an empty environment. The kernel limits its time and memory, so it
ends even if the server dies.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import holdfast

_MEMORY_BYTES = 1 << 30
_MOST_WAIT = 4.0
"""How much longer than its processor time a process may take, on a busy machine."""


async def call_limited(function: str, data: bytes, *arguments: str, seconds: float) -> bytes | None:
    """Call ``module:function`` with the data and the arguments. Return None if it takes too long or fails.

    ``seconds``: its processor time.
    """
    import asyncio  # not in the process that is started

    from holdfast.tools.process.subprocess_end import kill_and_reap

    root = str(Path(holdfast.__file__).parents[1])
    start = f"import sys; sys.path.append({root!r}); from holdfast.tools.process.limited_python import main; main()"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-c",
        start,
        str(max(1, round(seconds))),
        function,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(seconds * _MOST_WAIT):
            output, _ = await process.communicate(data)
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            await kill_and_reap(process)
    return output if process.returncode == 0 else None


def main() -> None:
    """Call the function with standard input. Arguments: the seconds of processor time, the function, its arguments."""
    import resource
    from importlib import import_module

    seconds, (module, _, name) = int(sys.argv[1]), sys.argv[2].partition(":")
    for limit, value in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, _MEMORY_BYTES)):
        with suppress(ValueError, OSError):  # a lower limit is already set, or the system has none
            resource.setrlimit(limit, (value, value))
    result: bytes = getattr(import_module(module), name)(sys.stdin.buffer.read(), *sys.argv[3:])
    sys.stdout.buffer.write(result)
