"""What is found in a line, and that nothing bash would run is missed."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, example, given, settings

from holdfast.approvals.shell.command_line import Shell
from tests.approvals.lines import shell_lines
from tests.approvals.oracle import run_in_bash, unseen

_SHELL = Shell()


def _agrees_with_bash(line: str) -> bool:
    """Whether the line was understood; if so, everything bash made of it was seen."""
    read = _SHELL.read(line)
    if read.unclear:
        return False
    assert unseen(read, run_in_bash(line)) == []
    return True


@example("c1 } {")
@example("`time x=2 c1`")
@example("!}! c1")
@example("c1\n\\\n c2")
@example("c1 && @x=1 c2")
@example("{}")
@example("c1 <<'EOF'EOF\n$(c2)\nEOF\n")
@example(">a >b c1 x")
@example("c1 <<<a=b<(c2)")
@example("c1 -<<EOF\n-\nEOF\n")
@example("c1 & [a] && c2")
@example("x=$ c1")
@example("x=$\nc1")
@example("c1 << EOF | c2\n $(c1 h)\n\tEOF\n")
@example("c1 <<-EOF arg\n\\ EOFx\n\nEOF\nc3 q\n")
@example("x=$(c2 p)\\`c2 } c1")
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(shell_lines())
def test_no_command_and_no_file_that_bash_would_touch_is_missed(line: str) -> None:
    _agrees_with_bash(line)


@pytest.mark.stress
@pytest.mark.timeout(900)
def test_no_command_is_missed_in_many_lines() -> None:
    counts = {True: 0, False: 0}

    @settings(max_examples=6_000, suppress_health_check=list(HealthCheck), database=None)
    @given(shell_lines())
    def agree(line: str) -> None:
        counts[_agrees_with_bash(line)] += 1

    agree()
    print(f"lines understood and compared with bash: {counts[True]}, not understood: {counts[False]}")


def test_the_parser_is_loaded_only_when_a_line_is_read() -> None:
    program = "import sys, holdfast.approvals.approver, holdfast.approvals.pending; print('tree_sitter' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == "False"


def test_several_threads_may_read_at_once() -> None:
    shell = Shell()
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda number: shell.read(f"c1 {number} | c2"), range(200)))
    assert [line.commands[0].argv[1].text for line in found] == [str(number) for number in range(200)]
