"""The errors of the Confluent API, and the answers that tell them.

Every answer is `{"error_code": …, "message": …}`. Codes of five digits are the API's own; another
error has its HTTP status for a code.
"""

from __future__ import annotations

from typing import Any

import orjson
from aiohttp import hdrs, web

from catalog.http.problems import PROBLEM, problem_of
from catalog.http.responses import to_json
from catalog.model.concorderrors import CONCORD, LimitExceeded, RequestTooLarge
from catalog.model.errors import (
    ActionNotSupported,
    ApiNotFound,
    MismatchedEpoch,
    Readonly,
    XRegistryError,
)

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_PERMANENTLY = "Set permanent=true to delete permanently"


class ConfluentError(XRegistryError, name="confluent_error", home=CONCORD):
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


def subject_not_found(subject: object) -> ConfluentError:
    return ConfluentError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: object) -> ConfluentError:
    return ConfluentError(40402, f"Version {version} not found.")


def schema_not_found(schema: object = "") -> ConfluentError:
    named = f"Schema {schema} not found" if schema else "Schema not found"
    return ConfluentError(40403, named)


def subject_soft_deleted(subject: object) -> ConfluentError:
    return ConfluentError(40404, f"Subject '{subject}' was soft deleted.{_PERMANENTLY}")


def subject_not_soft_deleted(subject: object) -> ConfluentError:
    message = f"Subject '{subject}' was not deleted first before being permanently deleted"
    return ConfluentError(40405, message)


def version_soft_deleted(subject: object, version: object) -> ConfluentError:
    message = f"Subject '{subject}' Version {version} was soft deleted.{_PERMANENTLY}"
    return ConfluentError(40406, message)


def version_not_soft_deleted(subject: object, version: object) -> ConfluentError:
    message = (
        f"Subject '{subject}' Version {version} was not deleted first before being "
        "permanently deleted"
    )
    return ConfluentError(40407, message)


def config_not_found(subject: object) -> ConfluentError:
    message = f"Subject '{subject}' does not have subject-level compatibility configured"
    return ConfluentError(40408, message)


def mode_not_found(subject: object) -> ConfluentError:
    message = f"Subject '{subject}' does not have subject-level mode configured"
    return ConfluentError(40409, message)


def incompatible(message: str) -> ConfluentError:
    return ConfluentError(40901, message)


def invalid_schema(message: str) -> ConfluentError:
    return ConfluentError(42201, message)


def invalid_version(version: object) -> ConfluentError:
    message = (
        f"The specified version '{version}' is not a valid version id. Allowed values are "
        'between [1, 2^31-1] and the string "latest"'
    )
    return ConfluentError(42202, message)


def invalid_level() -> ConfluentError:
    message = (
        "Invalid compatibility level. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive"
    )
    return ConfluentError(42203, message)


def invalid_mode() -> ConfluentError:
    message = (
        "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, IMPORT and FORWARD"
    )
    return ConfluentError(42204, message)


def not_permitted(message: str) -> ConfluentError:
    return ConfluentError(42205, message)


def reference_exists(subject: object, version: int) -> ConfluentError:
    message = (
        f"One or more references exist to the schema {{magic=1,keytype=SCHEMA,"
        f"subject={subject},version={version}}}."
    )
    return ConfluentError(42206, message)


def invalid_subject(subject: object) -> ConfluentError:
    return ConfluentError(42208, f"The specified subject '{subject}' is not a valid subject name.")


def too_large(message: str) -> ConfluentError:
    return ConfluentError(42209, message)


def invalid_rules(message: str) -> ConfluentError:
    return ConfluentError(42210, message)


def context_not_empty(context: str) -> ConfluentError:
    return ConfluentError(42211, f"The specified context '{context}' is not empty.")


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
        case ApiNotFound():
            return _answer(404, "HTTP 404 Not Found", 404)
        case ActionNotSupported():
            return _answer(405, "HTTP 405 Method Not Allowed", 405, native)
        case Readonly():
            message = f"The subject is read-only here. {error.detail}"
            return _answer(42205, message, 422, native)
        case MismatchedEpoch():
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
