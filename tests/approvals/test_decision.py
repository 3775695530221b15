"""The order of decisions, the modes, and what no mode lifts."""

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.approvals.approver import Approver
from holdfast.approvals.decision import Allow, Ask, Deny, Verdict
from holdfast.approvals.path_location import Places
from holdfast.approvals.rules import Rules, read_rules
from holdfast.approvals.shell.command_line import Shell
from holdfast.schema.approvals import Effect, Subject
from holdfast.schema.runs import Mode
from tests.approvals.lines import shell_lines

_MODES: tuple[Mode, ...] = get_args(Mode)


class Desk:
    """Decides about calls in one workspace."""

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
        self, tool: str, path: str, *, effect: Effect = "writes", mode: Mode = "ask", rules: Rules | None = None
    ) -> Verdict:
        subject = Subject(tool=tool, effect=effect, title=path, paths=(str(self.workspace / path),))
        return self._approver.decide(subject, mode=mode, rules=rules or Rules())

    def url(self, url: str, *, mode: Mode = "ask", rules: Rules | None = None) -> Verdict:
        subject = Subject(tool="fetch", effect="network", title=url, url=url)
        return self._approver.decide(subject, mode=mode, rules=rules or Rules())


@pytest.fixture
def desk(workspace: Path, approver: Approver) -> Desk:
    return Desk(workspace, approver)


@pytest.mark.parametrize("mode", _MODES)
def test_a_configured_deny_beats_every_allow_every_grant_and_every_mode(desk: Desk, mode: Mode) -> None:
    rules = read_rules(deny=("bash: rm *",), allow=("bash: rm *", "bash"), grants=("bash: rm x",))
    assert desk.bash("rm x", mode=mode, rules=rules) == Deny("'rm x' is denied by the rule 'bash: rm *'", "bash: rm *")


def test_a_grant_allows_what_would_be_asked(desk: Desk) -> None:
    assert desk.bash("make all") == Ask("make all", ("bash: make all",))
    assert desk.bash("make all", rules=read_rules(grants=("bash: make all",))) == Allow("allowed by 'bash: make all'")


def test_every_command_of_a_line_must_be_allowed(desk: Desk) -> None:
    rules = read_rules(allow=("bash: make *",))
    assert isinstance(desk.bash("make a | make b", rules=rules), Allow)
    assert desk.bash("make a && ./deploy now", rules=rules) == Ask("./deploy now", ("bash: ./deploy now",))


def test_what_always_would_save_is_what_then_allows_the_line(desk: Desk) -> None:
    line = "cargo build --release && ./tool 'a b' > log.txt"
    asked = desk.bash(line)
    assert isinstance(asked, Ask)
    assert asked.patterns == ("bash: cargo build *", "bash: ./tool 'a b'", "write: ./log.txt")
    assert isinstance(desk.bash(line, rules=read_rules(allow=asked.patterns)), Allow)
    assert isinstance(desk.bash(line, rules=read_rules(allow=asked.patterns[:2])), Ask)


@pytest.mark.parametrize(
    "line", ["rm $X", "eval ls", "ls '", "f() { ls; }", "echo x > ~/.bashrc", "rm .git/x", "cat $X", "PATH=.; ls"]
)
def test_what_no_rule_can_describe_offers_none(desk: Desk, line: str) -> None:
    asked = desk.bash(line)
    assert isinstance(asked, Ask)
    assert asked.patterns == ()


def test_a_wide_rule_is_never_offered_for_what_can_run_anything(desk: Desk) -> None:
    for line in (
        "python -m x",
        "bash x.sh",
        "sudo apt update",
        "git config a.b c",
        "npm exec x y",
        "rm -r d",
        "git diff --ext-diff",
    ):
        asked = desk.bash(line)
        assert isinstance(asked, Ask)
        assert not any(pattern.endswith(" *") and pattern.count(" ") < 4 for pattern in asked.patterns), asked


