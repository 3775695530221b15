"""The parser finds every command and file that bash would use."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, example, given, settings

from holdfast.approvals.shell.shell_parser import ShellParser
from tests.approvals.bash_oracle import missed, run_in_bash
from tests.approvals.shell_lines import shell_lines
from tests.support.stress import StressShare

_PARSER = ShellParser()


def _agrees_with_bash(line: str) -> bool:
    """Whether the line is clear. If it is, check that the parser found everything that bash used."""
    parsed = _PARSER.parse(line)
    if parsed.unclear:
        return False
    assert missed(parsed, run_in_bash(line)) == []
    return True


@example("c1 } {")
@example("`time x=2 c1`")
@example("time =c1")
@example("time ./x=2 c1")
@example("time x+=2 c1")
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
@example("[[ ! $x =~ ^<(b|c)$ && a < b ]] || c1")
@example("while time c1; do c2 $(c3); done")
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(shell_lines())
def test_the_parser_finds_every_command_and_file_that_bash_uses(line: str) -> None:
    _agrees_with_bash(line)


@pytest.mark.stress(weight=3)
def test_the_parser_finds_every_command_in_many_random_lines(share: StressShare) -> None:
    def agree(line: str) -> None:
        share.count("clear lines compared with bash" if _agrees_with_bash(line) else "unclear lines")

    share.examples(shell_lines(), agree, each=500)


def test_tree_sitter_is_imported_only_when_a_line_is_parsed() -> None:
    modules = "holdfast.approvals.decision, holdfast.approvals.pending_approvals"
    program = f"import sys, {modules}; print('tree_sitter' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == "False"


def test_several_threads_can_parse_at_the_same_time() -> None:
    parser = ShellParser()
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda number: parser.parse(f"c1 {number} | c2"), range(200)))
    assert [line.commands[0].argv[1].text for line in found] == [str(number) for number in range(200)]
