"""Strategies for values of all shapes."""

from typing import Any

from hypothesis import strategies as st

from holdfast.schema.messages import (
    Context,
    File,
    Finish,
    KnownPart,
    Message,
    Notice,
    Reasoning,
    Shell,
    Summary,
    Text,
    ToolCall,
    ToolResult,
)
from holdfast.schema.usage import Usage

texts = st.text(max_size=30)
"""Text that can be encoded: hypothesis omits lone surrogates."""
any_texts = st.text(st.characters() | st.characters(categories=["Cs"]), max_size=30)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, json_values, max_size=4)

files = st.builds(File, name=texts, media_type=texts, text=st.none() | texts, data=st.none() | texts)
known_parts: st.SearchStrategy[KnownPart] = st.one_of(
    st.builds(Text, text=texts),
    st.builds(Reasoning, text=texts, wire=texts, opaque=st.none() | objects),
    files,
    st.builds(
        ToolCall, id=texts, name=texts, arguments=objects, malformed=st.none() | texts, opaque=st.none() | objects
    ),
    st.builds(ToolResult, call_id=texts, name=texts, text=texts, files=st.tuples(files), display=objects),
    st.builds(Shell, command=texts, output=texts, exit_code=st.none() | st.integers(-255, 255)),
    st.builds(Summary, text=texts),
    st.builds(Notice, code=texts, text=texts, for_model=st.booleans()),
    st.builds(Context, blocks=st.tuples(texts), changed=texts, facts=st.dictionaries(texts, texts, max_size=3)),
    st.builds(Finish, reason=st.sampled_from(["end_turn", "cancelled", "limit"]), detail=texts),
)
usages = st.builds(
    Usage,
    input=st.integers(0, 10**9),
    output=st.integers(0, 10**9),
    cache_read=st.integers(0, 10**9),
    cache_write=st.integers(0, 10**9),
    estimated=st.booleans(),
)
messages = st.builds(
    Message,
    id=texts,
    session_id=texts,
    run_id=texts,
    role=st.sampled_from(["user", "assistant", "tool"]),
    seq=st.integers(0, 10**9),
    created_at=texts,
    parts=st.lists(known_parts, max_size=5).map(tuple),
    unsent=st.booleans(),
    usage=st.none() | usages,
    model=st.none() | texts,
)
unknown_parts = st.tuples(texts, objects).map(lambda pair: {**pair[1], "type": f"new_{pair[0]}"})
"""Parts of a newer version."""
