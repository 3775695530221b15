"""Lines that once ran without approval, lines of the same kinds, and everyday lines that must stay allowed."""

from pathlib import Path

import pytest

from holdfast.approvals.decision import Allow, Approver, Ask, Verdict
from holdfast.approvals.rules import Rules, parse_rules
from holdfast.approvals.workspace_paths import WorkspacePaths
from holdfast.schema.approvals import Subject
from holdfast.schema.runs import Mode
from tests.approvals.conftest import decide, make_project

_RUN_OR_WRITE = (
    # variables and options of shells
    *("BASH_ENV='$(touch p)' bash -c ''", "env BASH_ENV=x bash -c ''", "x=1 bash -c ''", "LC_ALL=C sh -c ls"),
    *("bash -kc \"bash -c true BASH_ENV='\\$(touch p)'\"", "bash -o keyword -c ls", "bash -opipefail -c ls"),
    *("bash -O nocaseglob -c 'cat SYML*'", "bash --rcfile x -ic ls", "bash -c +x 'touch p'", "bash -c - 'touch p'"),
    *("bash -ec 'x=!; tree' out/*", "sh -c nothing out/*", "bash -c ls a $x", 'bash -c ls a "$(ls)"'),
    *("[[ $x =~ ^<(touch p|c)$ ]]", "[[ ! $x =~ a\\\\>(touch p) && a < b ]] || ls"),
    *("bash --posix -c ls", "bash -s", "sh -ic ls", "zsh -c ls", "ksh -c ls", "LC_ALL=ja_JP.SJIS ls"),
    # shells that do not read bash
    *("sh -c \"echo \\$'\\\\'; touch p #\\\\''\"", "sh -c '[[ a > p ]]'", "sh -c '[[ a || ./evil ]]'"),
    *("sh -c 'ls &>p'", "sh -c 'ls |& cat'", "sh -c 'cat <(ls)'", "sh -c 'cat <<< x'", "sh -c 'echo {a,b}'"),
    *("dash -c 'a=(ls)'", "sh -c 'time ls'", "sh -c 'function f { ls; }'", "sh -c 'ls >& p'", "sh -c 'x+=1 ls'"),
    *('sh -c "echo \\`ls\\`"', "sh -c 'echo $\"a\"'", "sh -c 'ls >|p'", "sh -c 'cat 10< README.md'"),
    # wrappers
    *("find . -maxdepth 0 -exec sed -n p + -e '1e touch p' f \\;", "find . -exec ls \\;", "find . -execdir ls {} +"),
    *("echo 'touch p' | xargs -rIls sh -c ls", "ls | xargs -I{} echo {}", "ls | xargs -i echo", "xargs -a f echo"),
    *("x='1 touch p'; env a=$x ls", "env -u GIT_CONFIG_COUNT git status", "env -i git status", "env - ls"),
    *("exec -c git status", "exec -a x ls", "nice --adjust=5 ls", "timeout -k1 $x ls", "setsid -f ls", "ionice -p 1"),
    *("xargs printf", "xargs git log", "xargs env", "ls | xargs sed -n", "command -p -- -x"),
    # programs that only share a name
    *("./git log", "./env ls", "./bash -c ls", "./timeout 5 make", "src/ls", "../bin/git status", "~/bin/env ls"),
    # operands and options that write
    *("printf x | uniq - .git/config", "uniq README.md -", "sort -o README.md", "sort -ro x", "tree -R -H . -L 1"),
    *("printf %n PATH; ls", "printf '%-5hn' PATH", "printf -v PATH .", 'printf "$x"', "hostname x", "arch -x86_64 ls"),
    *("sed -n p README.md -i", "sed -ni p README.md", "sed -e p -f x", "sed --expression=w\\ x f", "date -us now"),
    *(
        "file -C",
        "file -p README.md",
        "git log --output=f",
        "git diff --out f",
        "git describe --dirty",
        "git show --remerge-diff",
    ),
    *("git reflog expire --all", "git branch x --list -d", "git tag x", "git remote show origin", "git stash show"),
    *("git for-each-ref --format='%(signature)'", "git log --pretty=%G?", "git config --list", "git status --fo"),
    # tests
    *("[ a > victim ]", "[ a >> victim ]", "[ a && touch p ]", "[ a || ./evil ]", "[ a; touch p ]", "[ $x ]"),
    *("x='-v a[$(touch${IFS}p)]'; [ $x ]", "op=-v; [ \"$op\" 'a[$(touch p)]' ]", "test \"$o\" 'a[$(touch p)]'"),
    *("[[ -v 'a[$(touch p)]' ]]", "[[ 'a[$(touch p)]' -eq 1 ]]", "[[ -R x ]]", "test -v x", "[ -R x ]"),
    # other repositories
    *("git -C bare status", "cd bare && git status", "git -C bare/../bare log", "git -C nested status"),
    *("GIT_DIR=bare git status", "git --git-dir=bare status", "unset GIT_CONFIG_COUNT; git status"),
    # the shell's own state
    *("declare -x", "export -p", "export", "declare", "typeset", "readonly", "set", "jq -n env", "jq -n '$ENV'"),
    *("npm_config_x=1 npm_config_y=2 ls", "export npm_config_x=1", "http_proxy=x; ls", "export x=1; ls", "read PATH"),
    *("cat <<EOF\n$((x=1))\nEOF", "ls='a[$(touch p)]'; cat <<EOF\n$((ls))\nEOF", "echo $((ls))"),
    *("echo \"${x-'$(touch p)'}\"", "cat <<EOF\n${x-'$(touch p)'}\nEOF", "echo \"${x:-'`touch p`'}\"", "cd s*; ls"),
    *("echo $((a[$(touch p)]))", "echo ${a[$(touch p)]}", "echo ${x:$(touch p)}", "unset 'a[$(touch p)]'"),
    *("mapfile -C 'touch p' -c 1 x", "read 'a[$(touch p)]'", "for PATH in .; do ls; done", "{fd}>x ls", "ls {fd}>x"),
    *("TZ=:/etc/passwd date", "TERM=../x ls", "LANGUAGE=../../x ls", "LC_ALL=/x ls", "COLUMNS='a[$(x)]' ls"),
)

