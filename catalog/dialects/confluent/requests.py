"""Reads requests of the Confluent API: names in the path, parameters and bodies."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from aiohttp import hdrs, web

from catalog.api.answercache import ANSWERS, find_answer, keep_answer
from catalog.context import CONTEXT
from catalog.context import Context as NodeContext
from catalog.dialects.confluent import errors
from catalog.dialects.confluent.contexts import (
    ANY_CONTEXT,
    DEFAULT_CONTEXT,
    GLOBAL_CONTEXT,
    Contexts,
    SubjectName,
    read_context,
    read_subject,
)
from catalog.dialects.confluent.errors import ConfluentError
from catalog.http.body import read_body, read_json
from catalog.http.route import checked
from catalog.model.confluentattribute import SCHEMA_GROUPS, SCHEMAS
from catalog.model.errors import MissingBody, ParsingData, XRegistryError
from catalog.operations.schemacontracts import (
    AVRO,
    SCHEMA_TYPES,
    Contract,
    RegisterRequest,
    RuleSet,
)
from catalog.store.database import Connection

ROOT = "/confluent"
MOST_LISTED = 1000
"""The most schemas of a page."""
MOST_VALUES = 20_000
_NO_SUBJECTS = "The context .__GLOBAL has settings only, and no subjects"
_Model = TypeVar("_Model", bound=Contract)


def cached(
    handler: Callable[[web.Request], Awaitable[web.Response]],
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Cache the answers of a handler until a schema, a schema group or a setting is written.

    A handler that has written is called again for the next equal request, since the write ends the
    tickets of its place.
    """

    @functools.wraps(handler)
    async def answer(request: web.Request) -> web.Response:
        body = await read_body(request) if request.method == hdrs.METH_POST else b""
        found = await find_answer(request, body)
        if found is None:
            ticket = request.app[ANSWERS].ticket()
            found = await handler(request)
            if not request[CONTEXT].caller.is_restricted:
                keep_answer(request, found, f"/{SCHEMA_GROUPS}", ticket, body)
        return found

    return answer


def node_of(request: web.Request) -> NodeContext:
    """The node, as the caller of the request sees it.

    Raises:
        ConfluentError: 404 if the model of the registry has no schemas with documents.
    """
    node = request[CONTEXT]
    kind = node.model.resource_type(SCHEMA_GROUPS, SCHEMAS)
    if kind is None or not kind.hasdocument:
        raise ConfluentError(404, "The model of this registry has no schemas")
    return node


async def contexts_of(request: web.Request, connection: Connection) -> Contexts:
    """The contexts that the caller sees."""
    node = node_of(request)
    return await Contexts.load(connection, node.database.node.authority, node.settings)


@contextlib.asynccontextmanager
async def reading(request: web.Request) -> AsyncIterator[tuple[Connection, Contexts]]:
    """A connection, and the contexts that the caller sees."""
    async with node_of(request).database.acquire() as connection:
        yield connection, await contexts_of(request, connection)


def context_in(request: web.Request) -> str:
    """The context of the path, `/contexts/{context}/…`; else the default context.

    Raises:
        ConfluentError: 400 if the name is illegal.
    """
    text = request.match_info.get("context")
    if text is None:
        return DEFAULT_CONTEXT
    try:
        return read_context(text)
    except ValueError as error:
        raise ConfluentError(400, f"Invalid context: {error}") from error


def name_in(request: web.Request) -> SubjectName:
    """The subject that the path names, legal or not; without a subject, the context."""
    return read_subject(request.match_info.get("subject", ""), context_in(request))


def subject_in(request: web.Request) -> SubjectName:
    """The subject of the path, which may have schemas.

    Raises:
        ConfluentError: 400 for the context of settings, 42208 for an illegal name.
    """
    subject = name_in(request)
    if subject.context == GLOBAL_CONTEXT:
        raise ConfluentError(400, _NO_SUBJECTS)
    if not subject.is_legal:
        raise errors.invalid_subject(subject)
    return subject


def prefix_in(request: web.Request) -> SubjectName:
    """The beginning of the subjects to list: of the context of the path, else of any context.

    Raises:
        ConfluentError: 400 for the context of settings.
    """
    within = context_in(request)
    if within == GLOBAL_CONTEXT:
        raise ConfluentError(400, _NO_SUBJECTS)
    default = "" if "context" in request.match_info else f":{ANY_CONTEXT}:"
    return read_subject(request.query.get("subjectPrefix", default), within)


def settings_name_in(request: web.Request) -> SubjectName:
    """The subject or context of the path, which may have settings.

    Raises:
        ConfluentError: 42208 for an illegal name.
    """
    name = name_in(request)
    is_context = not name.name and name.context != ANY_CONTEXT
    is_of_all = name.context == GLOBAL_CONTEXT and name.name
    if is_of_all or not (is_context or name.is_legal):
        raise errors.invalid_subject(name)
    return name


def is_set(request: web.Request, name: str) -> bool:
    """Whether a boolean parameter is true."""
    return request.query.get(name, "").lower() == "true"


def page_in(request: web.Request) -> slice:
    """The part of a list that `offset` and `limit` ask for.

    Raises:
        ConfluentError: 400 if one is no number.
    """
    offset = _number(request, "offset")
    limit = _number(request, "limit")
    return slice(max(offset, 0), max(offset, 0) + limit if limit > 0 else None)


def _number(request: web.Request, name: str) -> int:
    text = request.query.get(name)
    if text is None:
        return -1
    plain = text.removeprefix("-")
    if not (plain.isascii() and plain.isdigit() and len(plain) < 11):
        raise ConfluentError(400, f"The parameter {name} needs to be a number")
    return int(text)


async def read_contract(request: web.Request, model: type[_Model]) -> _Model:
    """Read the body of a request.

    Raises:
        ConfluentError: 400 for malformed JSON, 422 for a body that is not as the model says.
    """
    try:
        data = await read_json(request, most_values=MOST_VALUES)
    except MissingBody as error:
        raise ConfluentError(422, "The body is empty") from error
    except ParsingData as error:
        raise ConfluentError(400, f"The body is no JSON: {error}") from error
    try:
        return checked(model, data, request.path)
    except XRegistryError as error:
        raise ConfluentError(422, f"The body is invalid: {error}") from None


async def read_schema(request: web.Request) -> RegisterRequest:
    """Read a schema, whose type is known.

    Raises:
        ConfluentError: as `read_contract`; 42201 for an unknown type; 42210.
    """
    body = await read_contract(request, RegisterRequest)
    schema_type = body.schemaType or AVRO
    if schema_type not in SCHEMA_TYPES:
        raise errors.invalid_schema(f"Invalid schema type {schema_type[:80]}")
    check_rules(body.ruleSet)
    return body


def check_rules(rules: RuleSet | None) -> None:
    """Refuse rules that no client could apply.

    Raises:
        ConfluentError: 42210.
    """
    if rules is not None and (fault := rules.fault()):
        raise errors.invalid_rules(fault)
