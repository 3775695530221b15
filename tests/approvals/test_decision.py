"""The precedence of rules, the modes, and the permissions that no mode gives."""

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.approvals.decision import Allow, Approver, Ask, Deny, Verdict
from holdfast.approvals.rules import Rules, parse_rules
from holdfast.approvals.shell.shell_parser import ShellParser
from holdfast.approvals.workspace_paths import WorkspacePaths
from holdfast.schema.approvals import Effect, Subject
from holdfast.schema.runs import Mode
from tests.approvals.conftest import decide
from tests.approvals.shell_lines import shell_lines

_MODES: tuple[Mode, ...] = get_args(Mode)


class Calls:
    """Builds calls in one workspace and decides about them."""

    def __init__(self, workspace: Path, approver: Approver) -> None:
        self.workspace = workspace
        self._approver = approver

    def bash(
        self,
        line: str,
        *,
        mode: Mode = "ask",
        rules: Rules | None = None,
        trusted: bool = True,
        cwd: str = ".",
        interactive: bool = True,
    ) -> Verdict:
        subject = Subject(tool="bash", effect="runs", title=line, command=line, cwd=str(self.workspace / cwd))
        return self._approver.decide(
            subject, mode=mode, rules=rules or Rules(), trusted=trusted, interactive=interactive
        )

    def file(
        self,
        tool: str,
        path: str,
        *,
        effect: Effect = "writes",
        mode: Mode = "ask",
        rules: Rules | None = None,
        **more: bool,
    ) -> Verdict:
        subject = Subject(tool=tool, effect=effect, title=path, paths=(str(self.workspace / path),))
        return decide(self._approver, subject, mode=mode, rules=rules or Rules(), **more)

    def url(self, url: str, *, mode: Mode = "ask", rules: Rules | None = None) -> Verdict:
        subject = Subject(tool="fetch", effect="network", title=url, url=url)
        return decide(self._approver, subject, mode=mode, rules=rules or Rules())


@pytest.fixture
def calls(workspace: Path, approver: Approver) -> Calls:
    return Calls(workspace, approver)


@pytest.mark.parametrize("mode", _MODES)
def test_a_deny_rule_overrides_every_allow_rule_grant_and_mode(calls: Calls, mode: Mode) -> None:
    rules = parse_rules(deny=("bash: rm *",), allow=("bash: rm *", "bash"), grants=("bash: rm x",))
    assert calls.bash("rm x", mode=mode, rules=rules) == Deny("'rm x' is denied by the rule 'bash: rm *'", "bash: rm *")


def test_auto_asks_only_what_the_readme_says(calls: Calls, tmp_path: Path) -> None:
    for allowed in (
        calls.file("write", "a.py", mode="auto"),
        calls.bash("make && ./run.sh; python3 -c 'print(1)'", mode="auto"),
        calls.bash("eval $x", mode="auto"),
        calls.url("https://example.org/", mode="auto"),
        calls.file("view", str(tmp_path / "outside"), effect="reads", mode="auto"),
    ):
        assert isinstance(allowed, Allow)
    for asked in (
        calls.file("write", str(tmp_path / "outside.txt"), mode="auto"),
        calls.file("write", ".git/config", mode="auto"),
        calls.bash("eval $x", mode="auto", rules=parse_rules(deny=("bash: rm *",))),
    ):
        assert isinstance(asked, Ask)  # and commands that leave the sandbox: test_escalation


def test_a_grant_allows_a_call_that_would_be_asked_about(calls: Calls) -> None:
    assert calls.bash("make all") == Ask("make all", ("bash: make all",))
    assert calls.bash("make all", rules=parse_rules(grants=("bash: make all",))) == Allow("allowed by 'bash: make all'")


def test_every_command_of_a_line_must_be_allowed(calls: Calls) -> None:
    rules = parse_rules(allow=("bash: make *",))
    assert isinstance(calls.bash("make a | make b", rules=rules), Allow)
    assert calls.bash("make a && ./deploy now", rules=rules) == Ask("./deploy now", ("bash: ./deploy now",))


def test_the_offered_rules_allow_the_same_line_later(calls: Calls) -> None:
    line = "cargo build --release && ./tool 'a b' > log.txt"
    asked = calls.bash(line)
    assert isinstance(asked, Ask)
    assert asked.patterns == ("bash: cargo build *", "bash: ./tool 'a b'", "write: ./log.txt")
    assert isinstance(calls.bash(line, rules=parse_rules(allow=asked.patterns)), Allow)
    assert isinstance(calls.bash(line, rules=parse_rules(allow=asked.patterns[:2])), Ask)


@pytest.mark.parametrize(
    "line", ["rm $X", "eval ls", "ls '", "f() { ls; }", "echo x > ~/.bashrc", "rm .git/x", "cat $X", "PATH=.; ls"]
)
def test_a_line_that_no_rule_can_describe_offers_no_rule(calls: Calls, line: str) -> None:
    asked = calls.bash(line)
    assert isinstance(asked, Ask)
    assert asked.patterns == ()


def test_no_wildcard_rule_is_offered_for_a_command_that_can_run_anything(calls: Calls) -> None:
    for line in (
        "python -m x",
        "bash x.sh",
        "sudo apt update",
        "git config a.b c",
        "npm exec x y",
        "rm -r d",
        "git diff --ext-diff",
    ):
        asked = calls.bash(line)
        assert isinstance(asked, Ask)
        assert not any(pattern.endswith(" *") and pattern.count(" ") < 4 for pattern in asked.patterns), asked


def test_plan_denies_calls_that_may_change_something_even_if_a_rule_allows_them(calls: Calls) -> None:
    rules = parse_rules(allow=("bash", "write", "edit"))
    for line in ("make", "echo x > y", "ls > y", "eval ls", "PATH=. ls", "ls '"):
        assert isinstance(calls.bash(line, mode="plan", rules=rules), Deny)
    assert isinstance(calls.bash("ls | wc -l", mode="plan"), Allow)
    assert isinstance(calls.bash("cat /etc/hosts", mode="plan"), Ask)
    assert isinstance(calls.file("edit", "README.md", mode="plan", rules=rules), Deny)
    assert isinstance(calls.file("view", "README.md", effect="reads", mode="plan"), Allow)
    assert isinstance(calls.url("https://example.com/", mode="plan"), Ask)


def test_accept_edits_allows_only_writing_files_inside_the_workspace(calls: Calls) -> None:
    assert isinstance(calls.file("edit", "README.md", mode="accept_edits"), Allow)
    assert isinstance(calls.bash("echo x > y", mode="accept_edits"), Allow)
    assert isinstance(calls.file("write", "../x", mode="accept_edits"), Ask)
    assert isinstance(calls.file("write", "out/x", mode="accept_edits"), Ask)
    assert isinstance(calls.bash("make > y", mode="accept_edits"), Ask)
    assert isinstance(calls.url("https://example.com/", mode="accept_edits"), Ask)


def test_auto_allows_everything_that_is_not_denied(calls: Calls) -> None:
    for line in ("rm -rf x", "cat /etc/hosts", "echo x > /tmp/y", "eval ls", "sudo make", "ls '"):
        assert isinstance(calls.bash(line, mode="auto"), Allow)
    assert isinstance(calls.url("https://example.com/", mode="auto"), Allow)


def test_auto_asks_if_a_deny_rule_may_apply(calls: Calls) -> None:
    rules = parse_rules(deny=("bash: git push *",))
    for line in ("eval $X", "git $X", "ls '", "$X", "cat x | sh"):
        assert isinstance(calls.bash(line, mode="auto", rules=rules), Ask)
    assert isinstance(calls.bash("git pull $X && rm -rf y", mode="auto", rules=rules), Allow)


@pytest.mark.parametrize("mode", [mode for mode in _MODES if mode != "plan"])
@pytest.mark.parametrize(
    "path",
    [
        *(".git/config", ".git/hooks/pre-commit", "src/.git", ".GIT/config", ".holdfast/config.toml", ".bashrc"),
        *("src/.zshrc", ".envrc", ".ssh/authorized_keys", ".config/fish/conf.d/x.fish"),
    ],
)
def test_writing_a_protected_file_needs_approval_in_every_mode(calls: Calls, path: str, mode: Mode) -> None:
    rules = parse_rules(allow=("write", "bash", f"write: {path}"), grants=(f"write: {path}",))
    for verdict in (
        calls.file("write", path, mode=mode, rules=rules),
        calls.bash(f"echo x > {path}", mode=mode, rules=rules),
        calls.bash(f"cp x {path}", mode=mode, rules=rules),
    ):
        assert isinstance(verdict, Ask)
        assert verdict.patterns == ()


