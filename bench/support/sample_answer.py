"""An answer with the kinds of Markdown that models write, for the benchmarks of the interfaces."""

from __future__ import annotations

ANSWER = """## What I found

The function `slug()` splits at **every** blank; see src/slug.py:12 and [the docs](https://example.org/slug).

1. Two blanks leave an empty word.
2. The test expects one dash.

```python
def slug(text: str) -> str:
    words = [word for word in text.lower().split() if word]
    return "-".join(words)
```

| case | before | after |
|---|---|---|
| two blanks | `a--b` | `a-b` |

That is all there is to it; the whole suite passes now and nothing else depends on the old behaviour of this function.
"""
