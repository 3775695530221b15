"""Maps the errors of providers to our error classes. Pure.

Messages about credit and context overflow decide first, because vendors send them under general codes; then the
vendor's code, then the HTTP status. A body that is not JSON is never quoted: it could contain anything.
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
from holdfast.models.retry import retry_after_from_details, retry_after_from_headers, retry_after_from_message
from holdfast.schema.base import repair_text

MAX_ERROR_BODY = 64 * 1024
"""The bytes of an error response that are read."""

_MAX_MESSAGE = 500
_PERMANENT = frozenset({400, 404, 422})
"""The same request would fail again, also if the vendor's general code is one of a server's fault."""
_FIRST_ERROR_STATUS = 300

ErrorClass: TypeAlias = type[ModelError]
Redact: TypeAlias = Callable[[str], str]
"""Removes known secrets from a text."""

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
"""By the provider's code, type or status, in lower case. Codes that are too general (``invalid_request_error``) are not
listed."""

_CONTEXT_MESSAGE = re.compile(
    r"maximum context length|context[ _-]?(?:length|window|size|limit).{0,40}(?:exceed|too|longer|smaller|larger|only)"
    r"|exceeds? (?:the |its |available )*(?:model'?s? )?(?:maximum )?(?:context|input token|prompt length)"
    r"|prompt (?:is )?too (?:long|large)|input (?:is )?too long|reduce the length of"
    r"|input token count .{0,60}exceeds|maximum prompt length|too many input tokens"
    r"|(?:input|prompt) tokens? .{0,40}(?:exceed|longer|larger)|tokens? (?:in|of) .{0,40}exceed",
    re.IGNORECASE | re.DOTALL,
)
_KEY_MESSAGE = re.compile(
    r"(?:incorrect|invalid|missing|expired|no) api[ _-]?key|api[ _-]?key (?:not valid|is invalid|expired)",
    re.IGNORECASE,
)
_CREDIT_MESSAGE = re.compile(
    r"credit balance|insufficient (?:credit|balance|fund|quota)|exceeded your current quota", re.IGNORECASE
)
_OVERLOAD_MESSAGE = re.compile(r"overloaded|at capacity|temporarily unavailable|try again later", re.IGNORECASE)

_LIKELY_KEY = re.compile(r"\b(?:sk|pk|gsk|xai|key|AIza|Bearer )[-_A-Za-z0-9.*]{12,}")
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


def error_from_response(
    status: int, headers: Mapping[str, str], body: bytes, *, host: str, now: float, redact: Redact = str
) -> ModelError:
    """Map an HTTP response that is not a stream. ``headers`` have lower-case names."""
    found = find_error(body) if _is_json(headers.get("content-type", "")) else None
    wait = retry_after_from_headers(headers, now=now)
    if found is None:
        kind = _class_by_status(status)
        return kind(
            f"{host} answered {status} {_DEFAULT_MESSAGES.get(kind, '')}".rstrip(),
            retry_after=wait,
            detail={"status": status},
        )
    is_success = status < _FIRST_ERROR_STATUS
    return _build(found, status=_status_of(found) if is_success else status, host=host, wait=wait, redact=redact)


def error_from_event(error: Any, *, host: str, redact: Redact = str) -> ModelError:
    """Map an error that a provider sends inside a stream."""
    found = _unwrap(error) or {}
    return _build(found, status=_status_of(found), host=host, wait=None, redact=redact)


def find_error(body: bytes) -> dict[str, Any] | None:
    """Return the error object in a JSON body, or None."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return _unwrap(found)


def sanitize_message(text: str, redact: Redact = str) -> str:
    """Make a provider's message safe to show: one short line without control characters and likely keys."""
    line = _CONTROL_CHARACTERS.sub(" ", repair_text(redact(repair_text(text)))).strip()
    line = _LIKELY_KEY.sub("[redacted]", line)
    return line if len(line) <= _MAX_MESSAGE else line[: _MAX_MESSAGE - 1] + "…"


def _build(error: dict[str, Any], *, status: int, host: str, wait: float | None, redact: Redact) -> ModelError:
    message = error.get("message")
    message = message if isinstance(message, str) else ""
    kind = _classify(error, message, status)
    if wait is None and kind.retryable:
        wait = retry_after_from_details(error)
        if wait is None:
            wait = retry_after_from_message(message)
    detail: dict[str, Any] = {"status": status} if status else {}
    if codes := [sanitize_message(code, redact)[:80] for code in _codes(error)]:
        detail["provider_code"] = codes[0]
    text = sanitize_message(message, redact) or _DEFAULT_MESSAGES.get(kind, "an error without a message")
    where = f"{host} answered {status}" if status else host
    return kind(f"{where}: {text}", retry_after=wait, detail=detail)


def _classify(error: dict[str, Any], message: str, status: int) -> ErrorClass:
    if _CREDIT_MESSAGE.search(message) and status in {0, 400, 402, 403, 429}:
        return ModelAuth
    if status == 413 or (_CONTEXT_MESSAGE.search(message) and status in {0, 400, 422, 500}):
        return ModelContext
    by_code = [_CODES[code] for code in _codes(error) if code in _CODES]
    if by_code and not (by_code[0] is ModelOverloaded and status in _PERMANENT):
        return by_code[0]
    if _KEY_MESSAGE.search(message) and status in {0, 400, 401, 403}:
        return ModelAuth
    if status:
        return _class_by_status(status)
    return ModelOverloaded if _OVERLOAD_MESSAGE.search(message) else ModelInvalid


def _codes(error: dict[str, Any]) -> list[str]:
    """The vendor's codes for an error, the most specific first."""
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
    """The HTTP status that some vendors put into an error's ``code`` or ``status``; 0 without one."""
    for value in (error.get("code"), error.get("status"), error.get("status_code")):
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
            value = int(value)
        if isinstance(value, int) and 400 <= value < 600:
            return value
    return 0


def _class_by_status(status: int) -> ErrorClass:
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
        case _ if status < _FIRST_ERROR_STATUS:
            return ModelMalformed
    return ModelInvalid


_DEFAULT_MESSAGES: dict[ErrorClass, str] = {
    ModelAuth: "(not authorised; check the provider's key)",
    ModelRateLimit: "(too many requests)",
    ModelOverloaded: "(the provider is overloaded or down)",
    ModelContext: "(the request is too large)",
    ModelInvalid: "(the provider did not accept the request; check base_url and the model's name)",
}


def _unwrap(found: Any) -> dict[str, Any] | None:
    """Return the error object inside the wrappers of different vendors."""
    if isinstance(found, list):
        found = found[0] if found else None
    if isinstance(found, str):
        return {"message": found}
    if not isinstance(found, dict):
        return None
    inner = found.get("error")
    if isinstance(inner, dict):
        return inner if isinstance(inner.get("message"), str) else {**inner, "message": _message_in(inner)}
    if isinstance(inner, str):
        return {**found, "message": inner, "code": found.get("code") or found.get("error_code")}
    message = _message_in(found)
    return {**found, "message": message} if message else None


def _message_in(found: dict[str, Any]) -> str:
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