def test_holdfasts_own_files_are_protected_in_any_directory(approver: Approver, paths: WorkspacePaths) -> None:
    subject = Subject(tool="write", effect="writes", title="x", paths=(f"{paths.own_directories[0]}/config.toml",))
    verdict = decide(approver, subject, mode="auto", rules=parse_rules(allow=("write",)))
    assert verdict == Ask(f"{paths.own_directories[0]}/config.toml is one of Holdfast's own files")


def test_a_rule_must_name_files_outside_the_workspace(calls: Calls) -> None:
    for rules, line in (
        (("bash: cat *",), "cat /etc/hosts"),
        (("bash",), "make -C /tmp"),
        (("bash: cat *.log",), "cat /var/x.log"),
        (("bash: cat /usr/include/*",), "cat /usr/include/../../etc/shadow"),
        (("bash: make *",), "make -f/tmp/x"),
    ):
        assert isinstance(calls.bash(line, rules=parse_rules(allow=rules)), Ask), line
    for rules, line in (
        (("bash: cat /etc/hosts",), "cat /etc/hosts"),
        (("bash: cat /usr/include/*",), "cat /usr/include/stdio.h"),
        (("bash: make -C /tmp *",), "make -C /tmp all"),
    ):
        assert isinstance(calls.bash(line, rules=parse_rules(allow=rules)), Allow), line


def test_files_outside_the_workspace_need_approval_with_any_tool(calls: Calls) -> None:
    assert calls.file("view", "/etc/hosts", effect="reads") == Ask(
        "/etc/hosts is outside the workspace", ("view: /etc/hosts",)
    )
    assert isinstance(calls.file("view", "out/hosts", effect="reads"), Ask)
    assert isinstance(calls.file("view", "/etc/hosts", effect="reads", rules=parse_rules(allow=("view",))), Ask)
    assert isinstance(
        calls.file("view", "/etc/hosts", effect="reads", rules=parse_rules(allow=("view: /etc/*",))), Allow
    )
    assert isinstance(calls.file("view", "/etc/hosts", effect="reads", rules=parse_rules(allow=("view: hosts",))), Ask)


def test_a_glob_that_matches_a_file_named_like_an_option_needs_approval(calls: Calls) -> None:
    assert isinstance(calls.bash("ls *", cwd="odd"), Ask)
    assert isinstance(calls.bash("ls ./*", cwd="odd"), Allow)
    assert isinstance(calls.bash("ls *", cwd="src"), Allow)


def test_a_write_rule_applies_to_every_tool_that_writes(calls: Calls) -> None:
    rules = parse_rules(deny=("write: .env",), allow=("write: docs/*",))
    for tool in ("write", "edit", "multiedit", "apply_patch"):
        assert isinstance(calls.file(tool, ".env", mode="auto", rules=rules), Deny)
        assert isinstance(calls.file(tool, "src/.env", mode="auto", rules=rules), Deny)
        assert isinstance(calls.file(tool, "docs/a/b.md", rules=rules), Allow)
    assert isinstance(calls.file("edit", "x", rules=parse_rules(allow=("edit: x",))), Allow)
    assert isinstance(calls.file("write", "x", rules=parse_rules(allow=("edit: x",))), Ask)


def test_a_call_on_several_files_needs_permission_for_each(workspace: Path, approver: Approver) -> None:
    subject = Subject(
        tool="apply_patch", effect="writes", title="2 files", paths=(str(workspace / "docs/a"), str(workspace / "b"))
    )
    assert decide(approver, subject, mode="ask", rules=parse_rules(allow=("write: docs/*",))) == Ask(
        "b", ("write: ./b",)
    )


def test_a_run_that_cannot_ask_is_denied_with_the_reason(calls: Calls) -> None:
    verdict = calls.bash("make", interactive=False)
    assert verdict == Deny("this needs approval, and this run cannot ask for it: make", unasked=True)
    assert isinstance(calls.bash("make", interactive=False, mode="auto"), Allow)
    assert isinstance(calls.bash("ls", interactive=False), Allow)
    assert isinstance(calls.bash("echo x > .git/config", interactive=False, mode="auto"), Deny)


