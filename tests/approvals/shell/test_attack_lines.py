"""Over a thousand hostile lines: each needs approval."""

import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast.approvals.decision import Allow, Approver, Ask
from holdfast.approvals.rules import Rules, parse_rules
from holdfast.approvals.shell.git_reads import GIT_OPTIONS
from holdfast.approvals.shell.option_parser import known_options
from holdfast.approvals.shell.readonly_programs import PROGRAMS
from holdfast.approvals.workspace_paths import WorkspacePaths
from holdfast.schema.approvals import Subject
from holdfast.schema.runs import Mode
from tests.approvals.attack_lines import ATTACK_LINES
from tests.approvals.conftest import decide, make_project

_UNKNOWN = "--no-such-option"
_STILL_ALLOWED = (
    *('echo "$a $b"', 'echo "x $a $b y"', 'while read -r a b; do echo "$b $a"; done <README.md'),
    *('echo "$a $(pwd) ${b} ${c%.py} $(git log -1)"', 'echo "$a\n$b"'),
    *("cat README.md >/dev/stderr", "echo a >/dev/stdout", "cat <README.md >/dev/null", "cat <README.md 2>/dev/tty"),
    *("strings -n 5 README.md", "tree -L 2", "tree -a -I .git -L 3", "ls -w 80", "ls -I '*.pyc' src", "ls src/?.py"),
    *(
        "git diff -U5",
        "git diff --unified=5",
        "git log --format=%h -3",
        "git log --since yesterday -n 5",
        "head -n -5 README.md",
    ),
    *(
        "git log --author me",
        "git log -S text",
        "git blame -L 1,3 src/a.py",
        "git describe --abbrev=7",
        "tail -c +5 README.md",
    ),
    *("sed -n '/[a-z]/p' README.md", "sed 's/[[:space:]]//g' README.md", "sed -n '/[^a]/,/b/p' README.md"),
    *(
        "grep -e '-x' README.md",
        "grep -A 3 text README.md",
        "grep text . -r --include '*.md'",
        "head README.md -n 5",
        "uniq -c README.md",
        "sort -t , -k 2 README.md",
        "cut -d / -f 1 README.md",
    ),
    *("sh -c '[ 1 -eq 2 ] || ls'", "sh -c 'test 1 -lt 2 && ls'", '[ "$x" -eq 1 ] || ls', "echo {a,b}", "echo a,b}"),
)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with everything that the lines name, so that none is refused only because a file is missing."""
    root = make_project(tmp_path_factory.mktemp("hostile").resolve() / "project")
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret\n")
    for name in ("p", "opts", "@opts", "data.json"):
        (root / name).write_text("text\n")
    for name in ("SYMLINK", "links/link.py", "é"):
        (root / name).symlink_to(outside / "secret")
    (root / "out").unlink()
    (root / "out").symlink_to(outside)
    (root / "inner").symlink_to("src/deep")
    for repository in ("bare", "nested/.git"):
        for name in ("objects", "refs"):
            (root / repository / name).mkdir(parents=True)
        (root / repository / "HEAD").write_text("ref: refs/heads/main\n")
    return root


@pytest.fixture(scope="module")
def approver(workspace: Path) -> Approver:
    return Approver(WorkspacePaths(root=str(workspace), home=str(workspace.parent / "home")))


def _allowed(approver: Approver, workspace: Path, line: str, *, rules: Rules | None = None, mode: Mode = "ask") -> bool:
    subject = Subject(tool="bash", effect="runs", title=line, command=line, cwd=str(workspace))
    verdict = decide(approver, subject, rules=rules or Rules(), mode=mode, trusted=False)
    assert isinstance(verdict, Allow | Ask)
    return isinstance(verdict, Allow)


@pytest.mark.parametrize("kind", ATTACK_LINES)
def test_no_hostile_line_runs_without_approval(approver: Approver, workspace: Path, kind: str) -> None:
    assert [line for line in ATTACK_LINES[kind] if _allowed(approver, workspace, line)] == []


def test_harmless_forms_of_the_same_options_run_without_approval(approver: Approver, workspace: Path) -> None:
    assert [line for line in _STILL_ALLOWED if not _allowed(approver, workspace, line)] == []


def test_a_write_through_a_descriptor_needs_the_permission_to_write_the_file_behind_it(
    approver: Approver, workspace: Path
) -> None:
    rules = parse_rules(allow=("write: notes.txt",))
    assert _allowed(approver, workspace, "echo x <notes.txt >/dev/stdin", rules=rules)
    assert not _allowed(approver, workspace, "echo x <README.md >/dev/stdin", rules=rules)
    assert not _allowed(approver, workspace, "echo x <.git/config >/dev/stdin", mode="auto")


def _commands() -> list[tuple[tuple[str, ...], str]]:
    """Each installed command, with the options of it that are listed."""
    plain = [
        ((name,), program.options)
        for name, program in PROGRAMS.items()
        if shutil.which(name) and program.operands != "any" and ":" in program.options
    ]
    return [*plain, *((("git", name), options) for name, options in GIT_OPTIONS.items() if ":" in options)]


def test_every_option_with_a_value_takes_the_next_word_in_the_installed_version(tmp_path: Path) -> None:
    """Otherwise a word that counts as a value is an option or a file, and nobody checked it."""
    for words in (("init", "-q"), ("-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "x", "--allow-empty")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    wrong: list[str] = []
    for command, listed in _commands():
        if not _complains(command, (_UNKNOWN,), tmp_path):
            continue
        for name, takes in known_options(listed).items():
            if takes in {"text", "file"} and name != "-#" and _complains(command, (name, _UNKNOWN), tmp_path):
                wrong.append(" ".join((*command, name)))
    assert wrong == []


def _complains(command: tuple[str, ...], words: tuple[str, ...], directory: Path) -> bool:
    done = subprocess.run(
        [*command, *words],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "HOME": str(directory)},
        check=False,
    )
    return any(
        "such-option" in line and any(word in line for word in ("unrecognized", "unknown option", "invalid option"))
        for line in done.stderr.splitlines()
    )