def test_plan_denies_whatever_may_change_something_even_if_a_rule_allows_it(desk: Desk) -> None:
    rules = read_rules(allow=("bash", "write", "edit"))
    for line in ("make", "echo x > y", "ls > y", "eval ls", "PATH=. ls", "ls '"):
        assert isinstance(desk.bash(line, mode="plan", rules=rules), Deny)
    assert isinstance(desk.bash("ls | wc -l", mode="plan"), Allow)
    assert isinstance(desk.bash("cat /etc/hosts", mode="plan"), Ask)
    assert isinstance(desk.file("edit", "README.md", mode="plan", rules=rules), Deny)
    assert isinstance(desk.file("view", "README.md", effect="reads", mode="plan"), Allow)
    assert isinstance(desk.url("https://example.com/", mode="plan"), Ask)


def test_accept_edits_lets_files_inside_be_written_and_nothing_else(desk: Desk) -> None:
    assert isinstance(desk.file("edit", "README.md", mode="accept_edits"), Allow)
    assert isinstance(desk.bash("echo x > y", mode="accept_edits"), Allow)
    assert isinstance(desk.file("write", "../x", mode="accept_edits"), Ask)
    assert isinstance(desk.file("write", "out/x", mode="accept_edits"), Ask)
    assert isinstance(desk.bash("make > y", mode="accept_edits"), Ask)
    assert isinstance(desk.url("https://example.com/", mode="accept_edits"), Ask)


def test_auto_lets_everything_happen_but_what_is_denied(desk: Desk) -> None:
    for line in ("rm -rf x", "cat /etc/hosts", "echo x > /tmp/y", "eval ls", "sudo make", "ls '"):
        assert desk.bash(line, mode="auto") == Allow("the mode is auto")
    assert isinstance(desk.file("write", "../x", mode="auto"), Allow)
    assert isinstance(desk.url("https://example.com/", mode="auto"), Allow)


def test_auto_asks_where_it_cannot_be_told_whether_a_deny_rule_holds(desk: Desk) -> None:
    rules = read_rules(deny=("bash: git push *",))
    for line in ("eval $X", "git $X", "ls '", "$X", "cat x | sh"):
        assert isinstance(desk.bash(line, mode="auto", rules=rules), Ask)
    assert isinstance(desk.bash("git pull $X && rm -rf y", mode="auto", rules=rules), Allow)


@pytest.mark.parametrize("mode", [mode for mode in _MODES if mode != "plan"])
@pytest.mark.parametrize(
    "path",
    [
        *(".git/config", ".git/hooks/pre-commit", "src/.git", ".GIT/config", ".holdfast/config.toml", ".bashrc"),
        *("src/.zshrc", ".envrc", ".ssh/authorized_keys", ".config/fish/conf.d/x.fish"),
    ],
)
def test_protected_files_are_asked_about_in_every_mode_and_under_every_rule(desk: Desk, path: str, mode: Mode) -> None:
    rules = read_rules(allow=("write", "bash", f"write: {path}"), grants=(f"write: {path}",))
    for verdict in (
        desk.file("write", path, mode=mode, rules=rules),
        desk.bash(f"echo x > {path}", mode=mode, rules=rules),
        desk.bash(f"cp x {path}", mode=mode, rules=rules),
    ):
        assert isinstance(verdict, Ask)
        assert verdict.patterns == ()


def test_holdfasts_own_files_are_protected_wherever_they_lie(approver: Approver, places: Places) -> None:
    subject = Subject(tool="write", effect="writes", title="x", paths=(f"{places.own[0]}/config.toml",))
    verdict = approver.decide(subject, mode="auto", rules=read_rules(allow=("write",)))
    assert verdict == Ask(f"{places.own[0]}/config.toml is Holdfast's own files")


def test_a_rule_must_name_what_lies_outside_of_the_workspace(desk: Desk) -> None:
    for rules, line in (
        (("bash: cat *",), "cat /etc/hosts"),
        (("bash",), "make -C /tmp"),
        (("bash: cat *.log",), "cat /var/x.log"),
        (("bash: cat /usr/include/*",), "cat /usr/include/../../etc/shadow"),
        (("bash: make *",), "make -f/tmp/x"),
    ):
        assert isinstance(desk.bash(line, rules=read_rules(allow=rules)), Ask), line
    for rules, line in (
        (("bash: cat /etc/hosts",), "cat /etc/hosts"),
        (("bash: cat /usr/include/*",), "cat /usr/include/stdio.h"),
        (("bash: make -C /tmp *",), "make -C /tmp all"),
    ):
        assert isinstance(desk.bash(line, rules=read_rules(allow=rules)), Allow), line


