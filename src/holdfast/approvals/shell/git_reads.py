"""The git subcommands that only read, with every option that is understood.

No option is listed that writes a file, starts a program, reads another repository or checks a signature. Git may still
start programs that the settings of the repository name; see `git_repository` and `tools.process.git_environment`.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.approvals.shell.option_parser import NotUnderstood, ParsedOptions, parse_options
from holdfast.approvals.shell.shell_commands import Argv

_DIFF: Final = (
    " -pusabwzRWmctrD -U? -M? -C? -B? -l: -S: -G: -I: --patch --no-patch --unified? --raw --stat? --numstat"
    " --shortstat --dirstat? --cumulative --summary --compact-summary --patch-with-stat --patch-with-raw --name-only"
    " --name-status --color? --no-color --color-moved? --word-diff? --word-diff-regex: --color-words? --no-renames"
    " --check --full-index --binary --abbrev? --find-renames? --find-copies? --find-copies-harder --break-rewrites?"
    " --irreversible-delete --diff-filter: --find-object: --pickaxe-all --pickaxe-regex --relative? --no-relative"
    " --text --ignore-cr-at-eol --ignore-space-at-eol --ignore-space-change --ignore-all-space --ignore-blank-lines"
    " --ignore-matching-lines: --inter-hunk-context: --function-context --exit-code --quiet --no-ext-diff"
    " --no-textconv --ignore-submodules? --src-prefix: --dst-prefix: --no-prefix --minimal --patience --histogram"
    " --diff-algorithm: --anchored: --indent-heuristic --no-indent-heuristic --cc --combined-all-paths --root"
    " --no-commit-id --line-prefix:"
)
_LOG: Final = _DIFF + (
    " -iEFPg -# -n: -L: --max-count: --skip: --since: --after: --until: --before: --author: --committer: --grep:"
    " --grep-reflog: --all-match --invert-grep --regexp-ignore-case --basic-regexp --extended-regexp --fixed-strings"
    " --perl-regexp --merges --no-merges --min-parents? --max-parents? --first-parent --not --all --branches? --tags?"
    " --remotes? --glob: --exclude: --reflog --cherry-mark --cherry-pick --cherry --left-only --right-only"
    " --walk-reflogs --merge --boundary --simplify-by-decoration --show-pulls --full-history --dense --sparse"
    " --simplify-merges --ancestry-path? --date-order --author-date-order --topo-order --reverse --no-walk? --pretty?"
    " --format? --abbrev-commit --no-abbrev-commit --oneline --no-expand-tabs --no-notes --relative-date --date:"
    " --parents --children --left-right --graph --no-graph --decorate? --no-decorate --decorate-refs:"
    " --decorate-refs-exclude: --source --follow --full-diff --count --objects --no-mailmap --mailmap --use-mailmap"
)
_LISTED_REFS: Final = (
    " --sort: --format: --color? --no-color --column? --no-column --merged? --no-merged? --contains? --no-contains?"
    " --points-at: --ignore-case"
)
_BLAME: Final = (
    "-bltswefnpc -M? -C? -L: --porcelain --line-porcelain --show-email --show-name --show-number --show-stats"
    " --since: --first-parent --reverse --root --abbrev? --date: --color-lines --color-by-age --incremental"
    " --ignore-rev: --ignore-revs-file@ --minimal"
)
GIT_OPTIONS: Final[dict[str, str]] = {
    "status": "-sbvz -u? --short --branch --show-stash --porcelain? --long --verbose --untracked-files?"
    " --ignore-submodules? --ignored? --column? --no-column --ahead-behind --no-ahead-behind --renames --no-renames"
    " --find-renames?",
    "log": _LOG,
    "show": _LOG,
    "whatchanged": _LOG,
    "rev-list": _LOG + " --disk-usage? --timestamp",
    "diff": _DIFF + " --cached --staged --merge-base --ours --theirs --base",
    "diff-tree": _DIFF + " -v --always --pretty? --format? --merge-base",
    "diff-index": _DIFF + " --cached --merge-base",
    "diff-files": _DIFF + " -q0123",
    "range-diff": _DIFF + " --creation-factor: --no-dual-color --left-only --right-only",
    "blame": _BLAME,
    "annotate": _BLAME,
    "shortlog": "-nsec -w? --numbered --summary --email --group: --format? --since: --until: --after: --before:"
    " --author: --committer --no-merges --merges --all --branches? --tags? --grep: -i",
    "rev-parse": "-q --show-toplevel --abbrev-ref? --short? --verify --quiet --git-dir --absolute-git-dir"
    " --git-common-dir --is-inside-work-tree --is-inside-git-dir --is-bare-repository --is-shallow-repository"
    " --show-prefix --show-cdup --symbolic --symbolic-full-name --all --branches? --tags? --remotes?"
    " --show-object-format? --revs-only --no-revs --flags --no-flags",
    "ls-files": "-cdmoiskuztv -x: -X@ --cached --deleted --modified --others --ignored --stage --unmerged --killed"
    " --exclude: --exclude-from@ --exclude-standard --full-name --error-unmatch --abbrev? --eol --directory"
    " --no-empty-directory --deduplicate --format:",
    "ls-tree": "-drtlz --long --name-only --name-status --object-only --full-name --full-tree --abbrev? --format:",
    "cat-file": "-epts --batch? --batch-check? --batch-all-objects",
    "describe": "--all --tags --contains --abbrev? --candidates: --exact-match --long --match: --exclude: --always"
    " --first-parent",
    "merge-base": "-a --all --octopus --is-ancestor --independent --fork-point",
    "name-rev": "--tags --refs: --exclude: --all --name-only --always --no-undefined",
    "for-each-ref": "--count: --omit-empty --exclude:" + _LISTED_REFS,
    "show-ref": "-dsq --head --heads --branches --tags --dereference --hash? --verify --quiet --abbrev?",
    "show-branch": "-ar --list --all --remotes --topo-order --current --sha1-name --no-name --no-color",
    "cherry": "-v --abbrev?",
    "count-objects": "-vH --verbose --human-readable",
    "check-ignore": "-qvnz --quiet --verbose --non-matching --no-index --stdin",
    "check-attr": "-az --all --cached --stdin",
    "grep": "-aiIwvhHEGFPnlLzocpWrq -# -e: -f@ -A: -B: -C: -m: --max-depth: --recursive --no-recursive --cached"
    " --untracked --exclude-standard --no-exclude-standard --text --ignore-case --word-regexp --invert-match"
    " --full-name --extended-regexp --basic-regexp --perl-regexp --fixed-strings --line-number --column"
    " --files-with-matches --name-only --files-without-match --null --only-matching --count --color? --no-color"
    " --break --heading"
    " --show-function --function-context --context: --after-context: --before-context: --threads: --and --or --not"
    " --all-match --quiet --max-count:",
    "version": "",
    "branch": "-arvi --list --all --remotes --show-current --verbose --abbrev? --no-abbrev" + _LISTED_REFS,
    "tag": "-l -n? --list" + _LISTED_REFS,
    "remote": "-v --verbose",
    "stash": "",
    "worktree": "-vz --porcelain --verbose",
    "reflog": "-# -n: --oneline --date: --no-decorate --max-count:",
    "config": "-z --get --get-all --global --local --show-origin --show-scope --null --bool --int --path",
}
GIT_READS: Final = frozenset(GIT_OPTIONS) - {"branch", "tag", "remote", "stash", "worktree", "reflog", "config"}
"""Subcommands that only read with any operands."""
_FIXED_OPERANDS: Final[dict[str, re.Pattern[str]]] = {
    "remote": re.compile(r"(?:get-url [\w.-]+)?"),
    "stash": re.compile(r"list"),
    "worktree": re.compile(r"list"),
    "reflog": re.compile(r"(?:show )?(?:HEAD)?|show"),
    "version": re.compile(r""),
}
"""Subcommands that only read with these operands."""
_SHOWN_SETTING: Final = re.compile(r"(?:user|core|remote|branch|init|pull|push|merge|diff|color|alias)\.[\w./-]+")
"""Settings that hold no password or token."""
_SIGNATURE: Final = re.compile(r"%G|signature", re.IGNORECASE)


def parse_git_read(args: Argv) -> Argv | NotUnderstood:
    """The words of a subcommand that may name files; or the word because of which it may do more (-1: all of them)."""
    if not args or not args[0].literal:
        return NotUnderstood(-1)
    name, rest = args[0].text, args[1:]
    if name in {"--version", "-v"}:
        return NotUnderstood(1) if rest else ()
    listed = GIT_OPTIONS.get(name)
    if listed is None:
        return NotUnderstood(-1)
    parsed = parse_options(rest, listed)
    if isinstance(parsed, NotUnderstood):
        return NotUnderstood(parsed.position + 1)
    for at, arg in enumerate(rest):
        if _SIGNATURE.search(arg.text) and arg.text.startswith("-"):
            return NotUnderstood(at + 1)
    if any(_SIGNATURE.search(value) for _, value in parsed.options) or not _only_lists(name, parsed):
        return NotUnderstood(-1)
    if name == "grep" and not parsed.has("-e", "-f"):
        return (*parsed.files, *parsed.operands[1:])
    return (*parsed.files, *parsed.operands)


def _only_lists(name: str, parsed: ParsedOptions) -> bool:
    """Whether a subcommand that can also change something only lists."""
    if name in {"branch", "tag"}:
        return not parsed.operands or parsed.has("--list") or (name == "tag" and parsed.has("-l"))
    if name == "config":
        return parsed.has("--get", "--get-all") and _is_shown_setting(parsed)
    if fixed := _FIXED_OPERANDS.get(name):
        return fixed.fullmatch(" ".join(arg.text for arg in parsed.operands)) is not None
    return True


def _is_shown_setting(parsed: ParsedOptions) -> bool:
    return len(parsed.operands) == 1 and _SHOWN_SETTING.fullmatch(parsed.operands[0].text) is not None
