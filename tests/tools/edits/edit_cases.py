"""Edits as models get them wrong: the files, the call, and what happened before it.

`refused_edits.txt` and `forgiven_edits.txt` have what the model reads.
"""

from typing import Any, NamedTuple

APP = (
    "import os\n\n\ndef area(width, height):\n    total = width * height\n    return total\n\n\n"
    "def main():\n    size = area(2, 3)\n    print(f'area: {size}')\n    return 0\n\n\n"
    "if __name__ == '__main__':\n    main()\n"
)
GO = 'package main\n\nfunc main() {\n\tif ready {\n\t\tprintln("go")\n\t}\n}\n'
TABLE = "1\tone\n2\ttwo\n3\tthree\n"
REPEATED = "def a():\n    return 1\n\n\ndef b():\n    return 1\n\n\ndef c():\n    return 1\n"


class EditCase(NamedTuple):
    title: str
    tool: str
    arguments: dict[str, Any]
    files: dict[str, str | bytes] = {}
    unread: tuple[str, ...] = ()
    """Files that the session has not read."""
    changed: dict[str, str] = {}
    """What another program writes after the session has read the files."""
    then: dict[str, str] = {}
    """What another program writes between the approval and the write."""


def edit(title: str, content: str | bytes, old: str, new: str, **more: Any) -> EditCase:
    arguments = {"path": "app.py", "old_text": old, "new_text": new, **more.pop("arguments", {})}
    return EditCase(title, "edit", arguments, {"app.py": content}, **more)


def patch(title: str, text: str, files: dict[str, str | bytes] | None = None, **more: Any) -> EditCase:
    return EditCase(title, "apply_patch", {"patch": text}, {"app.py": APP} if files is None else files, **more)


def update(body: str, path: str = "app.py") -> str:
    return f"*** Begin Patch\n*** Update File: {path}\n{body}*** End Patch"


def multiedit(title: str, edits: list[dict[str, Any]], content: str = APP, **more: Any) -> EditCase:
    return EditCase(title, "multiedit", {"path": "app.py", "edits": edits}, {"app.py": content}, **more)


def one(old: str, new: str) -> dict[str, str]:
    return {"old_text": old, "new_text": new}


