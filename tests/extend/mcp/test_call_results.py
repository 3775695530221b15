"""Results of MCP calls as text and images for a model."""

from typing import Any

from holdfast.extend.mcp.call_results import MAX_IMAGES, McpResult, read_resource_contents, read_result

IMAGE = {"type": "image", "mimeType": "image/png", "data": "QUJD"}


def result(*content: Any, sees: bool = True, **fields: Any) -> McpResult:
    return read_result({"content": list(content), **fields}, can_see_images=sees)


def test_text_images_resources_and_links_are_read() -> None:
    found = result(
        {"type": "text", "text": "one"},
        IMAGE,
        {"type": "resource", "resource": {"uri": "note://a", "text": "two"}},
        {"type": "resource", "resource": {"uri": "note://b", "mimeType": "image/png", "blob": "QUJD"}},
        {"type": "resource", "resource": {"uri": "note://c", "mimeType": "application/zip", "blob": "QUJD"}},
        {"type": "resource_link", "uri": "note://d", "name": "d"},
        {"type": "audio", "mimeType": "audio/wav", "data": "QUJD"},
    )
    assert found.text.splitlines() == [
        "one",
        "[image 1]",
        "[resource note://a]",
        "two",
        "[image 2]",
        "[resource note://c (application/zip) is not text and is not shown]",
        "[resource d: note://d]",
        "[audio (audio/wav) is not shown]",
    ]
    assert [(file.media_type, file.data) for file in found.files] == [("image/png", "QUJD")] * 2


def test_images_are_named_to_models_that_cannot_see_and_limited_for_others() -> None:
    assert result(IMAGE, sees=False) == McpResult("[an image is not shown: this model cannot see images]")
    assert len(result(*[IMAGE] * 20).files) == MAX_IMAGES
    assert result({**IMAGE, "mimeType": "image/svg+xml"}).files == ()


def test_structured_content_is_shown_if_there_is_no_text() -> None:
    assert result(structuredContent={"a": [1]}).text == '{\n "a": [\n  1\n ]\n}'
    assert result({"type": "text", "text": "said"}, structuredContent={"a": 1}).text == "said"


def test_errors_emptiness_and_rubbish_are_results() -> None:
    assert result({"type": "text", "text": "no"}, isError=True) == McpResult("no", is_error=True)
    assert result() == McpResult("(empty)")
    assert result(7, None, {"type": "new\u202e"}, {}).text.count("is not shown") == 2
    assert read_result({"content": "rubbish"}, can_see_images=True).text == "(empty)"


def test_contents_of_a_resource_are_read() -> None:
    contents = [{"uri": "note://a", "text": "milk"}]
    assert read_resource_contents({"contents": contents}, can_see_images=True).text == "[resource note://a]\nmilk"
    assert read_resource_contents({}, can_see_images=True).text == "(empty)"
