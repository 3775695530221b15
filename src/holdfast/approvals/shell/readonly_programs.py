"""The programs that only read, with every option that is understood. See `option_parser` for the notation.

An option is listed if it neither writes a file, nor runs a program, nor follows links, nor reads names of files from
somewhere. Options that name a file are listed with ``@``, so that the file is checked; also those that take a value
in one version of a program and none in another, where the value is a file.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from holdfast.schema.base import Value

Operands: TypeAlias = Literal["files", "plain files", "one file", "pattern", "words", "any", "none"]
"""What a program's operands are: files; files that are no directories; at most one file; a pattern and then files;
literal words that name no files; words of any kind and value; or nothing. The one file must be the last word: on some
systems an option after it would be a file that is written."""


class ReadonlyProgram(Value, frozen=True):
    options: str = ""
    operands: Operands = "files"
    pattern_options: tuple[str, ...] = ()
    """The options that give the pattern, so that every operand is a file."""
    option_files: bool = False
    """Whether every word ``@name`` stands for the words in that file."""


_GREP: Final = ReadonlyProgram(
    "-EFGPivwxcLloqsbHhnTuZzarIyU -# -e: -f@ -m: -A: -B: -C: -d: -D: --extended-regexp --fixed-strings --basic-regexp"
    " --perl-regexp --regexp: --file@ --ignore-case --no-ignore-case --invert-match --word-regexp --line-regexp --count"
    " --color? --colour? --files-without-match --files-with-matches --max-count: --only-matching --quiet --silent"
    " --no-messages --byte-offset --with-filename --no-filename --line-number --initial-tab --null"
    " --after-context: --before-context: --context? --text --binary-files: --exclude: --exclude-from@ --exclude-dir:"
    " --include: --recursive --line-buffered --null-data",
    "pattern",
    ("-e", "-f", "--regexp", "--file"),
)
_SUM: Final = ReadonlyProgram("-btz --binary --text --zero --tag")
_ANY: Final = ReadonlyProgram(operands="any")
_NO_ARGUMENTS: Final = ReadonlyProgram(operands="none")

PROGRAMS: Final[dict[str, ReadonlyProgram]] = {
    "cat": ReadonlyProgram(
        "-AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs --show-nonprinting"
    ),
    "head": ReadonlyProgram("-qvz -# -n: -c: --bytes: --lines: --quiet --silent --verbose --zero-terminated"),
    "tail": ReadonlyProgram("-qvz -# -n: -c: --bytes: --lines: --quiet --silent --verbose --zero-terminated"),
    "nl": ReadonlyProgram("-p -b: -d: -f: -h: -i: -l: -n: -s: -v: -w:"),
    "tac": ReadonlyProgram("-br -s:"),
    "rev": ReadonlyProgram(),
    "cut": ReadonlyProgram(
        "-nsz -b: -c: -d: -f: --bytes: --characters: --delimiter: --fields: --complement --only-delimited"
        " --output-delimiter: --zero-terminated"
    ),
    "fold": ReadonlyProgram("-bs -w: --bytes --spaces --width:"),
    "paste": ReadonlyProgram("-sz -d: --serial --delimiters: --zero-terminated"),
    "comm": ReadonlyProgram("-123z --check-order --nocheck-order --total --output-delimiter: --zero-terminated"),
    "join": ReadonlyProgram("-iz -a: -e: -j: -o: -t: -v: -1: -2: --header --check-order --nocheck-order"),
    "cmp": ReadonlyProgram("-bls -i: -n: --print-bytes --verbose --quiet --silent --ignore-initial: --bytes:"),
    "od": ReadonlyProgram("-abcdfiloxsv -A: -j: -N: -t: -w? --address-radix: --skip-bytes: --read-bytes: --format:"),
    "hexdump": ReadonlyProgram("-bcCdoxv -n: -s:"),
    "strings": ReadonlyProgram("-af -# -n: -t: --all --bytes: --radix:", option_files=True),
    "realpath": ReadonlyProgram("-emLPqsz --canonicalize-existing --canonicalize-missing --quiet --no-symlinks"),
    "readlink": ReadonlyProgram("-femnqsvz --canonicalize --canonicalize-existing --no-newline"),
    "stat": ReadonlyProgram("-t -c: --format: --printf: --terse"),
    **dict.fromkeys(("cksum", "sum"), ReadonlyProgram()),
    **dict.fromkeys(("md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum"), _SUM),
    **dict.fromkeys(("grep", "egrep", "fgrep"), _GREP),
    "rg": ReadonlyProgram(
        "-acFHIilnNoPpqSsUuVvwx0. -A: -B: -C: -d: -E: -e: -f@ -g: -j: -M: -m: -r: -T: -t:"
        " --after-context: --before-context: --context: --max-depth: --encoding: --regexp: --file@ --glob: --iglob:"
        " --threads: --max-columns: --max-count: --replace: --type: --type-not: --type-list --text --count"
        " --count-matches --fixed-strings --with-filename --no-filename --ignore-case --case-sensitive --smart-case"
        " --files --files-with-matches --files-without-match --line-number --no-line-number --only-matching --pcre2"
        " --pretty --quiet --multiline --multiline-dotall --unrestricted --invert-match --word-regexp --line-regexp"
        " --hidden --no-hidden --no-ignore --no-ignore-vcs --no-ignore-parent --no-messages --heading --no-heading"
        " --null --column --color: --colors: --sort: --sortr: --stats --json --trim --vimgrep --passthru"
        " --crlf --byte-offset --no-config --version --glob-case-insensitive --max-filesize: --one-file-system"
        " --no-mmap",
        "pattern",
        ("-e", "-f", "--regexp", "--file", "--files", "--type-list"),
    ),
    "wc": ReadonlyProgram("-clLmw --bytes --chars --lines --max-line-length --words"),
    "ls": ReadonlyProgram(
        "-aAbBcCdfFgGhiklmnNopqQrRsStuUvxXZ1 -I@ -T@ -w@ --all --almost-all --author --escape --block-size:"
        " --ignore-backups --color? --directory --classify? --file-type --format: --full-time --no-group"
        " --group-directories-first --human-readable --si --hide: --indicator-style: --inode --ignore: --kibibytes"
        " --numeric-uid-gid --literal --quote-name --quoting-style: --reverse --recursive --size --sort: --time:"
        " --time-style: --width: --zero"
    ),
    "sort": ReadonlyProgram(
        "-bcCdfghiMmnrRsuVz -k: -t: -S: --ignore-leading-blanks --dictionary-order --ignore-case --check?"
        " --general-numeric-sort --ignore-nonprinting --month-sort --human-numeric-sort --numeric-sort --random-sort"
        " --reverse --sort: --version-sort --key: --merge --stable --field-separator: --unique --zero-terminated"
        " --buffer-size: --parallel:"
    ),
    "uniq": ReadonlyProgram(
        "-cdDiuz -f: -s: -w: --count --repeated --all-repeated? --skip-fields: --group? --ignore-case --skip-chars:"
        " --unique --zero-terminated --check-chars:",
        "one file",
    ),
    "diff": ReadonlyProgram(
        "-abBcdeEinNpqstTuwyZ -# -C: -U: -F: -I: -W: --brief --unified? --context? --side-by-side --ignore-case"
        " --ignore-space-change --ignore-all-space --ignore-blank-lines --ignore-trailing-space --text --minimal"
        " --report-identical-files --width: --color? --suppress-common-lines --strip-trailing-cr --label:",
        "plain files",
    ),
    "tree": ReadonlyProgram(
        "-adfginpqrstuvxCDFJNQSUXh -L+ -P+ -I+ --noreport --dirsfirst --filesfirst --charset: --prune --du --gitignore"
        " --sort: --matchdirs --ignore-case --metafirst --inodes --device --si --timefmt:"
    ),
    "file": ReadonlyProgram(
        "-bikhnNrv -F: --brief --mime --mime-type --mime-encoding --extension --no-pad --separator:"
    ),
    "du": ReadonlyProgram(
        "-0abchklmPsSx -d: -t: -B: --all --apparent-size --bytes --total --human-readable --max-depth: --summarize"
        " --one-file-system --separate-dirs --exclude: --block-size: --threshold: --time? --si --null --inodes"
    ),
    "df": ReadonlyProgram(
        "-ahHiklPT -t: -x: -B: --all --human-readable --inodes --local --portability --print-type --total"
    ),
    "column": ReadonlyProgram("-txe -c: -s: -o: -N: -R: -H: --table --separator: --output-separator:"),
    **dict.fromkeys(("echo", "true", "false", ":", "expr", "break", "continue", "exit", "return", "shift"), _ANY),
    "pwd": ReadonlyProgram("-LP", "none"),
    "basename": ReadonlyProgram("-az -s: --multiple --suffix: --zero", "words"),
    "dirname": ReadonlyProgram("-z --zero", "words"),
    "seq": ReadonlyProgram("-w -f: -s: --equal-width --format: --separator:", "words"),
    "tr": ReadonlyProgram("-cCdst --complement --delete --squeeze-repeats --truncate-set1", "words"),
    "sleep": ReadonlyProgram("", "words"),
    "id": ReadonlyProgram("-agGnruz --group --groups --name --real --user --zero", "words"),
    "uname": ReadonlyProgram("-asnrvmpio --all --kernel-name --nodename --kernel-release --machine", "none"),
    "nproc": ReadonlyProgram("--all --ignore:", "none"),
    "which": ReadonlyProgram("-a", "words"),
    "type": ReadonlyProgram("-afptP", "words"),
    "groups": ReadonlyProgram("", "words"),
    "tty": ReadonlyProgram("-s", "none"),
    "getconf": ReadonlyProgram("", "words"),
    "locale": ReadonlyProgram("-amk", "words"),
    **dict.fromkeys(("whoami", "arch", "uptime", "hostname"), _NO_ARGUMENTS),
}

BUILTINS: Final = frozenset(
    {
        *(
            "cd",
            "echo",
            "printf",
            "test",
            "[",
            "true",
            "false",
            ":",
            "pwd",
            "read",
            "set",
            "command",
            "builtin",
            "exec",
        ),
        *("exit", "return", "break", "continue", "shift", "type", "export", "unset", "declare", "readonly", "eval"),
    }
)
"""What bash does itself, so that no program is looked for. Wrappers run programs of the same names."""