def test_files_outside_are_asked_about_whatever_the_tool(desk: Desk) -> None:
    assert desk.file("view", "/etc/hosts", effect="reads") == Ask(
        "/etc/hosts is outside of the workspace", ("view: /etc/hosts",)
    )
    assert isinstance(desk.file("view", "out/hosts", effect="reads"), Ask)
    assert isinstance(desk.file("view", "/etc/hosts", effect="reads", rules=read_rules(allow=("view",))), Ask)
    assert isinstance(desk.file("view", "/etc/hosts", effect="reads", rules=read_rules(allow=("view: /etc/*",))), Allow)
    assert isinstance(desk.file("view", "/etc/hosts", effect="reads", rules=read_rules(allow=("view: hosts",))), Ask)


def test_a_glob_that_matches_what_looks_like_an_option_is_asked_about(desk: Desk) -> None:
    assert isinstance(desk.bash("ls *", cwd="odd"), Ask)
    assert isinstance(desk.bash("ls ./*", cwd="odd"), Allow)
    assert isinstance(desk.bash("ls *", cwd="src"), Allow)


def test_a_write_rule_speaks_of_every_tool_that_writes(desk: Desk) -> None:
    rules = read_rules(deny=("write: .env",), allow=("write: docs/*",))
    for tool in ("write", "edit", "multiedit", "apply_patch"):
        assert isinstance(desk.file(tool, ".env", mode="auto", rules=rules), Deny)
        assert isinstance(desk.file(tool, "src/.env", mode="auto", rules=rules), Deny)
        assert isinstance(desk.file(tool, "docs/a/b.md", rules=rules), Allow)
    assert isinstance(desk.file("edit", "x", rules=read_rules(allow=("edit: x",))), Allow)
    assert isinstance(desk.file("write", "x", rules=read_rules(allow=("edit: x",))), Ask)


def test_a_call_on_several_files_needs_all_of_them(workspace: Path, approver: Approver) -> None:
    subject = Subject(
        tool="apply_patch", effect="writes", title="2 files", paths=(str(workspace / "docs/a"), str(workspace / "b"))
    )
    assert approver.decide(subject, mode="ask", rules=read_rules(allow=("write: docs/*",))) == Ask("b", ("write: ./b",))


def test_a_run_that_cannot_ask_is_denied_with_the_reason(desk: Desk) -> None:
    verdict = desk.bash("make", interactive=False)
    assert verdict == Deny("it would have to be asked, and nobody can be asked in this run: make")
    assert isinstance(desk.bash("make", interactive=False, mode="auto"), Allow)
    assert isinstance(desk.bash("ls", interactive=False), Allow)
    assert isinstance(desk.bash("echo x > .git/config", interactive=False, mode="auto"), Deny)


def test_git_is_not_known_to_be_harmless_in_a_directory_that_is_not_trusted(desk: Desk) -> None:
    assert isinstance(desk.bash("git status", trusted=False), Ask)
    assert isinstance(desk.bash("git status", trusted=False, rules=read_rules(allow=("bash: git status *",))), Allow)
    assert isinstance(desk.bash("ls", trusted=False), Allow)


def test_sites_are_allowed_by_their_host_and_not_by_what_looks_like_it(desk: Desk) -> None:
    asked = desk.url("https://Docs.Python.org/3/")
    assert asked == Ask("reaches https://Docs.Python.org/3/", ("fetch: https://docs.python.org/*",))
    rules = read_rules(allow=("fetch: https://docs.python.org/*", "fetch: https://*.example.com/a/*"))
    for url in ("https://docs.python.org/", "https://docs.python.org/3/?q=1", "https://x.y.example.com/a/b"):
        assert isinstance(desk.url(url, rules=rules), Allow), url
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
        assert isinstance(desk.url(url, rules=rules), Ask), url


