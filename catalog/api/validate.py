"""Checks messages: `POST /validate/XID`, with the xid of the definition, and `POST /validate`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import unquote

import orjson
from aiohttp import web

from catalog.api.definitions import Reader, Schema
from catalog.api.requesttarget import parse_path
from catalog.context import CONTEXT, Context
from catalog.formats.families import is_supported
from catalog.formats.process import UnusableSchema
from catalog.http.body import SEND_JSON, parse_json, read_body
from catalog.http.route import Route, model_response
from catalog.load.workthread import aside
from catalog.messages.conformance import MOST_VIOLATIONS, RuleViolation, Violations, check_metadata
from catalog.messages.definition import (
    MessageDefinition,
    Property,
)
from catalog.messages.message import (
    CarriedEvent,
    Message,
    Payload,
    is_binary_event,
    read_binary_event,
    read_json_message,
)
from catalog.messages.textlines import find_lines
from catalog.model.concorderrors import DefinitionUnknown, UnsupportedMediaType
from catalog.model.errors import BadRequest, MissingBody, NotFound
from catalog.model.schema import Model
from catalog.model.xid import Xid
from catalog.operations.validate import (
    VALIDATE,
    CandidateAnswer,
    MessageVerdict,
    UncheckedPart,
    ValidationAnswer,
    ValidationQuery,
    ViolationAnswer,
)
from catalog.store.database import Connection
from catalog.store.find import find_by_type, find_with_template

_ROOT = "/validate"
_EVENT = "application/cloudevents+json"
_ENCODED = "_base64"
# A fault as `catalog/formats/documenttext.py` writes it.
_FAULT = re.compile(r"(/[^\s:]*): (.+)")
_MOST_CANDIDATES, _MOST_TEMPLATES, _MOST_CHECKED = 50, 200, 8
_LONGEST_TYPE = 2048
_IDENTIFYING = ("type", "source", "subject", "dataschema")
_SEARCH = "Look for a similar one: concord search {type} --type messages."


@dataclass(slots=True, kw_only=True)
class _Candidate:
    """A definition, and what the check of a message by the definition found.

    Args:
        used: the xid of the version.
        mismatches: why the message is another one than those of the definition.
        is_whole: whether the payload was checked, too.
    """

    definition: MessageDefinition
    used: str
    findings: Violations
    schema: Schema | None = None
    mismatches: Sequence[RuleViolation] = ()
    is_whole: bool = False


async def post_message(request: web.Request) -> web.Response:
    """Check a message against its definition; both verdicts are answered with 200."""
    context, body = request[CONTEXT], await read_body(request)
    xid = _target(request, context.model)
    async with context.database.snapshot() as connection:
        reader = _reader_of(request, connection)
        candidate = await _candidate(reader, xid)
        candidate.schema = await reader.schema(candidate.definition, candidate.findings)
    protocol = candidate.definition.protocol
    message = await aside(0, _read_message, request, body, protocol)
    await aside(0, _check_metadata, message, candidate)
    await _check_payload(context, message, candidate)
    return model_response(_verdict(candidate, {}))


def _reader_of(request: web.Request, connection: Connection) -> Reader:
    context = request[CONTEXT]
    bases = [context.base_url(request), context.public_base]
    return Reader(context=context, connection=connection, bases=bases)


async def _candidate(reader: Reader, xid: Xid) -> _Candidate:
    findings = Violations()
    definition, used = await reader.definition(xid, findings)
    return _Candidate(definition=definition, used=used, findings=findings)


def _target(request: web.Request, model: Model) -> Xid:
    groups, resources = request.path.split("/")[2:5:2]
    if model.resource_type(groups, resources) is None:
        raise NotFound(request.path)
    return parse_path(request.rel_url.raw_path.removeprefix(_ROOT), model).xid


def _read_message(request: web.Request, body: bytes, protocol: str) -> Message:
    """Read a message from the whole request (binary mode) or from the body (JSON).

    Args:
        protocol: as for `read_json_message`.

    Raises:
        XRegistryError: the request has no message.
    """
    media_type = request.content_type.lower()
    if media_type != _EVENT and is_binary_event(request.headers):
        return read_binary_event(request.headers.items(), body)
    if not body:
        raise MissingBody(request.path)
    if media_type not in (_EVENT, "application/json", "application/octet-stream"):
        raise UnsupportedMediaType(request.path, contenttype=media_type, detail=SEND_JSON)
    value = parse_json(body, request[CONTEXT].settings)
    return read_json_message(value, protocol)


async def _check_payload(context: Context, message: Message, candidate: _Candidate) -> None:
    """Check the payload against the schema; a message without payload does not conform."""
    candidate.is_whole = True
    data, schema, findings = message.data, candidate.schema, candidate.findings
    if schema is None or findings.is_full:
        return
    if not is_supported(schema.format):
        findings.leave("dataschema", f"the format {schema.format or 'unknown'} is not checked here")
    elif data is None:
        # Kafka has records without value, which tell that a key is gone.
        if not schema.is_implied:
            findings.object("", "payload", "it has no payload, which the definition describes")
    else:
        contenttype = data.contenttype or _implied(candidate.definition, data.content)
        payload = data.encoded(contenttype)
        try:
            fault = await context.checked_requests.begin(context.caller.client).conform(
                schema.format, schema.document, payload, contenttype, schema.part
            )
        except UnusableSchema as error:
            findings.leave("dataschema", f"the schema cannot be used: {error}")
            return
        if fault:
            _add_faults(fault, data, findings)


def _add_faults(text: str, data: Payload, findings: Violations) -> None:
    """Add the faults of a payload, each at its place if the check tells the places."""
    lines = [_FAULT.fullmatch(line) for line in text.split("\n")]
    found = [(unquote(each[1]), each[2]) for each in lines if each is not None]
    # The places within base64 or a text are none of the message.
    if len(found) < len(lines) or (data.is_text_or_bytes and data.pointer.endswith(_ENCODED)):
        findings.object(data.pointer, "payload", text.replace("\n", "; "))
        return
    for pointer, reason in found[: MOST_VIOLATIONS - len(findings.violations)]:
        findings.object(data.pointer + pointer.removesuffix("/"), "payload", reason)


def _implied(definition: MessageDefinition, content: Any) -> str:
    """The media type of a payload whose message names none."""
    declared = definition.datacontenttype
    if declared and not declared.lower().startswith("application/cloudevents"):
        return declared
    return "" if isinstance(content, str | bytes) else "application/json"


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
        if query.type is None:
            await aside(0, _check_metadata, message, each)
        else:
            each.findings.leave("envelopemetadata", "only the data was given")
    candidates.sort(key=lambda each: (len(each.mismatches), each.used))
    for each in candidates[:_MOST_CHECKED]:
        await _check_payload(context, message, each)
    candidates.sort(key=_rank)
    is_json = query.type is not None or not is_binary_event(request.headers)
    lines = await aside(0, _lines, body, candidates) if is_json else {}
    return _answer(candidates, lines)


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
    message = _read_message(request, body, "")
    if message.event is None:
        fault = "only a CloudEvent has a type: check other messages at /validate + the xid of "
        raise BadRequest(request.path, error_detail=f"{fault}their definition, or name a type")
    return message


async def _candidates(request: web.Request, connection: Connection, type: str) -> list[_Candidate]:
    reader = _reader_of(request, connection)
    xids = [
        *await find_by_type(connection, type, _MOST_CANDIDATES),
        *await find_with_template(connection, _MOST_TEMPLATES),
    ]
    found: list[_Candidate] = []
    for xid in dict.fromkeys(xids):
        each = await _candidate(reader, Xid.parse(xid))
        told = each.definition.envelopemetadata.get("type")
        wanted = Property.of(told, is_text=True, is_media_type=False)
        if Violations().admits(wanted, type) and len(found) < _MOST_CANDIDATES:
            each.schema = await reader.schema(each.definition, each.findings)
            found.append(each)
    return found


def _check_metadata(message: Message, candidate: _Candidate) -> None:
    checked = check_metadata(message, candidate.definition)
    checked.unchecked[:0] = candidate.findings.unchecked
    candidate.findings = checked
    if message.event is not None:
        identifying = {message.event.pointer(name) for name in _IDENTIFYING}
        candidate.mismatches = [one for one in checked.violations if one.pointer in identifying]


def _rank(candidate: _Candidate) -> tuple[int, bool, int, str]:
    """The order of candidates: by mismatches, then by the number of violations."""
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


def _answer(candidates: Sequence[_Candidate], lines: Mapping[str, int]) -> ValidationAnswer:
    shown = [
        CandidateAnswer(
            definition=each.used,
            matches=not each.mismatches,
            valid=not each.findings.violations if each.is_whole else None,
            violations=_violations(each.mismatches, lines),
        )
        for each in candidates
    ]
    return ValidationAnswer(**dict(_verdict(candidates[0], lines)), candidates=shown)


def _verdict(candidate: _Candidate, lines: Mapping[str, int]) -> MessageVerdict:
    findings, schema = candidate.findings, candidate.schema
    return MessageVerdict(
        valid=not findings.violations,
        definition=candidate.used,
        schema_=(schema.xid or None) if schema is not None else None,
        violations=_violations(findings.violations, lines),
        unchecked=[
            UncheckedPart(part=one.part, reason=one.reason, uri=one.uri or None)
            for one in findings.unchecked
        ],
    )


def _violations(found: Sequence[RuleViolation], lines: Mapping[str, int]) -> list[ViolationAnswer]:
    return [ViolationAnswer(**asdict(one), line=lines.get(one.pointer) or None) for one in found]


routes = (Route(VALIDATE, validate_message),)
