"""Pages as text: what bytes mean, and HTML of all kinds in bounded time and depth."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from holdfast.tools.web.page_text import decode_page, html_to_markdown, html_to_text, html_tokens, tidy_html


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("grün €".encode(), "text/plain; charset=utf-8", "grün €"),
        ("grün €".encode(), "text/plain", "grün €"),
        ("grün".encode("latin-1"), "text/plain; charset=iso-8859-1", "grün"),
        ("grün €".encode("cp1252"), "text/plain", "grün €"),
        ("grün €".encode("cp1252"), "text/html; charset=utf-8", "gr�n �"),
        ("grün".encode(), "text/plain; charset=us-ascii", "grün"),
        ("日本語".encode("shift_jis"), 'text/html; charset="Shift_JIS"', "日本語"),
        ("日本語".encode("euc-jp"), "text/html; charset=EUC-JP", "日本語"),
        ("привет".encode("koi8-r"), "text/html;charset=koi8-r", "привет"),
        (codecs.BOM_UTF8 + "ä".encode(), "text/plain; charset=latin-1", "ä"),
        ("ä€".encode("utf-16"), "text/plain", "ä€"),
        ("ä€".encode("utf-16-le"), "text/plain; charset=utf-16le", "ä€"),
        (b"plain", "text/plain; charset=utf-16", "plain"),
        ("grün".encode(), "text/plain; charset=no-such-charset", "grün"),
        ("grün".encode(), "text/plain; charset=punycode", "grün"),
        ("grün".encode(), "text/plain; charset=zip", "grün"),
        ('<meta charset="windows-1251">привет'.encode("cp1251"), "text/html", '<meta charset="windows-1251">привет'),
        (
            '<?xml version="1.0" encoding="iso-8859-2"?>ł'.encode("iso-8859-2"),
            "text/xml",
            '<?xml version="1.0" encoding="iso-8859-2"?>ł',
        ),
        (b"", "", ""),
    ],
)
def test_characters_of_a_body(body: bytes, content_type: str, text: str) -> None:
    assert decode_page(body, content_type) == text


@given(st.binary(max_size=300), st.text(max_size=40), st.booleans())
def test_no_body_and_no_header_is_too_strange(body: bytes, content_type: str, cut: bool) -> None:
    assert isinstance(decode_page(body, f"text/html; charset={content_type}", cut=cut), str)


@given(st.text(min_size=1, max_size=50), st.integers(min_value=0, max_value=200))
def test_a_body_cut_within_a_character_loses_only_that_one(text: str, at: int) -> None:
    data = text.encode("utf-8", "replace")
    assert (
        text.encode("utf-8", "replace")
        .decode()
        .startswith(decode_page(data[:at], "text/plain; charset=utf-8", cut=True))
    )


def test_a_page_as_markdown() -> None:
    html = """<!DOCTYPE html><html><head><title>T</title><style>p{}</style><script>var x = "<p>no</p>";</script>
    </head><body><h1>Title</h1><p>Some <b>bold</b> and <a href="/x">link</a>.<p>Next
    <ul><li>one<li>two<ul><li>deep</ul></ul>
    <pre>code  &lt;here&gt;
  kept</pre><!-- <p>hidden</p> --><table><tr><th>a<th>b<tr><td>1<td>2</table><svg><text>no</text></svg>
    <img src="i.png" alt="picture"><p>5 < 6 & 7 > 3</body></html>"""
    assert html_to_markdown(html) == snapshot("""\
# Title

Some **bold** and [link](/x).

Next

- one
- two
  - deep

```
code  <here>
  kept
```

| a | b |
| --- | --- |
| 1 | 2 |

![picture](i.png)

5 < 6 & 7 > 3\
""")


def test_a_page_as_text() -> None:
    html = "<h1>Title</h1><p>Some <b>bold</b>\n text &amp; more<p>Next<script>no</script><ul><li>one<li>two</ul>a<br>b"
    html += "<pre>x\ny</pre>"
    assert html_to_text(html) == snapshot("""\
Title

Some bold text & more
Next

one
two
a
b
x
y\
""")


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 10_000 + "end" + "</div>" * 10_000,
        "<b><i>" * 5_000 + "end",
        "<p>x" * 2_000 + "end",
        "<ul><li>" * 3_000 + "end",
        "<table><tr><td>" * 1_000 + "end",
        "<blockquote>" * 3_000 + "end",
        "</div>" * 10_000 + "end",
    ],
)
def test_deep_and_unclosed_pages_are_read_to_their_end(html: str) -> None:
    assert html_to_text(html).endswith("end")
    assert "end" in html_to_markdown(html)[-600:]


@pytest.mark.parametrize(
    "unit",
    ["<", "<!", "<!--", "</", "<?", "<a b='", '<a b="', "<![CDATA[", "<script>", "&", "&amp;", "<a ", "<!DOCTYPE "],
)
def test_broken_pages_take_linear_time(unit: str) -> None:
    """Steps are counted, not time: every token moves on, so there are at most as many as characters."""
    html = unit * (50_000 // len(unit))
    assert sum(1 for _ in html_tokens(html)) <= len(html)
    assert len(tidy_html(html)) <= 6 * len(html)


@given(
    st.lists(
        st.sampled_from(
            ["<p>", "</p>", "<div>", "</div>", "<li>", "<ul>", "</ul>", "<td>", "<table>", "x", "<br>", "<", "&lt;"]
        )
    ).map("".join)
)
def test_a_tidy_page_is_balanced_and_keeps_the_text(html: str) -> None:
    stack = []
    for token in html_tokens(tidy_html(html)):
        if token.tag and token.tag != "br":
            if token.is_end:
                assert stack.pop() == token.tag
            else:
                stack.append(token.tag)
    assert stack == []
    assert "".join(html_to_text(tidy_html(html)).split()) == "".join(html_to_text(html).split())


@given(st.text(alphabet="<>/!-=\"' abp&;", max_size=200))
def test_no_page_breaks_the_reader(html: str) -> None:
    assert isinstance(html_to_markdown(html), str)
    assert isinstance(html_to_text(html), str)