@pytest.mark.parametrize("mode", ["ask", "plan"])
def test_git_that_reads_is_allowed_in_an_untrusted_directory_if_its_repository_names_no_programs(
    calls: Calls, mode: Mode
) -> None:
    config = calls.workspace / ".git" / "config"
    config.write_text('[core]\n\tbare = false\n[remote "origin"]\n\turl = https://example.org/x\n')
    verdict = calls.bash("git status", trusted=False, interactive=False, mode=mode)
    assert verdict == Allow("it changes nothing", read_only=True)
    config.write_text("[core]\n\tfsmonitor = ./x\n")  # commands that run without approval override it
    assert calls.bash("git status", trusted=False, interactive=False, mode=mode) == verdict
    config.write_text('[filter "x"]\n\tclean = ./x\n')
    assert isinstance(calls.bash("git status", trusted=False), Ask)
    assert isinstance(calls.bash("git status", trusted=False, rules=parse_rules(allow=("bash: git status *",))), Allow)
    assert isinstance(calls.bash("ls", trusted=False), Allow)


def test_only_a_call_that_changes_nothing_is_read_only(calls: Calls) -> None:
    rules = parse_rules(allow=("bash: make", "bash: cat /etc/hosts"))
    for line, read_only in (("ls", True), ("cat /etc/hosts", True), ("make", False), ("ls; make", False)):
        verdict = calls.bash(line, rules=rules)
        assert isinstance(verdict, Allow)
        assert verdict.read_only is read_only, line


def test_a_url_rule_matches_the_exact_host_and_no_look_alike(calls: Calls) -> None:
    asked = calls.url("https://Docs.Python.org/3/")
    assert asked == Ask("reaches https://Docs.Python.org/3/", ("fetch: https://docs.python.org/*",))
    rules = parse_rules(allow=("fetch: https://docs.python.org/*", "fetch: https://*.example.com/a/*"))
    for url in ("https://docs.python.org/", "https://docs.python.org/3/?q=1", "https://x.y.example.com/a/b"):
        assert isinstance(calls.url(url, rules=rules), Allow), url
    for url in (
        *("http://docs.python.org/", "https://docs.python.org.evil.com/", "https://docs.python.org@evil.com/"),
        *(
            "https://docs.python.org:8443/",
            "https://evil.com/https://docs.python.org/",
            "https://docs.python.org\\@evil.com/",
        ),
        *(
            "https://x.example.com/a/../b",
            "https://x.example.com/a/%2e%2e/b",
            "https://notexample.com/a/b",
            "https://example.com.evil/a/b",
        ),
        *(
            "https://docs.pythоn.org/",
            "file:///etc/passwd",
            "https://docs.python.org%2f.evil.com/",
            "https://[::1",
            "x" * 9,
        ),
    ):
        assert isinstance(calls.url(url, rules=rules), Ask), url


def test_rules_for_other_tools_match_their_name(approver: Approver) -> None:
    subject = Subject(tool="mcp_docs_read", effect="runs", title="guide.md")
    assert decide(approver, subject, mode="ask", rules=Rules()) == Ask("guide.md", ("mcp_docs_read",))
    for rule in ("mcp_docs_read", "mcp_docs_*", "mcp_docs_read: *.md"):
        assert isinstance(decide(approver, subject, mode="ask", rules=parse_rules(allow=(rule,))), Allow)
    for rule in ("mcp_other_*", "mcp_docs_read: *.txt"):
        assert isinstance(decide(approver, subject, mode="ask", rules=parse_rules(allow=(rule,))), Ask)
    assert isinstance(decide(approver, subject, mode="auto", rules=parse_rules(deny=("mcp_*",))), Deny)


def test_a_tool_without_an_effect_is_allowed_unless_denied(approver: Approver) -> None:
    subject = Subject(tool="todos", effect="none", title="todos")
    assert isinstance(decide(approver, subject, mode="plan", rules=Rules()), Allow)
    assert isinstance(decide(approver, subject, mode="ask", rules=parse_rules(deny=("todos",))), Deny)