_READ_OUTSIDE = (
    # globs that the shell expands in values and in parts of words
    *("x='/etc/*'; echo $x", "x=out/*; echo $x", "echo $(echo '/etc/*')", "echo `cat README.md`", "echo /etc/[p]*"),
    *("echo '/etc/'*", "echo /etc/{a,p}*", "echo {/etc,/root}/*", "read -r x < README.md; echo $x", "echo /etc/$x*"),
    *("for f in $(cat README.md); do echo $f; done", "for f in '/etc/*'; do echo $f; done", "echo '/etc/*'; echo $_"),
    *("bash -c 'echo $1' x '/etc/*'", 'echo " /etc/* " $BASH_EXECUTION_STRING', "printf '%s ' /etc/[p]*"),
    *(
        "x='/etc/*'; y=\"$x\"; echo $y",
        "echo ${x:-/etc/*}",
        "x='*'; echo /etc/$x",
        "echo $(ls)",
        "x=/etc/; x+=\\*; echo $x",
    ),
    *("strings @opts", "diff links links", "diff src src", "grep *", "cat SYML*", "bash -c 'cat SYML*'", "ls .*"),
    *("cat .?/x", "head ~root/x", "cat ~+/../x", "md5sum -c sums", "sort --files0-from=x", "du --files0-from=x"),
    *("grep -f SYMLINK x", "grep --exclude-from=SYMLINK x .", "rg -f SYMLINK", "rg --ignore-file=/x a", "date -f x"),
    *("cd src; cd ..; cd ..; ls", "cd inner/../..; ls", "cd src/deep; cd ../../../; ls", "[ -f ../x ]"),
    *(
        '[ -e "$HOME/x" ]',
        "test ../a -nt README.md",
        "[[ -d /root ]]",
        "[[ -a /root ]]",
        "git diff /etc/hosts /etc/passwd",
        "ls -L",
    ),
    *("cat < SYMLINK", "for f in SYML*; do echo $f; done", "find . -newer /etc/passwd", "file -f x", "stat -L *"),
    *("git blame --contents /etc/passwd README.md", "git grep -f SYMLINK", "git ls-files -X SYMLINK", "tail -F x"),
    *("cat out/../passwd", "ls --dereference-command-line out/", "readlink -f SYMLINK", "tree -l", "find -H out"),
)

EVERYDAY = (
    *(
        "ls",
        "ls -la",
        "ls -lah src",
        "ls -1 src | head -20",
        "cat README.md",
        "cat -n src/a.py",
        "head -n 20 README.md",
    ),
    *(
        "head -c 100 README.md",
        "tail -20 README.md",
        "wc -l src/*.py",
        "sort -u README.md",
        "sort -k2,2n -t: README.md",
    ),
    *("sort README.md | uniq -c | sort -rn | head", "grep -rn TODO .", "grep -rniE 'a|b' src --include='*.py'"),
    *(
        "grep -l x src/*.py",
        "grep -A3 -B2 text README.md",
        "grep -c '' README.md",
        "rg -n 'def \\w+' src",
        "rg --files",
    ),
    *("rg -tpy -l import", "rg -n --hidden -g '!*.lock' x", "find . -name '*.py' -not -path './node_modules/*'"),
    *("find . -type f -name '*.md' | xargs echo", "find . -maxdepth 2 -type d", "find src -mtime -1 -print0"),
    *("find . \\( -name a -o -name b \\) -print", "git status", "git status -sb", "git status --porcelain=v1"),
    *("git log --oneline -10", "git log --oneline --graph --all -n 20", "git log -p -1 -- src/a.py", "git diff"),
    *("git log --since='2 weeks ago' --author=me", "git log --format='%h %s' -5", "git diff --stat HEAD~1"),
    *("git diff --cached --name-only", "git diff main...HEAD -- src", "git show --stat HEAD", "git show HEAD:src/a.py"),
    *("git blame -L 1,10 src/a.py", "git branch -vv", "git branch --show-current", "git rev-parse --abbrev-ref HEAD"),
    *("git ls-files src", "git grep -n 'def main' -- src", "git remote -v", "git stash list", "git tag --list 'v*'"),
    *("git config --get user.email", "git shortlog -sn", "git describe --tags --always", "git worktree list"),
    *("git --no-pager log -3", "git -C src log -3", "git cat-file -p HEAD", "git merge-base main HEAD", "git reflog"),
    *("sed -n '10,20p' src/a.py", "sed -n '/def/,/return/p' src/a.py", "sed 's/a/b/g' README.md | head", "pwd"),
    *("cut -d, -f1,3 README.md", "tr a-z A-Z < README.md", "diff README.md notes.txt", "diff -u README.md notes.txt"),
    *("cmp README.md notes.txt", "stat -c %s README.md", "file README.md", "du -sh src", "df -h .", "which python3"),
    *(
        "command -v git",
        "type ls",
        "echo done",
        'echo "$HOME"',
        "printf '%s\\n' a b",
        "date",
        "date +%Y-%m-%d",
        "uname -a",
    ),
    *("whoami", "id -u", "hostname", "sleep 1", "seq 1 5", "basename src/a.py .py", "dirname src/a.py", "nproc"),
    *("md5sum README.md", "sha256sum src/*.py", "xargs -n1 echo < README.md", "tree -L 2", "jq '.a.b' README.md"),
    *("jq -r '.[] | .name' README.md", "column -t README.md", "od -c README.md | head", "hexdump -C README.md | head"),
    *("cd src && ls -la && cat a.py", "ls src && echo found || echo missing", "test -f README.md && echo yes"),
    *('[ -n "$HOME" ] && echo set', "[ -d src ] || echo no", "if [ -f README.md ]; then head -3 README.md; fi"),
    *(
        "for f in src/*.py; do echo $f; done",
        "for i in 1 2 3; do echo $i; done",
        "ls 2>/dev/null",
        "ls > /dev/null 2>&1",
    ),
    *(
        "timeout 10 grep -r x .",
        "time ls",
        "nice git log -1",
        "LC_ALL=C sort README.md",
        "env LC_ALL=C ls",
        "NO_COLOR=1 ls",
    ),
    *("bash -c 'ls | wc -l'", "bash -ec 'git status'", "sh -c 'ls src | head -3'", "sh -c 'cd src && ls 2>&1'"),
    *("sh -c 'for f in *.md; do echo \"$f\"; done'", "bash -euo pipefail -c 'ls'", "set -e; ls; pwd", "/bin/ls"),
    *(
        "/usr/bin/git status",
        "x=5; echo $x",
        "readlink -f README.md",
        "realpath src",
        "nl README.md",
        "ls; ls src; pwd",
    ),
    *("cat README.md | grep -v '^#' | head -5", "grep -q text README.md; echo $?", "cat <<'EOF'\nhello\nEOF", "! ls x"),
)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_project(tmp_path_factory.mktemp("attacks").resolve() / "project")
    for repository in ("bare", "nested/.git"):
        for name in ("objects", "refs"):
            (root / repository / name).mkdir(parents=True)
        (root / repository / "HEAD").write_text("ref: refs/heads/main\n")
    (root / "SYMLINK").symlink_to("/etc/passwd")
    (root / "inner").symlink_to("src/deep")
    return root


@pytest.fixture(scope="module")
def approver(workspace: Path) -> Approver:
    return Approver(WorkspacePaths(root=str(workspace), home=str(workspace.parent / "home")))


def _decide(
    approver: Approver, workspace: Path, line: str, *, rules: Rules | None = None, mode: Mode = "ask", path: str = ""
) -> Verdict:
    subject = Subject(tool="bash", effect="runs", title=line, command=line, cwd=str(workspace), search_path=path)
    return decide(approver, subject, rules=rules or Rules(), mode=mode)


