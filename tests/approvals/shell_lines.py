"""Command lines for property tests: well-formed lines, the same with a few changes, and random tokens.

The programs are called `c1` to `c3` and do not exist. File names have no `/`, so nothing is written elsewhere.
"""

from hypothesis import strategies as st

_TOKENS = (
    *("a", "b", "'", '"', "\\", "$", "(", ")", "`", "{", "}", ";", "&", "|", "<", ">", "\n", " ", " ", "#", "!", "*"),
    *("c1", " c1 ", " c2 ", "if ", "then ", "fi", " do ", " done ", "EOF", "<<EOF\n", "\nEOF\n", "$(", "${x", "${x:-"),
    *("[[ ", " ]]", "case a in ", "esac", ";;", "x=", "command ", "time ", "function f ", "c8()", "<(", ">(", "\\\n"),
    *("$'", " <<-E\n", "\n\tE\n", "&&", "||", "|&", "2>&1", ">a", "\t", "=", "+=", "[", "]", "-f ", "<<'Q'\n", "\nQ\n"),
    *("<<<", "&>", '"$(c1)"', "for i in a b; do", "{ c1; }", "((", "))", "$((1", "@", '$"', "[ ", "! ", "coproc "),
    *("c1 a b", "c2 $x", "\\`", " break; "),
)
_PLAIN = (
    "a",
    "b",
    "-x",
    "foo",
    "c1",
    "1",
    "a=b",
    "if",
    "done",
    "}",
    "{",
    "!",
    "--k=v",
    "a:b",
    "@",
    "%",
    "^",
    "+",
    "]",
    "[a]",
)
_QUOTED = (
    *("'a b'", "'$(c1)'", "'`c1`'", "';c1'", "'\\'", "'\n'", '"a b"', '"$x"', '"`c2 z`"', '";c1"', '"\\""', '"\\\\"'),
    *('"\n"', '"\\$(c1)"', '"a\'b"', '"#"', "\\ ", "\\;", "\\'", '\\"', "\\\\", "a\\ b", "\\$x", "\\`", "$'a\\'b'"),
)
_EXPANDED = (
    *("$x", "${x}", "${x:-$(c1 d)}", "${#x}", "{a,b}", "*", "a*", '$"a"', "a#b", "#", "$#", "${x#a}", "${x%%'}'}"),
    *("${x//a/b}", "$((1+2))", "$((1+$(c1 m)))", "$[1]", "`c2 q`", "x=$(c1 k)", "?"),
)
_REDIRECTS = (
    *(" >a", " 2>&1", " >>b", " <a", " >a z", " &>b", " >|a", " 3>&1 >a", " <<<a", ' <<<"$(c1 s)"', " <<EOF\nh\nEOF\n"),
    *(" <<EOF\nh $x\nEOF\n", " <<EOF\nh $(c1 h)\nEOF\n", " <<EOF\n`c2`\nEOF\n", " <<EOF\n\\$(c1)\nEOF\n"),
    *(" <<'EOF'\n$(c1 h)\nEOF\n", " <<-EOF\n\t$(c1 n)\n\tEOF\n", " <<\\E\n$(c1)\nE\n", ' <<"E"\n`c1`\nE\n'),
)
_BEFORE = ("", "", "", "", "x=1 ", "x=$(c2 p) ", ">a ", "! ", "time ", "command ")
_PROGRAMS = ("c1", "c2", "c3", "c\\1", '"c1"', "c''2", "$'c3'")


def _words(lines: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    word = st.one_of(
        st.sampled_from(_PLAIN),
        st.sampled_from(_QUOTED),
        st.sampled_from(_EXPANDED),
        lines.map("$({})".format),
        lines.map('"$({})"'.format),
        lines.map("<({})".format),
    )
    return st.one_of(word, word, st.builds(str.__add__, word, word))


def _simple(lines: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    words = st.lists(_words(lines), max_size=3).map(lambda found: "".join(f" {word}" for word in found))
    redirect = st.one_of(st.just(""), st.just(""), st.sampled_from(_REDIRECTS))
    parts = st.tuples(st.sampled_from(_BEFORE), st.sampled_from(_PROGRAMS), words, redirect)
    return parts.map("".join)


_SHAPES = (
    *(
        "{0}; {1}",
        "{0} && {1}",
        "{0} || {1}",
        "{0} | {1}",
        "{0} |& {1}",
        "({0})",
        "{{ {0}; }}",
        "{0}\n{1}",
        "{0} &\n{1}",
    ),
    *(
        "if {0}; then {1}; else {2}; fi",
        "if [ -f {w} ]; then {0}; elif {1}; then {2}; fi > b",
        "[[ -f $(c1 t) ]] && {0}",
    ),
    *("for i in a {w}; do {0}; done", "while {0}; do {1}; break; done", "until {0}; do {1}; break; done"),
    *(
        "case {w} in a|b) {0};; *) {1};; esac",
        "c8() {{ {0}; }}; c8 {w}",
        "function c9 {{ {0}\n}}\nc9",
        "x=({w} {w}); {0}",
    ),
    *("{0} # c1\n{1}", "{0} # it's\n{1}", "{0} # $(c1\n{1}", "export y={w} && {0}", "({0}\n{1}) | {2}", "eval {w}"),
    *(
        "{0} \\\n  {w}",
        "[[ ! $x =~ ^a(b|c)$ && a < b ]] || {0}",
        "[[ a == b* ]] && {0}",
        "{0} | while read -r y; do {1}; break; done",
    ),
)


def _shaped(lines: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    filled = st.tuples(st.sampled_from(_SHAPES), lines, lines, lines, _words(lines))
    return filled.map(lambda found: found[0].format(found[1], found[2], found[3], w=found[4]))


_LEAF = _simple(st.sampled_from(("c1", "c2 a", "c3 $x")))
_GRAMMAR = st.recursive(_LEAF, lambda lines: st.one_of(_simple(lines), _shaped(lines)), max_leaves=6)


@st.composite
def _changed(draw: st.DrawFn) -> str:
    """A well-formed line with a few paths changed."""
    line = draw(_GRAMMAR)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(line)))
        line = line[:at] + draw(st.sampled_from((*_TOKENS, ""))) + line[at + draw(st.integers(0, 1)) :]
    return line


_TOKEN_LINES = st.lists(st.sampled_from(_TOKENS), min_size=1, max_size=14).map("".join)


def shell_lines() -> st.SearchStrategy[str]:
    """Any line without an endless loop, because bash runs it."""
    return st.one_of(_GRAMMAR, _changed(), _changed(), _TOKEN_LINES).filter(
        lambda line: len(line) < 600 and ("done" not in line or "break;" in line or "while" not in line)
    )
