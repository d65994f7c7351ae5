"""The paths of the dialects, and what the native API calls of the dialects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from catalog.context import EventDialect, SchemaDialect
from catalog.dialects.confluent import register, schemas, server, subjects, subjectsettings
from catalog.dialects.confluent.errors import answer_error
from catalog.dialects.confluent.requests import ROOT
from catalog.dialects.confluent.versionaddresses import VERSION_ADDRESSES
from catalog.dialects.discovery import read as read_services
from catalog.dialects.discovery import write as write_services
from catalog.dialects.messagecatalog import read as read_definitions
from catalog.dialects.messagecatalog import write as write_definitions
from catalog.dialects.messagecatalog.events import EVENTS
from catalog.dialects.messagecatalog.uris import CATALOG_ROOT
from catalog.dialects.registry04 import read as read_04
from catalog.dialects.registry04 import write as write_04
from catalog.dialects.registry04.names import REGISTRY04_ROOT
from catalog.http.route import Handler, Route, reads, writes
from catalog.model.roles import Permission
from catalog.operations.operation import ANY_METHOD, Operation

# Discovery seed, "API Specification".
_DISCOVERY: Sequence[Route] = (
    reads("/services", read_services.list_services),
    writes("POST", "/services", write_services.add_services),
    writes("DELETE", "/services", write_services.delete_services),
    reads("/services/{id}", read_services.get_service),
    writes("PUT", "/services/{id}", write_services.put_service),
    writes("DELETE", "/services/{id}", write_services.delete_service),
    reads("/services/requests/{id}", write_services.get_request),
)

_CATALOG_GROUP = f"{CATALOG_ROOT}/{{group}}"
_DEFINITIONS = f"{_CATALOG_GROUP}/messagedefinitions"
_DEFINITION = f"{_DEFINITIONS}/{{definition}}"
_DEFINITION_VERSION = f"{_DEFINITION}/versions/{{version}}"
# Message catalog, 4.1. Section 4.3.3 posts to the path with a trailing slash.
_MESSAGE_CATALOG: Sequence[Route] = (
    reads(CATALOG_ROOT, read_definitions.list_groups),
    reads(f"{CATALOG_ROOT}/", read_definitions.list_groups),
    reads(_CATALOG_GROUP, read_definitions.get_group),
    writes("PUT", _CATALOG_GROUP, write_definitions.put_group),
    writes("DELETE", _CATALOG_GROUP, write_definitions.delete_group),
    reads(_DEFINITIONS, read_definitions.list_definitions),
    writes("POST", _DEFINITIONS, write_definitions.post_version),
    writes("DELETE", _DEFINITIONS, write_definitions.delete_definitions),
    reads(f"{_DEFINITIONS}/", read_definitions.list_definitions),
    writes("POST", f"{_DEFINITIONS}/", write_definitions.post_version),
    writes("DELETE", f"{_DEFINITIONS}/", write_definitions.delete_definitions),
    reads(_DEFINITION, read_definitions.get_definition),
    writes("DELETE", _DEFINITION, write_definitions.delete_definition),
    reads(f"{_DEFINITION}/versions", read_definitions.list_versions),
    reads(_DEFINITION_VERSION, read_definitions.get_version),
    writes("DELETE", _DEFINITION_VERSION, write_definitions.delete_version),
    reads("/messagedefinition", read_definitions.find_definition),
)

_GROUPS = f"{REGISTRY04_ROOT}/{{groups}}"
_GROUP = f"{_GROUPS}/{{gid}}"
_RESOURCES = f"{_GROUP}/{{resources}}"
_RESOURCE = f"{_RESOURCES}/{{rid}}"
_VERSIONS = f"{_RESOURCE}/versions"
_VERSION = f"{_VERSIONS}/{{vid}}"
_REGISTRY_04: Sequence[Route] = (
    reads(REGISTRY04_ROOT, read_04.get_registry),
    reads(f"{REGISTRY04_ROOT}/", read_04.get_registry),
    reads(_GROUPS, read_04.get_groups),
    writes("POST", _GROUPS, write_04.post_group),
    writes("DELETE", _GROUPS, write_04.delete_groups),
    reads(_GROUP, read_04.get_group),
    writes("PUT", _GROUP, write_04.put_group),
    writes("DELETE", _GROUP, write_04.delete_group),
    reads(_RESOURCES, read_04.get_resources),
    writes("POST", _RESOURCES, write_04.post_resource),
    writes("DELETE", _RESOURCES, write_04.delete_resources),
    reads(_RESOURCE, read_04.get_version),
    writes("PUT", _RESOURCE, write_04.put_version),
    writes("POST", _RESOURCE, write_04.post_version),
    writes("DELETE", _RESOURCE, write_04.delete_resource),
    reads(_VERSIONS, read_04.get_versions),
    writes("DELETE", _VERSIONS, write_04.delete_versions),
    reads(_VERSION, read_04.get_version),
    writes("PUT", _VERSION, write_04.put_version),
    writes("DELETE", _VERSION, write_04.delete_version),
)

_READ, _WRITE, _REPLICATE = Permission.READ, Permission.WRITE, Permission.REPLICATE
_SUBJECT = "/subjects/{subject}"
_SUBJECT_VERSION = f"{_SUBJECT}/versions/{{version}}"
# The paths of the Confluent API, each also within a context (`/contexts/{context}/…`).
_CONFLUENT: Sequence[tuple[str, str, Permission, Handler]] = (
    ("GET", "/subjects", _READ, subjects.list_subjects),
    ("POST", _SUBJECT, _READ, subjects.find_schema),
    ("DELETE", _SUBJECT, _WRITE, subjects.delete_subject),
    ("GET", f"{_SUBJECT}/metadata", _READ, subjects.get_by_metadata),
    ("GET", f"{_SUBJECT}/versions", _READ, subjects.list_versions),
    # A text that the subject has is answered to readers, too: producers register at each start.
    ("POST", f"{_SUBJECT}/versions", _READ, register.register_schema),
    ("GET", _SUBJECT_VERSION, _READ, subjects.get_version),
    ("DELETE", _SUBJECT_VERSION, _WRITE, subjects.delete_version),
    ("GET", f"{_SUBJECT_VERSION}/schema", _READ, subjects.get_version_text),
    ("GET", f"{_SUBJECT_VERSION}/referencedby", _READ, subjects.get_referenced_by),
    ("POST", f"/compatibility{_SUBJECT}/versions", _READ, register.check_against_all),
    ("POST", f"/compatibility{_SUBJECT_VERSION}", _READ, register.check_against_version),
    ("GET", "/schemas", _READ, schemas.list_schemas),
    ("GET", "/schemas/types", _READ, schemas.list_types),
    ("GET", "/schemas/ids/{id}", _READ, schemas.get_by_id),
    ("GET", "/schemas/ids/{id}/schema", _READ, schemas.get_text_by_id),
    ("GET", "/schemas/ids/{id}/subjects", _READ, schemas.list_subjects_of_id),
    ("GET", "/schemas/ids/{id}/versions", _READ, schemas.list_versions_of_id),
    ("GET", "/schemas/guids/{guid}", _READ, schemas.get_by_guid),
    ("GET", "/schemas/guids/{guid}/ids", _READ, schemas.list_ids_of_guid),
    *(
        row
        for place in ("", "/{subject}")
        for row in (
            ("GET", f"/config{place}", _READ, subjectsettings.get_config),
            ("PUT", f"/config{place}", _WRITE, subjectsettings.put_config),
            ("DELETE", f"/config{place}", _WRITE, subjectsettings.delete_config),
            ("GET", f"/mode{place}", _READ, subjectsettings.get_mode),
            ("PUT", f"/mode{place}", _WRITE, subjectsettings.put_mode),
            ("DELETE", f"/mode{place}", _WRITE, subjectsettings.delete_mode),
        )
    ),
    ("GET", "/contexts", _READ, server.list_contexts),
    ("GET", "/v1/metadata/id", _READ, server.get_cluster_id),
    ("GET", "/v1/metadata/version", _READ, server.get_version),
    ("GET", "/exporters", _REPLICATE, server.list_exporters),
    ("GET", "/exporters/{exporter}", _REPLICATE, server.get_exporter),
    ("GET", "/exporters/{exporter}/config", _REPLICATE, server.get_exporter_config),
    ("GET", "/exporters/{exporter}/status", _REPLICATE, server.get_exporter_status),
)


def _confluent() -> Iterator[Route]:
    rows = [
        (method, prefix + path, needs, handler)
        for prefix in ("", "/contexts/{context}")
        for method, path, needs, handler in _CONFLUENT
    ]
    rows += [
        ("GET", "", _READ, server.get_root),
        ("GET", "/", _READ, server.get_root),
        ("DELETE", "/contexts/{context}", _WRITE, server.delete_context),
        (ANY_METHOD, "/{rest:.*}", _READ, server.refuse_path),
    ]
    for method, path, needs, handler in rows:
        operation: Operation[Any, Any] = Operation(
            method=method, path=f"{ROOT}{path}", needs=needs, has_slashes=True
        )
        yield Route(operation, handler, answer_error)


routes: Sequence[Route] = (*_DISCOVERY, *_MESSAGE_CATALOG, *_REGISTRY_04, *_confluent())
event_dialects: Sequence[EventDialect] = (EVENTS,)
schema_dialect: SchemaDialect = VERSION_ADDRESSES
