"""The errors of the Confluent API, and the answers that tell them.

Every answer is `{"error_code": …, "message": …}`. Codes of five digits are the API's own; another
error has its HTTP status for a code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from aiohttp import hdrs, web

from catalog.http.problems import PROBLEM, problem_of
from catalog.http.responses import to_json
from catalog.model import errors
from catalog.model.concorderrors import CONCORD, LimitExceeded, RequestTooLarge

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class ConfluentError(errors.XRegistryError, name="confluent_error", home=CONCORD):
    """An error with a code of the API; the status is the first three digits.

    Args:
        code: the code.
        message: the message for the client.
    """

    template = "<message>"
    is_about_request = True

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message=message)
        self.code = code
        self.message = message
        self.status = int(str(code)[:3])  # type: ignore[misc]


def _error(code: int, template: str) -> Callable[..., ConfluentError]:
    """A function that makes an error of the template's arguments, in order."""
    return lambda *arguments: ConfluentError(code, template.format(*arguments))


_PERMANENTLY = "Set permanent=true to delete permanently"
_NOT_DELETED_FIRST = "was not deleted first before being permanently deleted"
subject_not_found = _error(40401, "Subject '{}' not found.")
version_not_found = _error(40402, "Version {} not found.")
schema_not_found = _error(40403, "{} not found")
subject_soft_deleted = _error(40404, f"Subject '{{}}' was soft deleted.{_PERMANENTLY}")
subject_not_soft_deleted = _error(40405, f"Subject '{{}}' {_NOT_DELETED_FIRST}")
version_soft_deleted = _error(40406, f"Subject '{{}}' Version {{}} was soft deleted.{_PERMANENTLY}")
version_not_soft_deleted = _error(40407, f"Subject '{{}}' Version {{}} {_NOT_DELETED_FIRST}")
config_not_found = _error(
    40408, "Subject '{}' does not have subject-level compatibility configured"
)
mode_not_found = _error(40409, "Subject '{}' does not have subject-level mode configured")
incompatible = _error(40901, "{}")
invalid_schema = _error(42201, "{}")
invalid_version = _error(
    42202,
    "The specified version '{}' is not a valid version id. Allowed values are between "
    '[1, 2^31-1] and the string "latest"',
)
invalid_level = _error(
    42203,
    "Invalid compatibility level. Valid values are none, backward, forward, full, "
    "backward_transitive, forward_transitive, and full_transitive",
)
invalid_mode = _error(
    42204,
    "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, IMPORT and FORWARD",
)
not_permitted = _error(42205, "{}")
reference_exists = _error(
    42206,
    "One or more references exist to the schema {{magic=1,keytype=SCHEMA,subject={},version={}}}.",
)
invalid_subject = _error(42208, "The specified subject '{}' is not a valid subject name.")
too_large = _error(42209, "{}")
invalid_rules = _error(42210, "{}")
context_not_empty = _error(42211, "The specified context '{}' is not empty.")


def confluent_json(data: Any, *, status: int = 200) -> web.Response:
    """An answer in the media type of the API."""
    return web.Response(body=to_json(data), status=status, headers={hdrs.CONTENT_TYPE: MEDIA_TYPE})


def answer_error(request: web.Request, error: Exception) -> web.Response:
    """Answer an error as the API does.

    Raises:
        ConnectionError: the given error, if the client is gone.
    """
    if isinstance(error, ConfluentError):
        return _answer(error.code, error.message, error.status)
    # The native answer has the headers, the log and the wording of every other error.
    native = problem_of(request, error)
    match error:
        case errors.ApiNotFound():
            return _answer(404, "HTTP 404 Not Found", 404)
        case errors.ActionNotSupported():
            return _answer(405, "HTTP 405 Method Not Allowed", 405, native)
        case errors.Readonly():
            message = f"The subject is read-only here. {error.detail}"
            return _answer(42205, message, 422, native)
        case errors.MismatchedEpoch():
            return _answer(50002, "The subject is changing all the time. Try again.", 503, native)
        case RequestTooLarge() | LimitExceeded():
            return _answer(42209, str(error), 422, native)
    document = orjson.loads(native.body) if isinstance(native.body, bytes) else {}
    message = " ".join(filter(None, (document.get("title"), document.get("detail"))))
    return _answer(native.status, message or "Internal Server Error", native.status, native)


def _answer(
    code: int, message: str, status: int, native: web.Response | None = None
) -> web.Response:
    response = confluent_json({"error_code": code, "message": message}, status=status)
    for name, value in native.headers.items() if native is not None else ():
        if name not in (hdrs.CONTENT_TYPE, hdrs.CONTENT_LENGTH):
            response.headers[name] = value
    response[PROBLEM] = f"confluent_{code}"
    return response