@pytest.mark.parametrize("effect", ["network", "writes"])
def test_a_download_needs_permission_for_its_site_and_its_file(
    workspace: Path, approver: Approver, effect: Effect
) -> None:
    subject = Subject(tool="download", effect=effect, title="x", url="https://a.org/f", paths=(str(workspace / "f"),))
    asked = decide(approver, subject, mode="ask", rules=Rules())
    assert isinstance(asked, Ask)
    assert set(asked.patterns) == {"download: https://a.org/*", "write: ./f"}
    assert isinstance(decide(approver, subject, mode="accept_edits", rules=Rules()), Ask)
    assert isinstance(decide(approver, subject, mode="ask", rules=parse_rules(allow=asked.patterns)), Allow)
    assert isinstance(decide(approver, subject, mode="plan", rules=Rules()), Deny)


_DENIES = parse_rules(deny=("bash: c1 *",))


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(line=st.one_of(shell_lines(), st.text(max_size=60)), mode=st.sampled_from(_MODES))
def test_any_line_gets_a_verdict_and_an_unclear_one_is_never_allowed(calls: Calls, line: str, mode: Mode) -> None:
    verdict = calls.bash(line, mode=mode, rules=_DENIES)
    if ShellParser().parse(line).unclear:
        assert not isinstance(verdict, Allow)


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(line=shell_lines())
def test_a_line_with_a_denied_command_is_never_allowed(calls: Calls, line: str) -> None:
    """`test_shell_parser` shows that the parser finds every command that bash would run."""
    rules = parse_rules(deny=("bash: c1 *", "bash: c2 *", "bash: c3 *"), allow=("bash", "write"))
    if any(command.name in {"c1", "c2", "c3"} for command in ShellParser().parse(line).commands):
        assert isinstance(calls.bash(line, mode="auto", rules=rules), Deny)


def test_readable_directories_may_be_read_but_not_written(workspace: Path, tmp_path: Path) -> None:
    outputs = tmp_path / "data" / "outputs"
    outputs.mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "data")
    linked = str(tmp_path / "link" / "outputs")
    calls = Calls(
        workspace,
        Approver(
            WorkspacePaths(
                str(workspace), "/h", own_directories=(str(tmp_path / "link"),), readable_directories=(linked,)
            )
        ),
    )
    assert isinstance(calls.file("view", str(outputs / "call_1"), effect="reads"), Allow)
    assert isinstance(calls.bash(f"tail -5 {outputs}/call_1"), Allow)
    assert isinstance(calls.bash(f"wc -l < {outputs}/call_1"), Allow)
    assert isinstance(calls.file("view", str(tmp_path / "data" / "x"), effect="reads"), Ask)
    assert isinstance(calls.file("write", str(outputs / "call_1"), mode="auto"), Ask)
    assert isinstance(calls.bash(f"echo x > {outputs}/call_1", mode="auto"), Ask)


async def test_consider_does_not_block_the_event_loop(approver: Approver, workspace: Path) -> None:
    subject = Subject(tool="bash", effect="runs", title="", command="cat out/*", cwd=str(workspace))
    verdict = await approver.consider(subject, mode="ask", rules=Rules(), trusted=True, interactive=True)
    assert isinstance(verdict, Ask)


@pytest.mark.parametrize("mode", ["ask", "accept_edits", "auto"])
def test_no_mode_gives_a_write_outside_the_workspace(calls: Calls, mode: Mode) -> None:
    assert isinstance(calls.file("write", "../x", mode=mode), Ask)


def test_a_run_that_cannot_ask_is_not_told_where_a_path_outside_leads(calls: Calls) -> None:
    denied = calls.file("edit", "../x", mode="auto", interactive=False)
    assert isinstance(denied, Deny)
    assert denied.why.endswith("cannot ask for it: the path is outside the workspace")


def test_a_read_only_sandbox_holds_for_the_file_tools(calls: Calls) -> None:
    assert isinstance(calls.file("write", "x", mode="auto", read_only=True), Ask)
    rules = parse_rules(allow=("write: ./x",))
    assert isinstance(calls.file("write", "x", mode="auto", read_only=True, rules=rules), Allow)
    assert isinstance(calls.file("view", "x", effect="reads", mode="auto", read_only=True), Allow)
