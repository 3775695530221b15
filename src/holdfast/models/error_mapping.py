"""A provider's "no", in whatever form, as one of our error classes. Pure.

The vendors' codes decide first, then what only their words tell (context overflow), then the HTTP status. A foreign
body that is not JSON is never repeated: it may be anything, from a login page to somebody's secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from holdfast.errors import (
    ModelAuth,
    ModelContext,
    ModelError,
    ModelInvalid,
    ModelMalformed,
    ModelOverloaded,
    ModelRateLimit,
    ModelRefused,
)
from holdfast.models import retry_after
from holdfast.schema.base import repair_text

MAX_BODY = 64 * 1024
"""How much of an error's body is looked at."""

_LONGEST_MESSAGE = 500
_FIRST_ERROR = 300
"""HTTP statuses from here on are no success."""

ErrorClass: TypeAlias = type[ModelError]
Redact: TypeAlias = Callable[[str], str]
"""Takes known secrets out of a text."""

_CODES: dict[str, ErrorClass] = {
    **dict.fromkeys(("context_length_exceeded", "exceed_context_size_error", "request_too_large"), ModelContext),
    **dict.fromkeys(("string_above_max_length", "model_context_window_exceeded"), ModelContext),
    **dict.fromkeys(("authentication_error", "permission_error", "invalid_api_key", "unauthorized"), ModelAuth),
    **dict.fromkeys(("unauthenticated", "permission_denied", "api_key_invalid", "account_deactivated"), ModelAuth),
    **dict.fromkeys(("insufficient_quota", "billing_error", "billing_not_active", "insufficient_balance"), ModelAuth),
    **dict.fromkeys(("billing_hard_limit_reached", "access_denied", "invalid_authentication_error"), ModelAuth),
    **dict.fromkeys(("rate_limit_exceeded", "rate_limit_error", "resource_exhausted"), ModelRateLimit),
    **dict.fromkeys(("too_many_requests", "rate_limit_reached_error", "rate_limited", "slow_down"), ModelRateLimit),
    **dict.fromkeys(("overloaded_error", "overloaded", "server_error", "api_error", "timeout_error"), ModelOverloaded),
    **dict.fromkeys(("internal_error", "internal_server_error", "service_unavailable"), ModelOverloaded),
    **dict.fromkeys(("unavailable", "internal", "deadline_exceeded", "aborted", "cancelled"), ModelOverloaded),
    **dict.fromkeys(("server_is_overloaded", "engine_overloaded", "engine_overloaded_error"), ModelOverloaded),
    **dict.fromkeys(("content_filter", "content_policy_violation", "responsibleaipolicyviolation"), ModelRefused),
    **dict.fromkeys(("invalid_prompt", "image_content_policy_violation", "content_filter_error"), ModelRefused),
    **dict.fromkeys(("bio_policy", "misalignment_policy_violation", "data_inspection_failed"), ModelRefused),
    **dict.fromkeys(("model_not_found", "not_found_error", "not_found", "failed_precondition"), ModelInvalid),
    **dict.fromkeys(("out_of_range", "unsupported_parameter", "unsupported_value"), ModelInvalid),
}
"""By the provider's own code, type or status, in lower case. What is not here (``invalid_request_error``) is too wide
to decide by."""

_CONTEXT_WORDS = re.compile(
    r"maximum context length|context[ _-]?(?:length|window|size|limit).{0,40}(?:exceed|too|longer|smaller|larger|only)"
    r"|exceeds? (?:the |its |available )*(?:model'?s? )?(?:maximum )?(?:context|input token|prompt length)"
    r"|prompt (?:is )?too (?:long|large)|input (?:is )?too long|reduce the length of"
    r"|input token count .{0,60}exceeds|maximum prompt length|too many input tokens"
    r"|(?:input|prompt) tokens? .{0,40}(?:exceed|longer|larger)|tokens? (?:in|of) .{0,40}exceed",
    re.IGNORECASE | re.DOTALL,
)
_KEY_WORDS = re.compile(
    r"(?:incorrect|invalid|missing|expired|no) api[ _-]?key|api[ _-]?key (?:not valid|is invalid|expired)",
    re.IGNORECASE,
)
_CREDIT_WORDS = re.compile(
    r"credit balance|insufficient (?:credit|balance|fund|quota)|exceeded your current quota", re.IGNORECASE
)
_OVERLOAD_WORDS = re.compile(r"overloaded|at capacity|temporarily unavailable|try again later", re.IGNORECASE)