REFUSED = (
    edit("another operator", APP, "    total = width + height\n", "    total = 0\n"),
    edit("another name in a line", APP, "def area(width, height):\n    sum = width * height\n    return total\n", ""),
    edit("a misspelt line", APP, "    retrun total", "    return 0"),
    edit("another case", APP, "Def Area(width, height):", "def area(w, h):"),
    edit("inner white space", APP, "total = width  *  height", "total = 0"),
    edit("an inconsistent indent", APP, "def main():\n  size = area(2, 3)\nprint(f'area: {size}')\n", "pass\n"),
    edit("text of another file", APP, "SELECT * FROM users WHERE id = ?", "SELECT 1"),
    edit("a whole function from memory", APP, "def perimeter(w, h):\n    return 2 * (w + h)\n", ""),
    edit("a line more than the file has", APP, "def main():\n    size = area(2, 3)\n    check(size)\n", ""),
    edit("two lines joined", APP, "total = width * height return total", "return width * height"),
    edit("an elision", APP, "def main():\n    ...\n    return 0\n", "def main():\n    return 1\n"),
    edit("an elision in a comment", APP, "def main():\n    # ... existing code ...\n    return 0\n", ""),
    edit("an empty file", "", "x = 1", "x = 2"),
    edit("two places", REPEATED, "    return 1\n", "    return 2\n"),
    edit("two places but for white space", REPEATED, "  return 1  ", "  return 2"),
    edit("overlapping places", "aaa\n", "aa", "b"),
    edit("many places", "x\n" * 30, "x", "y"),
    edit("two typographic variants", "“a”\n„a“\n", '"a"', "b"),
    edit("half of a typographic character", "wait…\n", "wait.", "stop."),
    edit("equal texts", APP, "return 0", "return 0"),
    edit("equal but for line ends", "a\r\nb\r\n", "a\r\n", "a\n"),
    edit("an existing file created again", APP, "", "x = 1\n"),
    edit("line numbers of text that is not there", APP, "     5\ttotal = height\n     6\treturn it", "x"),
    edit("a number table that differs", TABLE, "1\tuno\n2\tdos", "x"),
    edit("over-escaped text that is not there", APP, 'print(\\"nothing\\")\\nexit()', "x"),
    edit("a file that was not read", APP, "return 0", "return 1", unread=("app.py",)),
    edit("a file that changed since", APP, "return 0", "return 1", changed={"app.py": APP + "# more\n"}),
    edit("a file that changes after the approval", APP, "return 0", "return 1", then={"app.py": APP + "# more\n"}),
    edit("a binary file", b"\x7fELF\x00\x01\x02", "ELF", "elf"),
    edit("a character that the encoding lacks", "naïve\n".encode("latin-1"), "na", "→"),
    edit("a mask", "token = '[redacted]'\n", "token = 'abc'", "token = '[redacted] [redacted]'"),
    EditCase("a missing file", "edit", {"path": "ap.py", **one("a", "b")}, {"app.py": APP}),
    EditCase(
        "a missing file in a missing directory", "edit", {"path": "scr/app.py", **one("a", "b")}, {"src/app.py": APP}
    ),
    EditCase("a directory", "edit", {"path": "src", **one("a", "b")}, {"src/app.py": APP}),
    EditCase("an empty path", "edit", {"path": " ", **one("a", "b")}),
    EditCase("a path with NUL", "edit", {"path": "a\0b", **one("a", "b")}),
    EditCase("a file below a file", "edit", {"path": "app.py/x.py", **one("", "b")}, {"app.py": APP}),
    multiedit("the second of three", [one("return 0", "return 1"), one("retrun", "x"), one("os", "sys")]),
    multiedit("a text that the first edit removed", [one("size = area(2, 3)", "size = 6"), one("area(2, 3)", "7")]),
    multiedit("a text that the first edit doubled", [one("return 0", "return total"), one("return total", "return 1")]),
    multiedit("an empty text in the middle", [one("return 0", "return 1"), one("", "x")]),
    multiedit("an ambiguous one", [one("return 1", "return 2")], REPEATED),
    multiedit("a file that was not read", [one("return 0", "return 1")], unread=("app.py",)),
    EditCase(
        "over a file that was not read",
        "write",
        {"path": "app.py", "content": "x"},
        {"app.py": APP},
        unread=("app.py",),
    ),
    EditCase(
        "over a file that changed",
        "write",
        {"path": "app.py", "content": "x"},
        {"app.py": APP},
        changed={"app.py": "y\n"},
    ),
    EditCase("over a binary file", "write", {"path": "a.bin", "content": "x"}, {"a.bin": b"\x00\x01"}),
    EditCase("over a directory", "write", {"path": "src", "content": "x"}, {"src/app.py": APP}),
    EditCase("a masked value", "write", {"path": "new.env", "content": "KEY=[redacted]\n"}),
    patch("no patch", "please change the file"),
    patch("no end", "*** Begin Patch\n*** Update File: app.py\n@@\n-return 0\n+return 1\n"),
    patch("no section", "*** Begin Patch\n*** Change File: app.py\n*** End Patch"),
    patch("a line without mark", update("@@\n def main():\nreturn 1\n")),
    patch("no hunk", update("")),
    patch("lines that are not there", update("@@\n-    return None\n+    return 1\n")),
    patch("a wrong context line", update("@@\n def main(argv):\n-    size = area(2, 3)\n+    size = 6\n")),
    patch("an anchor that is not there", update("@@ class Shape:\n-    return 0\n+    return 1\n")),
    patch("two places", update("@@\n-    return 1\n+    return 2\n"), {"app.py": REPEATED}),
    patch("a missing file", update("@@\n-a\n+b\n", "ap.py")),
    patch("an added file that exists", "*** Begin Patch\n*** Add File: app.py\n+x = 1\n*** End Patch"),
    patch("a deleted file that is missing", "*** Begin Patch\n*** Delete File: old.py\n*** End Patch"),
    patch(
        "a move to a file that exists",
        update("*** Move to: b.py\n@@\n-    return 0\n+    return 1\n"),
        {"app.py": APP, "b.py": "x\n"},
    ),
    patch("an added file without plus signs", "*** Begin Patch\n*** Add File: new.py\nx = 1\n*** End Patch"),
    patch(
        "the second file fails",
        update("@@\n-    return 0\n+    return 1\n*** Update File: b.py\n@@\n-zzz\n+y\n"),
        {"app.py": APP, "b.py": "x\n"},
    ),
    patch("the second hunk fails", update("@@\n-import os\n+import sys\n@@\n-    return None\n+    return 1\n")),
    patch("nothing to change", update("@@\n-import os\n+import os\n")),
    patch("a binary file", update("@@\n-a\n+b\n"), {"app.py": b"\x00a\n"}),
    patch("a binary diff", "diff --git a/a.png b/a.png\nGIT binary patch\nliteral 3\n"),
    patch("a mode change", "diff --git a/app.py b/app.py\nold mode 100644\nnew mode 100755\n"),
    patch("a file that was not read", update("@@\n-import os\n+import sys\n"), unread=("app.py",)),
    patch(
        "a binary file that would be deleted",
        "*** Begin Patch\n*** Delete File: a.bin\n*** End Patch",
        {"a.bin": b"\x00"},
        unread=("a.bin",),
    ),
)

