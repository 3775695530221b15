"""Seeded command lines for differential tests: everyday lines, options of real programs, hostile words, and mutations.

A line is built from parts that are harmless, parts that are not, and parts that only look harmless. What the decider
allows is executed, so no line takes long or prints much.
"""

import functools
import random
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator

from holdfast.approvals.shell.git_reads import GIT_OPTIONS
from holdfast.approvals.shell.option_parser import known_options
from holdfast.approvals.shell.readonly_programs import PROGRAMS

_FILES = (
    *("README.md", "src/a.py", "notes.txt", "src", ".", "./README.md", "odd/x", "-", "--", "data.json"),
    *("src/../notes.txt",),
)
_HOSTILE_FILES = (
    *("SYMLINK", "out", "out/secret", "../outside/secret", "/etc/passwd", "~/x", "~root/x", "@opts", ".git/config"),
    *("links", "inner/../..", "odd/-delete", "bare", "nested", "p", "links/link.py", "$HOME/x", '"$HOME"/x'),
    *("/dev/stdin", "/dev/fd/0"),
)
_GLOBS = (
    *("*", "*.md", "src/*.py", "odd/*", "SYML*", "links/*", ".*", ".?/x", "o*/x", "?", "[a-z]*", "**", "./*", "*/"),
    *("out/*", "??", "./??", "e?"),
)
_WORDS = (
    *("text", "a", "1", "5", "'a b'", '"a b"', "'$(touch p)'", "a=b", "''", "x\\ y", "+", "!", "(", "\\(", "="),
    *("'%s\\n'", "%n", "$x", '"$x"', "${x}", "${x:-a}", "${x:-$(touch p)}", "$(echo a)", "`echo a`", "$(touch p)"),
    *("{a,b}", "$'a\\nb'", "$#", "$@", "'a[$(touch p)]'", "-v", "-eq", "-f", "<(echo a)", "{}", "\\;", "{} +"),
    *("'1e touch p'", "'w p'", "1,2p", "s/a/b/", "'s/a/touch p/e'", "HEAD", "HEAD~1", "main", "--output=p", "-o"),
    *("@opts", "--pre=./evil", "-exec", "./evil", "-delete", "env", ".name"),
)
_REDIRECTS = (
    *(" >/dev/null", " 2>&1", " 2>/dev/null", " <README.md", " < SYMLINK", " >p", " >>p", " >|p", " &>p", " <>p"),
    *(" >&p", " {fd}>p", " <<<text", " <<EOF\ntext\nEOF\n", " <<'EOF'\n$(touch p)\nEOF\n"),
    *(" <<EOF\n$(touch p)\nEOF\n", " 3>p", " >&2", " <&-", " >$x"),
    *(
        " <README.md >/dev/stdin",
        " 1<README.md >/dev/stdout",
        " 5<README.md >>/dev/fd/5",
        " >/dev/fd/0",
        " >/dev/stderr",
    ),
)
_WRAPPERS = (
    *("env", "env LC_ALL=C", "env A=1", "env A.B=1", "env -i", "env -u PATH", "env -S", "timeout 5"),
    *("timeout -k 1 5", "timeout -s INT 2", "nice", "nice -n 5", "nice -5", "nohup", "stdbuf -oL", "setsid"),
    *("setsid -w", "setsid -f", "command", "command -p", "builtin", "exec", "exec -a x", "time", "time -p"),
    *("xargs", "xargs -n1", "xargs -0", "xargs -r", "xargs -I{}", "xargs -Ils", "xargs -i", "ionice -c 3", "./env"),
    *("./timeout 5", "bin/env", "LC_ALL=C", "LC_ALL=x", "PATH=.", "x=1", "BASH_ENV=./evil", "IFS=/", "! "),
    *("TZ=UTC", "NO_COLOR=1", "HOME=.", "GIT_DIR=bare", "npm_config_x=1", "\\command", "'env'", "/usr/bin/env"),
    *("eval", "exec 3<p;"),
)
_SHELLS = (
    *("bash -c", "sh -c", "dash -c", "bash -lc", "bash -ec", "sh -ec", "bash -euo pipefail -c", "bash -o posix -c"),
    *("bash -O extglob -c", "bash -kc", "bash -c --", "sh -c -", "bash +x -c", "bash --norc -c", "bash -xc"),
    *("BASH_ENV=./evil bash -c", "/bin/sh -c", "./sh -c"),
)
_SHAPES = (
    *("{0}; {1}", "{0} && {1}", "{0} || {1}", "{0} | {1}", "{0} |& {1}", "({0})", "{{ {0}; }}", "{0}\n{1}"),
    *("! {0}", "{0} & {1}", "if {0}; then {1}; fi", "for i in a *; do {0}; done", "for i in 1 2; do {0}; done"),
    *("while {0}; do {1}; break; done", "case a in a) {0};; *) {1};; esac", "echo $({0})", 'echo "$({0})"'),
    *("echo `{0}`", "x=$({0})", "cat <({0})", "{0} > >({1})", "cd src && {0}", "cd src; {0}", "cd inner; {0}"),
    *("cd inner/..; {0}", "cd ..; {0}", "cd bare; {0}", "cd nested && {0}", "cd odd; {0}", "[ -f {w} ] && {0}"),
    *("[ {w} = {w} ] && {0}", "[ {w} > {w} ]", "[[ {w} == {w} ]] || {0}", "[[ -n {w} && {w} < {w} ]]"),
    *("[ {w} {w} ]", "test {w} {w} {w}", "[ ! -e {w} ]", "x={w}; {0}", "x={w}; echo $x", "f() {{ {0}; }}; f"),
    *("{0} # {w}\n{1}", "set -e; {0}", "export x={w}; {0}", "read x < README.md; echo $x", "printf {w} {w}"),
    *(
        "printf '%s' {w}",
        "unset x; {0}",
        "LC_ALL=C; {0}",
        "{{ {0}; }} <README.md",
        "declare {w}",
        "time {0}",
        "coproc {0}",
        "{0} \\\n {w}",
    ),
)
_TOKENS = (
    *("'", '"', "\\", "$", "(", ")", "`", "{", "}", ";", "&", "|", "<", ">", "\n", " ", "#", "!", "*", "[", "]"),
    *("=", "~", "$(", "${", "&&", "||", " -", " --", "$'", "<<", ">>", "[[ ", " ]]", "((", "))", " + ", " \\; "),
    *("x=", "	", ",", "%n", "-v ", " @", "../", "/", "$x", '"$x"', "{a,b}"),
)