_KEY_LIKE = re.compile(r"\b(?:sk|pk|gsk|xai|key|AIza|Bearer )[-_A-Za-z0-9.*]{12,}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


def from_response(
    status: int, headers: Mapping[str, str], body: bytes, *, host: str, now: float, redact: Redact = str
) -> ModelError:
    """The error that an HTTP answer other than a stream means. ``headers`` by lower-case name."""
    found = _find_error(body) if _is_json(headers.get("content-type", "")) else None
    wait = retry_after.from_headers(headers, now=now)
    if found is None:
        kind = _by_status(status)
        return kind(
            f"{host} answered {status} {_STATUS_WORDS.get(kind, '')}".rstrip(),
            retry_after=wait,
            detail={"status": status},
        )
    in_success = status < _FIRST_ERROR
    return _build(found, status=_status_of(found) if in_success else status, host=host, wait=wait, redact=redact)


def from_event(error: Any, *, host: str = "the provider", redact: Redact = str) -> ModelError:
    """The error that a provider sends inside a stream it had already begun."""
    found = _normalized(error) or {}
    return _build(found, status=_status_of(found), host=host, wait=None, redact=redact)


def error_in(body: bytes) -> dict[str, Any] | None:
    """The error object in a JSON body, if it is one."""
    return _find_error(body)


def shown(text: str, redact: Redact = str) -> str:
    """A provider's words, fit to be shown: one line, short, no control characters, nothing that looks like a key."""
    plain = _CONTROL.sub(" ", repair_text(redact(repair_text(text)))).strip()
    plain = _KEY_LIKE.sub("[redacted]", plain)
    return plain if len(plain) <= _LONGEST_MESSAGE else plain[: _LONGEST_MESSAGE - 1] + "…"


def _build(error: dict[str, Any], *, status: int, host: str, wait: float | None, redact: Redact) -> ModelError:
    message = error.get("message")
    message = message if isinstance(message, str) else ""
    kind = _classify(error, message, status)
    if wait is None and kind.retryable:
        wait = retry_after.from_details(error)
        if wait is None:
            wait = retry_after.from_words(message)
    detail: dict[str, Any] = {"status": status} if status else {}
    if codes := [shown(code, redact)[:80] for code in _codes(error)]:
        detail["provider_code"] = codes[0]
    words = shown(message, redact) or _STATUS_WORDS.get(kind, "an error without a message")
    where = f"{host} answered {status}" if status else host
    return kind(f"{where}: {words}", retry_after=wait, detail=detail)


def _classify(error: dict[str, Any], message: str, status: int) -> ErrorClass:
    if _CREDIT_WORDS.search(message) and status in {0, 400, 402, 403, 429}:
        return ModelAuth
    if status == 413 or (_CONTEXT_WORDS.search(message) and status in {0, 400, 422, 500}):
        return ModelContext
    by_code = [_CODES[code] for code in _codes(error) if code in _CODES]
    if by_code:
        return by_code[0]
    if _KEY_WORDS.search(message) and status in {0, 400, 401, 403}:
        return ModelAuth
    if status:
        return _by_status(status)
    return ModelOverloaded if _OVERLOAD_WORDS.search(message) else ModelInvalid


def _codes(error: dict[str, Any]) -> list[str]:
    """The vendor's names for what went wrong, the most exact first."""
    inner = error.get("innererror")
    metadata = error.get("metadata")
    details = error.get("details")
    candidates = [
        inner.get("code") if isinstance(inner, dict) else None,
        *(
            detail.get("reason")
            for detail in (details if isinstance(details, list) else ())
            if isinstance(detail, dict)
        ),
        metadata.get("error_type") if isinstance(metadata, dict) else None,
        error.get("code"),
        error.get("type"),
        error.get("status"),
    ]
    return [value.lower() for value in candidates if isinstance(value, str) and value]


def _status_of(error: dict[str, Any]) -> int:
    """An HTTP status that some vendors put into the error's ``code`` or ``status``."""
    for value in (error.get("code"), error.get("status"), error.get("status_code")):
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
            value = int(value)
        if isinstance(value, int) and 400 <= value < 600:
            return value
    return 0


def _by_status(status: int) -> ErrorClass:
    match status:
        case 401 | 402 | 403:
            return ModelAuth
        case 429:
            return ModelRateLimit
        case 408 | 409 | 425:
            return ModelOverloaded
        case 413:
            return ModelContext
        case _ if status >= 500:
            return ModelOverloaded
        case _ if status < _FIRST_ERROR:
            return ModelMalformed
    return ModelInvalid


_STATUS_WORDS: dict[ErrorClass, str] = {
    ModelAuth: "(not authorised; check the provider's key)",
    ModelRateLimit: "(too many requests)",
    ModelOverloaded: "(the provider is overloaded or down)",
    ModelContext: "(the request is too large)",
    ModelInvalid: "(the provider did not accept the request; check base_url and the model's name)",
}


def _find_error(body: bytes) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return _normalized(found)


def _normalized(found: Any) -> dict[str, Any] | None:
    """The error object inside the shapes that vendors wrap it in."""
    if isinstance(found, list):
        found = found[0] if found else None
    if isinstance(found, str):
        return {"message": found}
    if not isinstance(found, dict):
        return None
    inner = found.get("error")
    if isinstance(inner, dict):
        return inner if isinstance(inner.get("message"), str) else {**inner, "message": _words(inner)}
    if isinstance(inner, str):
        return {**found, "message": inner, "code": found.get("code") or found.get("error_code")}
    words = _words(found)
    return {**found, "message": words} if words else None


def _words(found: dict[str, Any]) -> str:
    for key in ("message", "detail", "error_message", "msg", "errors"):
        match found.get(key):
            case str() as text if text:
                return text
            case [{"msg": str() as text}, *_] | [{"message": str() as text}, *_] | {"message": str() as text}:
                return text
            case [str() as text, *_]:
                return text
    return ""


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind.endswith("json") or not kind