FORGIVEN = (
    edit("an exact edit", APP, "    return 0\n", "    return 1\n"),
    edit(
        "another indent",
        APP,
        "def area(width, height):\n  total = width * height\n",
        "def area(width, height):\n  total = width\n",
    ),
    edit("spaces for tabs", GO, '    if ready {\n        println("go")\n', '    if ready {\n        println("went")\n'),
    edit("white space at line ends", "a  \nb\nc\n", "a\nb\n", "a\nx\n"),
    edit("straight quotes for curly ones", "say(“hi”)\n", 'say("hi")', 'say("hi there")'),
    edit("a hyphen for a dash", "1–2 — 3\n", "1-2 - 3", "1-2 - 4"),
    edit("a space for a no-break space", "10\u00a0km\n", "10 km", "11 km"),
    edit("an accent as one character", "cafe\u0301\n", "café", "cafés"),
    edit("three dots for an ellipsis", "wait…\n", "wait...", "wait... now"),
    edit("an invisible character", "user\u200bname = 1\n", "username = 1", "username = 2"),
    edit("quotes and indent", "if x:\n    say(‘a’)\n", "if x:\n  say('a')\n", "if x:\n  say('b')\n"),
    edit(
        "line numbers with tabs",
        APP,
        "     5\t    total = width * height\n     6\t    return total",
        "     5\t    return width * height",
    ),
    edit("line numbers with arrows", APP, "12→    return 0", "    return 1"),
    edit("line numbers with colons", APP, "11:     print(f'area: {size}')\n12:     return 0", "11:     return 1"),
    edit("over-escaped quotes and newlines", 'say("a")\nsay("b")\n', 'say(\\"a\\")\\nsay(\\"b\\")', 'say(\\"c\\")'),
    edit("HTML entities", "if (a < b && c) {}\n", "if (a &lt; b &amp;&amp; c) {}", "if (a &gt; b) {}"),
    edit("LF for CRLF", "a\r\nb\r\nc\r\n", "a\nb\n", "a\nx\n"),
    edit("all places", REPEATED, "return 1", "return 2", arguments={"replace_all": True}),
    edit(
        "a long change", "".join(f"line {n}\n" for n in range(80)), "line 3\n", "".join(f"new {n}\n" for n in range(40))
    ),
    multiedit(
        "three edits",
        [one("import os", "import sys"), one("return 0", "return 1"), one("    main()", "    sys.exit(main())")],
    ),
    EditCase("a whole file", "write", {"path": "app.py", "content": "x = 1\n"}, {"app.py": APP}),
    patch("another indent", update("@@\n def area(width, height):\n-  total = width * height\n+  total = width\n")),
    patch("curly quotes", update('@@\n-say("hi")\n+say("ho")\n'), {"app.py": "say(“hi”)\n"}),
    patch("hunks in the wrong order", update("@@\n-    main()\n+    exit(main())\n@@\n-import os\n+import sys\n")),
    patch("two files", update("@@\n-    return 0\n+    return 1\n*** Add File: b.py\n+x = 1\n")),
)
