"""Handlers that check whether a schema could be registered."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from catalog.dialects.confluent.candidates import (
    Candidate,
    Scope,
    compatibility_note,
    load_older,
    reserved_faults,
)
from catalog.dialects.confluent.errors import (
    ConfluentError,
    confluent_json,
    invalid_schema,
    version_not_found,
)
from catalog.dialects.confluent.requests import is_set, node_of, read_schema, subject_in
from catalog.dialects.confluent.schemachecks import SchemaChecks
from catalog.dialects.confluent.subjectversions import (
    LATEST,
    SubjectVersion,
    read_version,
)


async def check_against_all(request: web.Request) -> web.Response:
    """Whether a schema is compatible with the versions that a registration compares it with."""
    return await _check(request, None)


async def check_against_version(request: web.Request) -> web.Response:
    """Whether a schema is compatible with one version of a subject."""
    return await _check(request, read_version(request.match_info["version"]))


async def _check(request: web.Request, number: int | None) -> web.Response:
    subject, body = subject_in(request), await read_schema(request)
    node, candidate = node_of(request), Candidate.of(body)
    checks = SchemaChecks(node.checked_requests.begin(node.caller.client))
    async with node.database.acquire() as connection:
        scope = await Scope.read(request, connection, subject)
        versions = _compared(scope, number)
        older = await load_older(connection, scope, candidate.metadata, versions)
        try:
            if candidate.is_empty:
                raise invalid_schema("Empty schema")
            candidate, schema = await scope.completed(
                request, connection, candidate, checks, is_new=True
            )
        except ConfluentError as error:
            if not is_set(request, "verbose"):
                raise
            return confluent_json({"is_compatible": False, "messages": [error.message]})
    level = scope.config.compatibilityLevel or "NONE"
    faults = [
        *await reserved_faults(scope, candidate, schema, checks),
        *await checks.incompatibilities(schema, older, level),
    ]
    shown = {"is_compatible": not faults}
    if not is_set(request, "verbose"):
        return confluent_json(shown)
    messages = [*faults, compatibility_note(scope.config)] if faults else []
    return confluent_json({**shown, "messages": messages})


def _compared(scope: Scope, number: int | None) -> Sequence[SubjectVersion]:
    """The versions to compare with: the version of a number, or every live version.

    Raises:
        ConfluentError: 40402 for a version that is not there.
    """
    live = scope.stored.live
    if number is None:
        return live
    if number == LATEST:
        return live[-1:]
    found = [one for one in live if one.number == number]
    if not found:
        raise version_not_found(number)
    return found