@pytest.mark.parametrize("line", _RUN_OR_WRITE)
def test_a_line_that_could_run_or_write_something_needs_approval(
    approver: Approver, workspace: Path, line: str
) -> None:
    assert isinstance(_decide(approver, workspace, line), Ask)


@pytest.mark.parametrize("line", _READ_OUTSIDE)
def test_a_line_that_could_read_outside_the_workspace_needs_approval(
    approver: Approver, workspace: Path, line: str
) -> None:
    assert isinstance(_decide(approver, workspace, line), Ask)


@pytest.mark.parametrize("line", EVERYDAY)
def test_an_everyday_line_that_only_reads_is_allowed(approver: Approver, workspace: Path, line: str) -> None:
    assert _decide(approver, workspace, line) == Allow("it changes nothing", read_only=True)


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("bash: touch *", 'touch "$HOME/.bashrc"'),
        ("bash: cp *", "x=.git; cp evil $x/config"),
        ("bash: make *", "make $(echo x)"),
        ("bash: git log *", "git log --output=f"),
        ("bash: git log *", "git log --oneline --output=f"),
        ("bash: sort *", "sort -o .x README.md"),
        ("bash: rg *", "rg --pre ./x foo"),
        ("bash: find *", "find . -delete"),
        ("bash: find *", "find . -exec rm {} +"),
        ("bash", "touch $X"),
    ],
)
def test_a_rule_must_name_expansions_and_options_that_do_more(
    approver: Approver, workspace: Path, rule: str, line: str
) -> None:
    assert isinstance(_decide(approver, workspace, line, rules=parse_rules(allow=(rule,))), Ask)


def test_a_rule_that_names_the_option_covers_it(approver: Approver, workspace: Path) -> None:
    for rule, line in (("bash: sed -i *", "sed -i s/a/b/ README.md"), ("bash: find . -delete", "find . -delete")):
        assert isinstance(_decide(approver, workspace, line, rules=parse_rules(allow=(rule,))), Allow)


@pytest.mark.parametrize(
    "line",
    [
        "cd x1; cd x2; cd x3; cd .git; echo > config",
        "cd a; cd b; cd c; cd d; cd e; cd f; cd g; cd .git; echo > config",
        "dd if=x of=.git/config",
        "cp x --target-directory=.git",
    ],
)
def test_auto_asks_before_a_protected_file_may_be_written(approver: Approver, workspace: Path, line: str) -> None:
    rules = parse_rules(deny=("bash: shutdown *",))
    assert isinstance(_decide(approver, workspace, line, rules=rules, mode="auto"), Ask)


def test_a_denied_command_is_found_behind_any_assignment_of_env(approver: Approver, workspace: Path) -> None:
    rules = parse_rules(deny=("bash: rm *",))
    for line in ("env A.B=1 rm x", "env 1=2 rm x", "env =x rm x", "./env rm x", "bin/env A=1 rm x", "./sh -c 'rm x'"):
        assert not isinstance(_decide(approver, workspace, line, rules=rules, mode="auto"), Allow), line


def test_a_program_found_in_the_workspace_is_not_the_one_that_its_name_says(
    approver: Approver, workspace: Path, tmp_path: Path
) -> None:
    own = workspace / "bin"
    own.mkdir(exist_ok=True)
    for name in ("ls", "timeout", "grep"):
        (own / name).write_text("#!/bin/sh\n")
        (own / name).chmod(0o755)
    for line in ("ls", "timeout 5 cat README.md", "env ls", "bash -c ls", "egrep text README.md"):
        assert isinstance(_decide(approver, workspace, line, path=f"{own}:/usr/bin:/bin"), Ask), line
        assert isinstance(_decide(approver, workspace, line, path="bin:/usr/bin:/bin"), Ask), line
        assert isinstance(_decide(approver, workspace, line, path=f"/usr/bin:/bin:{own}"), Allow), line
    assert isinstance(_decide(approver, workspace, "cat README.md", path=f"{own}:/usr/bin:/bin"), Allow)
    assert isinstance(_decide(approver, workspace, "echo x", path=f"{own}:/usr/bin:/bin"), Allow)
    (own / "bash").write_text("#!/bin/sh\n")
    (own / "bash").chmod(0o755)
    assert isinstance(_decide(approver, workspace, "echo x", path=f"{own}:/usr/bin:/bin"), Ask)


def test_a_glob_in_a_line_that_also_writes_needs_approval(approver: Approver, workspace: Path) -> None:
    rules = parse_rules(allow=("bash: touch *",))
    assert isinstance(_decide(approver, workspace, "touch ./-delete; find . -name *", rules=rules), Ask)
    assert isinstance(_decide(approver, workspace, "touch x; ls *", rules=rules), Ask)
    assert isinstance(_decide(approver, workspace, "touch x; ls", rules=rules), Allow)
