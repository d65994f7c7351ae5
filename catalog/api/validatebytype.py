"""Checks a message against the definition that is found by its type: `POST /validate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson
from aiohttp import web

from catalog.api.validate import Reader, Schema, check_payload, read_message
from catalog.context import CONTEXT, Context
from catalog.http.body import read_body
from catalog.http.route import Route
from catalog.load.longwork import aside
from catalog.messages.conformance import (
    RuleViolation,
    Violations,
    check_metadata,
)
from catalog.messages.definition import MessageDefinition, Property
from catalog.messages.message import CarriedEvent, Message, Payload, is_binary_event
from catalog.messages.textlines import find_lines
from catalog.model.concorderrors import DefinitionUnknown
from catalog.model.errors import BadRequest, MissingBody
from catalog.model.xid import Xid
from catalog.operations.validate import (
    VALIDATE,
    CandidateAnswer,
    UncheckedPart,
    ValidationAnswer,
    ValidationQuery,
    ViolationAnswer,
)
from catalog.store.database import Connection
from catalog.store.messagetypes import find_by_type, find_with_template

_MOST_CANDIDATES, _MOST_TEMPLATES, _MOST_CHECKED = 50, 200, 8
_LONGEST_TYPE = 2048
_IDENTIFYING = ("type", "source", "subject", "dataschema")
_SEARCH = "Look for a similar one: concord search {type} --type messages."


@dataclass(slots=True, kw_only=True)
class _Candidate:
    """A definition with the type of a message, and what the check of the message found.

    Args:
        used: the xid of the version.
        mismatches: why the message is another one than those of the definition.
        is_whole: whether the payload was checked, too.
    """

    definition: MessageDefinition
    used: str
    schema: Schema | None
    findings: Violations
    mismatches: Sequence[RuleViolation] = ()
    is_whole: bool = False


async def validate_message(request: web.Request, query: ValidationQuery) -> ValidationAnswer:
    """Check a message against its definition, which is found by the type of the message."""
    context, body = request[CONTEXT], await read_body(request)
    if not body:
        raise MissingBody(request.path)
    message = await aside(0, _read, request, body, query.type)
    assert message.event is not None, "only events are read"
    type = message.event.attributes.get("type")
    if not isinstance(type, str) or not 0 < len(type) <= _LONGEST_TYPE:
        fault = f"the event has no type of up to {_LONGEST_TYPE} characters to find a definition by"
        raise BadRequest(request.path, error_detail=fault)
    async with context.database.snapshot() as connection:
        candidates = await _candidates(request, connection, type)
    if not candidates:
        advice = _SEARCH.format(type=type[:200])
        raise DefinitionUnknown(request.path, type=type[:200], detail=advice)
    for each in candidates:
        await aside(0, _check_metadata, message, each, query.type is not None)
    candidates.sort(key=lambda each: (len(each.mismatches), each.used))
    for each in candidates[:_MOST_CHECKED]:
        await _check_payload(context, message, each)
    candidates.sort(key=_rank)
    is_json = query.type is not None or not is_binary_event(request.headers)
    lines = await aside(0, _lines, body, candidates) if is_json else {}
    return _answer(candidates, lines)


routes = (Route(VALIDATE, validate_message),)


def _read(request: web.Request, body: bytes, type: str | None) -> Message:
    """Read an event, or the data of an event with a type.

    Raises:
        XRegistryError: the request has no event.
    """
    if type is not None:
        contenttype = request.headers.get("Content-Type", "application/json")
        payload = Payload(content=body, contenttype=contenttype, pointer="")
        event = CarriedEvent(attributes={"type": type}, is_structured=False, payload=payload)
        return Message(event=event)
    message = read_message(request, body, "")
    if message.event is None:
        fault = "only a CloudEvent has a type: check other messages at /validate + the xid of "
        raise BadRequest(request.path, error_detail=f"{fault}their definition, or name a type")
    return message


async def _candidates(request: web.Request, connection: Connection, type: str) -> list[_Candidate]:
    context = request[CONTEXT]
    bases = [context.base_url(request), context.public_base]
    reader = Reader(context=context, connection=connection, bases=bases)
    xids = [
        *await find_by_type(connection, type, _MOST_CANDIDATES),
        *await find_with_template(connection, _MOST_TEMPLATES),
    ]
    found: list[_Candidate] = []
    for xid in dict.fromkeys(xids):
        findings = Violations()
        definition, used = await reader.definition(Xid.parse(xid), findings)
        wanted = Property.of(
            definition.envelopemetadata.get("type"), is_text=True, is_media_type=False
        )
        if Violations().admits(wanted, type) and len(found) < _MOST_CANDIDATES:
            schema = await reader.schema(definition, findings)
            found.append(
                _Candidate(definition=definition, used=used, schema=schema, findings=findings)
            )
    return found


def _check_metadata(message: Message, candidate: _Candidate, is_data_alone: bool) -> None:
    findings = candidate.findings
    if is_data_alone:
        findings.leave("envelopemetadata", "only the data was given")
        return
    checked = check_metadata(message, candidate.definition)
    checked.unchecked[:0] = findings.unchecked
    candidate.findings = checked
    assert message.event is not None, "only events are read"
    identifying = {message.event.pointer(name) for name in _IDENTIFYING}
    candidate.mismatches = [each for each in checked.violations if each.pointer in identifying]


async def _check_payload(context: Context, message: Message, candidate: _Candidate) -> None:
    candidate.is_whole = True
    if candidate.schema is not None and not candidate.findings.is_full:
        await check_payload(
            context, message, candidate.definition, candidate.schema, candidate.findings
        )


def _rank(candidate: _Candidate) -> tuple[int, bool, int, str]:
    """The order of candidates: by what identifies a message, then by all that it breaks."""
    number = len(candidate.findings.violations)
    return len(candidate.mismatches), not candidate.is_whole, number, candidate.used


def _lines(body: bytes, candidates: Sequence[_Candidate]) -> dict[str, int]:
    """The lines of the violations by their pointers, if the body is JSON."""
    try:
        orjson.loads(body)
        pointers = {one.pointer for each in candidates for one in each.findings.violations}
        return find_lines(body.decode(), pointers)
    except ValueError:
        return {}


def _answer(candidates: Sequence[_Candidate], lines: dict[str, int]) -> ValidationAnswer:
    def shown(violations: Sequence[RuleViolation]) -> list[ViolationAnswer]:
        return [
            ViolationAnswer(
                pointer=one.pointer,
                rule=one.rule,
                detail=one.detail,
                line=lines.get(one.pointer) or None,
            )
            for one in violations
        ]

    best = candidates[0]
    return ValidationAnswer(
        valid=not best.findings.violations,
        definition=best.used,
        schema=best.schema.xid or None if best.schema is not None else None,
        violations=shown(best.findings.violations),
        unchecked=[
            UncheckedPart(part=one.part, reason=one.reason, uri=one.uri or None)
            for one in best.findings.unchecked
        ],
        candidates=[
            CandidateAnswer(
                definition=each.used,
                matches=not each.mismatches,
                valid=not each.findings.violations if each.is_whole else None,
                violations=shown(each.mismatches),
            )
            for each in candidates
        ],
    )