def test_other_tools_are_asked_by_name(approver: Approver) -> None:
    subject = Subject(tool="mcp_docs_read", effect="runs", title="guide.md")
    assert approver.decide(subject, mode="ask", rules=Rules()) == Ask("guide.md", ("mcp_docs_read",))
    for rule in ("mcp_docs_read", "mcp_docs_*", "mcp_docs_read: *.md"):
        assert isinstance(approver.decide(subject, mode="ask", rules=read_rules(allow=(rule,))), Allow)
    for rule in ("mcp_other_*", "mcp_docs_read: *.txt"):
        assert isinstance(approver.decide(subject, mode="ask", rules=read_rules(allow=(rule,))), Ask)
    assert isinstance(approver.decide(subject, mode="auto", rules=read_rules(deny=("mcp_*",))), Deny)


def test_a_tool_without_an_effect_is_allowed_unless_denied(approver: Approver) -> None:
    subject = Subject(tool="todos", effect="none", title="todos")
    assert isinstance(approver.decide(subject, mode="plan", rules=Rules()), Allow)
    assert isinstance(approver.decide(subject, mode="ask", rules=read_rules(deny=("todos",))), Deny)


@pytest.mark.parametrize("effect", ["network", "writes"])
def test_a_download_needs_its_site_and_its_file(workspace: Path, approver: Approver, effect: Effect) -> None:
    subject = Subject(tool="download", effect=effect, title="x", url="https://a.org/f", paths=(str(workspace / "f"),))
    asked = approver.decide(subject, mode="ask", rules=Rules())
    assert isinstance(asked, Ask)
    assert set(asked.patterns) == {"download: https://a.org/*", "write: ./f"}
    assert isinstance(approver.decide(subject, mode="accept_edits", rules=Rules()), Ask)
    assert isinstance(approver.decide(subject, mode="ask", rules=read_rules(allow=asked.patterns)), Allow)
    assert isinstance(approver.decide(subject, mode="plan", rules=Rules()), Deny)


_DENIES = read_rules(deny=("bash: c1 *",))


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(line=st.one_of(shell_lines(), st.text(max_size=60)), mode=st.sampled_from(_MODES))
def test_nothing_crashes_and_what_is_not_understood_is_never_allowed(desk: Desk, line: str, mode: Mode) -> None:
    verdict = desk.bash(line, mode=mode, rules=_DENIES)
    if Shell().read(line).unclear:
        assert not isinstance(verdict, Allow)


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(line=shell_lines())
def test_a_line_with_a_denied_command_is_never_allowed(desk: Desk, line: str) -> None:
    """Wherever bash would run it: what it runs is in `test_commands` shown to be seen."""
    rules = read_rules(deny=("bash: c1 *", "bash: c2 *", "bash: c3 *"), allow=("bash", "write"))
    if any(command.name in {"c1", "c2", "c3"} for command in Shell().read(line).commands):
        assert isinstance(desk.bash(line, mode="auto", rules=rules), Deny)


def test_whole_outputs_of_calls_may_be_read_but_not_written(workspace: Path, tmp_path: Path) -> None:
    outputs = tmp_path / "data" / "outputs"
    outputs.mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "data")
    linked = str(tmp_path / "link" / "outputs")
    desk = Desk(workspace, Approver(Places(str(workspace), "/h", own=(str(tmp_path / "link"),), readable=(linked,))))
    assert isinstance(desk.file("view", str(outputs / "call_1"), effect="reads"), Allow)
    assert isinstance(desk.bash(f"tail -5 {outputs}/call_1"), Allow)
    assert isinstance(desk.bash(f"wc -l < {outputs}/call_1"), Allow)
    assert isinstance(desk.file("view", str(tmp_path / "data" / "x"), effect="reads"), Ask)
    assert isinstance(desk.file("write", str(outputs / "call_1"), mode="auto"), Ask)
    assert isinstance(desk.bash(f"echo x > {outputs}/call_1", mode="auto"), Ask)


async def test_considering_a_call_does_not_block_the_loop(approver: Approver, workspace: Path) -> None:
    subject = Subject(tool="bash", effect="runs", title="", command="cat out/*", cwd=str(workspace))
    assert isinstance(await approver.consider(subject, mode="ask", rules=Rules()), Ask)
