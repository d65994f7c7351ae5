"""The paths of the Confluent API, each also within a context (`/contexts/{context}/…`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from catalog.dialects.confluent import (
    compatibility,
    exporters,
    register,
    schemas,
    server,
    subjects,
    subjectsettings,
)
from catalog.dialects.confluent.errors import answer_error
from catalog.dialects.confluent.requests import ROOT
from catalog.http.route import Handler, Route
from catalog.model.roles import Permission
from catalog.operations.operation import ANY_METHOD, Operation

_SUBJECTS = "/subjects"
_SUBJECT = f"{_SUBJECTS}/{{subject}}"
_VERSIONS = f"{_SUBJECT}/versions"
_VERSION = f"{_VERSIONS}/{{version}}"
_COMPATIBILITY = f"/compatibility{_VERSIONS}"
_ID = "/schemas/ids/{id}"
_GUID = "/schemas/guids/{guid}"
_EXPORTER = "/exporters/{exporter}"
_READ, _WRITE = Permission.READ, Permission.WRITE

_OPERATIONS: Sequence[tuple[str, str, Permission, Handler]] = (
    ("GET", _SUBJECTS, _READ, subjects.list_subjects),
    ("POST", _SUBJECT, _READ, subjects.find_schema),
    ("DELETE", _SUBJECT, _WRITE, subjects.delete_subject),
    ("GET", f"{_SUBJECT}/metadata", _READ, subjects.get_by_metadata),
    ("GET", _VERSIONS, _READ, subjects.list_versions),
    # A text that the subject has is answered to readers, too: producers register at each start.
    ("POST", _VERSIONS, _READ, register.register_schema),
    ("GET", _VERSION, _READ, subjects.get_version),
    ("DELETE", _VERSION, _WRITE, subjects.delete_version),
    ("GET", f"{_VERSION}/schema", _READ, subjects.get_version_text),
    ("GET", f"{_VERSION}/referencedby", _READ, subjects.get_referenced_by),
    ("POST", _COMPATIBILITY, _READ, compatibility.check_against_all),
    ("POST", f"{_COMPATIBILITY}/{{version}}", _READ, compatibility.check_against_version),
    ("GET", "/schemas", _READ, schemas.list_schemas),
    ("GET", "/schemas/types", _READ, schemas.list_types),
    ("GET", _ID, _READ, schemas.get_by_id),
    ("GET", f"{_ID}/schema", _READ, schemas.get_text_by_id),
    ("GET", f"{_ID}/subjects", _READ, schemas.list_subjects_of_id),
    ("GET", f"{_ID}/versions", _READ, schemas.list_versions_of_id),
    ("GET", _GUID, _READ, schemas.get_by_guid),
    ("GET", f"{_GUID}/ids", _READ, schemas.list_ids_of_guid),
    *(
        (method, path, _READ if method == "GET" else _WRITE, handler)
        for path in ("/config", "/config/{subject}")
        for method, handler in (
            ("GET", subjectsettings.get_config),
            ("PUT", subjectsettings.put_config),
            ("DELETE", subjectsettings.delete_config),
        )
    ),
    *(
        (method, path, _READ if method == "GET" else _WRITE, handler)
        for path in ("/mode", "/mode/{subject}")
        for method, handler in (
            ("GET", subjectsettings.get_mode),
            ("PUT", subjectsettings.put_mode),
            ("DELETE", subjectsettings.delete_mode),
        )
    ),
)
_SERVER: Sequence[tuple[str, str, Permission, Handler]] = (
    ("GET", "", _READ, server.get_root),
    ("GET", "/", _READ, server.get_root),
    ("DELETE", "/contexts/{context}", _WRITE, server.delete_context),
)
_IN_ALL_CONTEXTS: Sequence[tuple[str, str, Permission, Handler]] = (
    ("GET", "/contexts", _READ, server.list_contexts),
    ("GET", "/v1/metadata/id", _READ, server.get_cluster_id),
    ("GET", "/v1/metadata/version", _READ, server.get_version),
    ("GET", "/exporters", Permission.REPLICATE, exporters.list_exporters),
    ("GET", _EXPORTER, Permission.REPLICATE, exporters.get_exporter),
    ("GET", f"{_EXPORTER}/config", Permission.REPLICATE, exporters.get_exporter_config),
    ("GET", f"{_EXPORTER}/status", Permission.REPLICATE, exporters.get_exporter_status),
)


def _routes() -> Iterator[Route]:
    for prefix in ("", "/contexts/{context}"):
        for method, path, needs, handler in _OPERATIONS:
            yield _route(method, f"{prefix}{path}", needs, handler)
    for method, path, needs, handler in _SERVER:
        yield _route(method, path, needs, handler)
    for method, path, needs, handler in _IN_ALL_CONTEXTS:
        for prefix in ("", "/contexts/{context}"):
            yield _route(method, f"{prefix}{path}", needs, handler)
    yield _route(ANY_METHOD, "/{rest:.*}", _READ, server.refuse_path)


def _route(method: str, path: str, needs: Permission, handler: Handler) -> Route:
    operation: Operation[Any, Any] = Operation(
        method=method, path=f"{ROOT}{path}", needs=needs, has_slashes=True
    )
    return Route(operation, handler, answer_error)


routes: Sequence[Route] = tuple(_routes())