@functools.cache
def _long_options(program: str) -> tuple[str, ...]:
    """The long options that the program itself lists, and the ones that Holdfast knows."""
    known = (
        [name for name in known_options(PROGRAMS[program].options) if name.startswith("--")]
        if program in PROGRAMS
        else []
    )
    shown = ""
    if shutil.which(program) and program not in {"hostname", "time"}:
        done = subprocess.run(
            [program, "--help"], capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL, check=False
        )
        shown = done.stdout + done.stderr
    return tuple(sorted({*known, *re.findall(r"--[a-z][a-z0-9-]+", shown)} - {"--help"})) or ("--x",)


class LineFuzzer:
    """Makes lines without end. The same seed makes the same lines."""

    def __init__(self, seed: int, everyday: tuple[str, ...]) -> None:
        self._random = random.Random(seed)
        self._everyday = everyday
        self._programs = (
            *sorted(PROGRAMS.keys() - {"sleep", "true", "false", ":"}),
            "sed",
            "find",
            "jq",
            "date",
            "printf",
        )

    def lines(self) -> Iterator[str]:
        seen: set[str] = set()
        while True:
            line = self._line()
            if line not in seen and len(line) < 500 and "sleep" not in line and not re.search(r"\d{4}|seq", line):
                seen.add(line)
                yield line

    def _line(self) -> str:
        kind = self._random.random()
        if kind < 0.35:
            return self._command(1)
        if kind < 0.6:
            return self._shaped()
        line = self._random.choice(self._everyday) if kind < 0.85 else self._shaped()
        for _ in range(self._random.choice((1, 1, 1, 2, 3))):
            line = self._mutated(line)
        return line

    def _mutated(self, line: str) -> str:
        at = self._random.randint(0, len(line))
        match self._random.randrange(5):
            case 0:
                return line[:at] + self._random.choice(_TOKENS) + line[at:]
            case 1:
                return line[:at] + line[at + self._random.randint(1, 3) :]
            case 2:
                return f"{line} {self._operand()}"
            case 3:
                words = line.split(" ")
                words.insert(
                    self._random.randint(1, len(words)),
                    self._option(words[0]) if self._chance(0.5) else self._operand(),
                )
                return " ".join(words)
            case _:
                return (
                    f"{self._random.choice(_WRAPPERS)} {line}"
                    if self._chance(0.5)
                    else line + self._random.choice(_REDIRECTS)
                )

    def _shaped(self) -> str:
        shape = self._random.choice(_SHAPES)
        filled = shape.format(self._command(1), self._command(1), w=self._operand()) if "{" in shape else shape
        if self._chance(0.15):
            return f"{self._random.choice(_SHELLS)} {shlex.quote(filled)}"
        return filled

    def _command(self, depth: int) -> str:
        if self._chance(0.2):
            line = self._random.choice(self._everyday)
        elif self._chance(0.25):
            line = self._git()
        else:
            program = self._random.choice(self._programs)
            words = [self._option(program) for _ in range(self._random.choice((0, 1, 1, 2)))]
            words += [self._operand() for _ in range(self._random.choice((0, 1, 1, 2, 3)))]
            if self._chance(0.2):
                self._random.shuffle(words)
            line = " ".join([program, *words])
        if depth and self._chance(0.15):
            line = f"{self._random.choice(_WRAPPERS)} {line}"
        if depth and self._chance(0.08):
            line = f"{self._random.choice(_SHELLS)} {shlex.quote(line)}"
        return line + (self._random.choice(_REDIRECTS) if self._chance(0.1) else "")

    def _git(self) -> str:
        name = self._random.choice(sorted(GIT_OPTIONS))
        options = [option for option in known_options(GIT_OPTIONS[name]) if option != "-#"] or ["-x"]
        words = [self._valued(self._random.choice(options)) for _ in range(self._random.choice((0, 1, 2, 3)))]
        if self._chance(0.3):
            words.append(
                self._random.choice(
                    ("--ext-diff", "--textconv", "--output=p", "-Op", "--no-index", "--outp=p", "-c", "--exec=x")
                )
            )
        words += [self._operand() for _ in range(self._random.choice((0, 0, 1, 2)))]
        before = self._random.choice(
            ("", "", "", "--no-pager ", "-C src ", "-C bare ", "-c color.ui=always ", "-c core.pager=./evil ", "-p ")
        )
        return " ".join([f"git {before}{name}", *words])

    def _option(self, program: str) -> str:
        if self._chance(0.5):
            letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
            known = (
                [name[1] for name in known_options(PROGRAMS[program].options) if name[1] != "-"]
                if program in PROGRAMS
                else []
            )
            source = known if known and self._chance(0.7) else letters
            option = "-" + "".join(self._random.choice(source) for _ in range(self._random.choice((1, 1, 2, 3))))
            return option.replace("#", "3")
        option = self._random.choice(_long_options(program))
        return self._valued(option if self._chance(0.9) else option[: self._random.randint(3, len(option))])

    def _valued(self, option: str) -> str:
        match self._random.randrange(4):
            case 0:
                return f"{option}={self._operand()}" if option.startswith("--") else option + self._operand()
            case 1:
                return f"{option} {self._operand()}"
            case _:
                return option

    def _operand(self) -> str:
        kind = self._random.random()
        if kind < 0.55:
            return self._random.choice(_FILES)
        if kind < 0.68:
            return self._random.choice(_HOSTILE_FILES)
        return self._random.choice(_GLOBS if kind < 0.78 else _WORDS)

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability
