"""A source of DataHub's ingestion: the topics that endpoints of a Concord node name.

Put this file on the PYTHONPATH of `datahub ingest` (`pip install acryl-datahub`), and name it in a
recipe:

    source:
      type: concord_datahub.ConcordSource
      config:
        url: https://concord.example.com
        token: ${CONCORD_TOKEN}
    sink:
      type: datahub-rest
      config: {server: https://datahub.example.com}

A topic (or queue, subject or node) of a protocol is a dataset. Its fields are those of the schemas
of all messages at it, if these are all Avro, or all JSON Schema.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any
from urllib.parse import quote, urlsplit

import avro.schema
import requests
from datahub.configuration.source_common import EnvConfigMixin
from datahub.emitter.mcp import MetadataChangeProposalWrapper
from datahub.ingestion.api.common import PipelineContext
from datahub.ingestion.api.decorators import (
    SupportStatus,
    config_class,
    platform_name,
    support_status,
)
from datahub.ingestion.api.source import Source, SourceReport
from datahub.ingestion.api.workunit import MetadataWorkUnit
from datahub.ingestion.extractor.json_schema_util import JsonSchemaTranslator
from datahub.ingestion.extractor.schema_util import AvroToMceSchemaConverter
from datahub.metadata.schema_classes import (
    CorpGroupInfoClass,
    DeprecationClass,
    OtherSchemaClass,
    SchemaMetadataClass,
)
from datahub.metadata.urns import CorpGroupUrn
from datahub.sdk.dataset import Dataset
from pydantic import Field, SecretStr, field_validator

Entity = dict[str, Any]

log = logging.getLogger(__name__)

_SECONDS = 60
_LARGEST = 256 * 1024 * 1024
_MOST_BASES = 8
_LONGEST_TEXT = 4000
_MOST_FIELDS = 2000
_MOST_PARTS = 20_000
_DEFINITIONS = ("definitions", "$defs")
_ADDRESSES = ("topic", "queue", "subject", "node", "address", "topicfilter", "exchange")
_BASES = ("basemessage", "basemessageuri", "basemessageurl")


class ConcordConfig(EnvConfigMixin):
    """What a recipe names."""

    url: str = Field(description="The base URL of the node.")
    token: SecretStr | None = Field(default=None, description="A token of the role reader.")
    owners: dict[str, str] = Field(
        default_factory=dict,
        description="URNs of owners by authority, instead of a group that is made for each.",
    )

    @field_validator("url")
    @classmethod
    def _is_of_the_web(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise ValueError("it begins with http:// or https://, and has no password")
        return url.rstrip("/")


@platform_name("Concord")
@config_class(ConcordConfig)
@support_status(SupportStatus.ALPHA)
class ConcordSource(Source):
    """Reads the catalog of a node once, and tells of its topics, their fields and their owners."""

    def __init__(self, config: ConcordConfig, context: PipelineContext) -> None:
        super().__init__(context)
        self.config = config
        self.report = SourceReport()

    @classmethod
    def create(cls, config_dict: dict[str, Any], ctx: PipelineContext) -> ConcordSource:
        return cls(ConcordConfig.model_validate(config_dict), ctx)

    def get_report(self) -> SourceReport:
        return self.report

    def get_workunits_internal(self) -> Iterable[MetadataWorkUnit]:
        document = self._read("/export")
        known = self._read("/-/authorities")["authorities"]
        own = str(next(each["authority"] for each in known if each["isown"]))
        topics: dict[tuple[str, str], list[Entity]] = {}
        for endpoint in document.get("endpoints", {}).values():
            if address := _address_of(endpoint):
                platform = str(endpoint.get("protocol") or "unknown").partition("/")[0].lower()
                topics.setdefault((platform, address), []).append(endpoint)
        authorities = {str(each.get("authority", own)) for some in topics.values() for each in some}
        for authority in sorted(authorities - self.config.owners.keys()):
            info = CorpGroupInfoClass(
                admins=[], members=[], groups=[], displayName=authority, description="A catalog"
            )
            urn = str(CorpGroupUrn(_group_name(authority)))
            yield MetadataChangeProposalWrapper(entityUrn=urn, aspect=info).as_workunit()
        for (platform, address), endpoints in topics.items():
            yield from self._topic(platform, address, endpoints, own, document).as_workunits()

    def _topic(
        self, platform: str, address: str, endpoints: list[Entity], own: str, document: Entity
    ) -> Dataset:
        messages = list(_messages_at(endpoints, document))
        authorities = sorted({str(each.get("authority", own)) for each in endpoints})
        is_deprecated = all(each.get("deprecated") for each in endpoints)
        texts = [text for each in endpoints if (text := str(each.get("description") or ""))]
        return Dataset(
            platform=platform,
            name=address,
            env=self.config.env,
            subtype="Topic",
            description="\n\n".join(texts)[:_LONGEST_TEXT] or None,
            custom_properties={
                "endpoints": ", ".join(str(each["xid"]) for each in endpoints)[:_LONGEST_TEXT],
                "messages": ", ".join(str(each["xid"]) for each in messages)[:_LONGEST_TEXT],
                "authorities": ", ".join(authorities)[:_LONGEST_TEXT],
            },
            owners=[
                self.config.owners.get(each) or CorpGroupUrn(_group_name(each))
                for each in authorities
            ],
            links=[
                (f"{self.config.url}/console/e{quote(str(each['xid']))}", f"Concord: {each['xid']}")
                for each in endpoints
            ],
            schema=_fields_of(platform, address, messages, document),
            extra_aspects=[
                DeprecationClass(deprecated=True, note="All endpoints at it are.", actor="")
            ]
            if is_deprecated
            else [],
        )

    def _read(self, path: str) -> Entity:
        token = self.config.token
        headers = {"Authorization": f"Bearer {token.get_secret_value()}"} if token else {}
        with requests.get(
            self.config.url + path,
            headers=headers,
            timeout=_SECONDS,
            allow_redirects=False,
            stream=True,
        ) as answer:
            if answer.status_code != 200:
                raise ValueError(f"GET {path}: {answer.status_code} {answer.reason}")
            body = bytearray()
            for chunk in answer.iter_content(2**20):
                body += chunk
                if len(body) > _LARGEST:
                    raise ValueError(f"GET {path}: the answer has over {_LARGEST} bytes")
        found: Entity = json.loads(bytes(body))
        return found


def _address_of(endpoint: Entity) -> str:
    options = endpoint.get("protocoloptions")
    given = (options.get(name) for name in _ADDRESSES) if isinstance(options, dict) else ()
    return next((each.strip() for each in given if isinstance(each, str) and each.strip()), "")


def _group_name(authority: str) -> str:
    """The authority as an id of a group, which must not look like a path."""
    return quote(authority.removeprefix("https://"), safe=":")


def _messages_at(endpoints: list[Entity], document: Entity) -> Iterator[Entity]:
    """The messages of endpoints, each once, with the attributes of their default versions."""
    seen = set()
    for endpoint in endpoints:
        named = endpoint.get("messagegroups") or []
        groups = [endpoint, *(_find(document, reference) for reference in named)]
        for group in groups:
            for message in ((group or {}).get("messages") or {}).values():
                if message["xid"] not in seen:
                    seen.add(message["xid"])
                    yield _default_version(message)


def _fields_of(
    platform: str, address: str, messages: list[Entity], document: Entity
) -> SchemaMetadataClass | None:
    """The fields of the schemas of all messages; none if these are of several kinds, or unknown."""
    schemas = dict.fromkeys(found for each in messages if (found := _schema(each, document)))
    kinds = {kind for kind, _ in schemas}
    try:
        parsed = [json.loads(text) for _, text in schemas]
        if kinds == {"avro"}:
            whole = parsed[0] if len(parsed) == 1 else parsed
            avro_schema = avro.schema.parse(json.dumps(whole))
            fields = AvroToMceSchemaConverter.to_mce_fields(avro_schema, is_key_schema=False)
        elif kinds == {"jsonschema"}:
            alternatives = [_expanded(each) for each in parsed]
            whole = alternatives[0] if len(parsed) == 1 else {"oneOf": alternatives}
            fields = JsonSchemaTranslator.get_fields_from_schema(whole)
        else:
            return None
        return SchemaMetadataClass(
            schemaName=address,
            platform=f"urn:li:dataPlatform:{platform}",
            version=0,
            hash="",
            platformSchema=OtherSchemaClass(rawSchema=json.dumps(whole)),
            # A small schema may have types within types, and so any number of fields.
            fields=list(islice(fields, _MOST_FIELDS)),
        )
    except Exception:
        # The libraries raise what they like; the topic is shown without fields.
        log.warning("the schemas at %s cannot be read", address, exc_info=True)
        return None


def _expanded(schema: Any) -> Any:
    """A JSON Schema with the parts that it refers to in place of the references.

    The library would fetch any URL that a schema names, and expand a small schema without end.

    Raises:
        ValueError: the expanded schema would be too large.
    """
    identified: dict[str, Any] = {}

    def identify(part: Any) -> None:
        for value in _members(part):
            identify(value)
        if isinstance(part, dict) and isinstance(part.get("$id"), str):
            identified.setdefault(part["$id"], part)

    room = _MOST_PARTS

    def expand(part: Any, within: tuple[str, ...]) -> Any:
        nonlocal room
        if (room := room - 1) < 0:
            raise ValueError(f"it has over {_MOST_PARTS} parts, with those that it refers to")
        if isinstance(part, list):
            return [expand(each, within) for each in part]
        if not isinstance(part, dict):
            return part
        if isinstance(reference := part.get("$ref"), str):
            named, _, pointer = reference.partition("#")
            found = _at(identified.get(named) if named else schema, pointer)
            if not isinstance(found, dict) or reference in within:
                return {"description": f"As {reference}"}
            return {"title": reference.rpartition("/")[2], **expand(found, (*within, reference))}
        return {
            key: expand(value, within)
            for key, value in part.items()
            if not (key == "$id" and isinstance(value, str))
        }

    identify(schema)
    whole = schema
    if isinstance(schema, dict):
        whole = {key: value for key, value in schema.items() if key not in _DEFINITIONS}
    return expand(whole, ())


def _at(document: Any, pointer: str) -> Any:
    """The part of a document at a JSON pointer; `None` if there is none."""
    for name in pointer.split("/")[1:]:
        key = name.replace("~1", "/").replace("~0", "~")
        document = document.get(key) if isinstance(document, dict) else None
    return document


def _members(part: Any) -> Iterable[Any]:
    return part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()


def _schema(message: Entity, document: Entity) -> tuple[str, str] | None:
    """The format of the schema of a message, without its version, and its text."""
    for _ in range(_MOST_BASES):
        found = _find(document, message.get("dataschemauri"))
        version = _default_version(found) if found else {}
        text = _document_text(version) or _document_text({"schema": message.get("dataschema")})
        if text:
            format = str(version.get("format") or message.get("dataschemaformat") or "")
            return format.partition("/")[0].lower(), text
        base = _find(document, next((message[name] for name in _BASES if message.get(name)), None))
        if base is None:
            break
        message = _default_version(base)
    return None


def _document_text(version: Entity) -> str:
    if isinstance(encoded := version.get("schemabase64"), str):
        return base64.b64decode(encoded).decode(errors="replace")
    schema = version.get("schema")
    return schema if isinstance(schema, str) else "" if schema is None else json.dumps(schema)


def _default_version(resource: Entity) -> Entity:
    versions: Mapping[str, Entity] = resource.get("versions") or {}
    named = versions.get((resource.get("meta") or {}).get("defaultversionid", ""))
    default = named or next((each for each in versions.values() if each.get("isdefault")), {})
    return {**default, **resource}


def _find(document: Entity, reference: object) -> Entity | None:
    """The entity of this document that a reference names."""
    if not isinstance(reference, str) or not reference.lstrip("#").startswith("/"):
        return None
    found: Any = document
    for name in reference.lstrip("#").split("/")[1:]:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None
