"""The declaration of an operation, and the common forms of bodies, answers and queries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Generic

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SecretStr,
    WithJsonSchema,
)
from typing_extensions import TypeVar

from catalog.model.roles import Permission
from catalog.model.timestamps import parse_time

READING = ("GET", "HEAD", "OPTIONS")
ANY_METHOD = "*"
LINES = "application/x-ndjson"
LOCATION = {"Location": "The URL of what was made"}
"""The header of an answer to a creation."""

_PATTERN = re.compile(r"{(\w+):[^}]*}")
_LONGEST_TIME = 64


class Anyone(Enum):
    """The right to use an operation that needs no role."""

    UNASKED = "its answer is for everybody, or the request has a secret of its own"
    TOLD = "whoever it is, a credential that is shown has to be valid"


Need = Permission | Anyone

Taken = TypeVar("Taken", bound=BaseModel | None, default=None)
Answered = TypeVar("Answered", bound=BaseModel | None, default=None)


@dataclass(frozen=True, slots=True)
class Operation(Generic[Taken, Answered]):
    """A method on a path. OpenAPI takes the name and the summary from the handler.

    Args:
        method: the HTTP method; `*` stands for each method without an operation on the same path.
        path: the path with placeholders, as `/access/rules/{id}`.
        needs: the right that the caller needs.
        takes: the model of a JSON body.
        answers: the model of a JSON answer.
        query: the model of the parameters of the query.
        status: the status of a successful answer.
        outcomes: the descriptions of further successful answers, by status.
        refuses: the statuses of refusals that do not follow from the right, the path and the body.
        headers: the descriptions of the headers of a successful answer, by name; an answer to a
            query with a `limit` has the header `Link`, too.
        conditions: whether the request may have `If-Match`.
        given: the descriptions of optional headers of the request, by name.
        requires: the descriptions of required headers of the request, by name.
        is_optional: whether the body may be missing.
        most_values: the most JSON values in the body.
        is_bounded: whether the time limit of a request applies; if not, the handler bounds the
            time.
        is_repeatable: whether a client may repeat the operation although the method is not
            idempotent.
        is_kept: whether a cache may keep the answer to a read and revalidate it each time; no
            cache keeps the answer to a write.
        has_slashes: whether an encoded slash is a part of an id in the path, and a slash at the end
            of the path is nothing.
        has_head: whether HEAD is answered like GET; false if GET changes state.
        is_counted: whether a request counts towards the rate of the caller.
        dry: the operation with the parameter `dryrun`, if the answer differs.
        capability: the name of the path in the capabilities `available` and `mutable`.
        content: the media types of bodies and answers without a model.
        description: the facts that a client needs beside the summary.
    """

    method: str
    path: str
    needs: Need
    _: KW_ONLY
    takes: type[Taken] | None = None
    answers: type[Answered] | None = None
    query: type[BaseModel] | None = None
    status: int = 200
    outcomes: Mapping[int, str] = field(default_factory=dict)
    refuses: tuple[int, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    conditions: bool = False
    given: Mapping[str, str] = field(default_factory=dict)
    requires: Mapping[str, str] = field(default_factory=dict)
    is_optional: bool = False
    most_values: int = 10_000
    is_bounded: bool = True
    is_repeatable: bool = False
    is_kept: bool = True
    has_slashes: bool = False
    has_head: bool = True
    is_counted: bool = True
    dry: Operation[Any, Any] | None = None
    capability: str | None = None
    content: Content = field(default_factory=lambda: Content())
    description: str = ""

    @property
    def template(self) -> str:
        """The path with only the names of placeholders, for metrics and OpenAPI."""
        return _PATTERN.sub(r"{\1}", self.path)


@dataclass(frozen=True, slots=True)
class Content:
    """JSON Schemas of the body and of the answer, by media type; for lines, of each line.

    Args:
        models: the models that the schemas refer to.
    """

    taken: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    answered: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    models: tuple[type[BaseModel], ...] = ()


# A command imports many models and needs few of them: each is built at its first use.
class Body(BaseModel):
    """The body of a request: unknown members are refused, and no error repeats a value."""

    model_config = ConfigDict(
        defer_build=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        populate_by_name=True,
    )


class AnswerBody(BaseModel):
    """The body of an answer. A member without a value is left out; newer nodes may add members.

    An object with attributes of the same names can be validated as an answer.
    """

    model_config = ConfigDict(
        defer_build=True,
        extra="ignore",
        frozen=True,
        from_attributes=True,
        populate_by_name=True,
    )


class Query(BaseModel):
    """The parameters of a query; unknown parameters are ignored."""

    model_config = ConfigDict(defer_build=True, extra="ignore", frozen=True)


class StrictQuery(Query):
    """The parameters of a query; unknown parameters are refused."""

    model_config = ConfigDict(extra="forbid")


def _read_time(value: object) -> object:
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or len(value) > _LONGEST_TIME:
        raise ValueError("it needs to be an RFC 3339 timestamp, as 2030-12-19T06:00:00Z")
    return parse_time(value)


Time = Annotated[datetime, BeforeValidator(_read_time, json_schema_input_type=str)]
"""A point in time, in JSON as RFC 3339 in UTC."""

Flag = Annotated[
    bool,
    # A value in the URL turns the flag on, whatever the value; only the default is False.
    BeforeValidator(lambda given: given is not False),
    WithJsonSchema({"type": "string", "enum": [""]}),
]
"""A parameter without a value, turned on by presence."""

Secret = Annotated[
    SecretStr, PlainSerializer(lambda secret: secret.get_secret_value(), return_type=str)
]
"""A secret in a body: shown in no log and no error, and sent unmasked."""


def secret_like(pattern: str, what: str) -> AfterValidator:
    """A check of a whole secret against a pattern, for pydantic; no error repeats the secret."""

    def check(secret: SecretStr) -> SecretStr:
        if not re.fullmatch(pattern, secret.get_secret_value(), re.ASCII):
            raise ValueError(f"it needs to be {what}")
        return secret

    return AfterValidator(check)


Term = Annotated[str, Field(min_length=1, max_length=2048)]
"""An xid, URI or word in a query."""


class PageQuery(Query):
    """The page of a list: at most `limit` items after the item `after`."""

    limit: int | None = Field(default=None, ge=1)
    after: str = Field(default="", max_length=1024)
