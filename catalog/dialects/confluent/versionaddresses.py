"""Addresses of the Confluent API that name the versions of schemas, as messages refer to them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote, unquote

from catalog.context import Context as NodeContext
from catalog.context import SchemaDialect, SchemaUnknown
from catalog.dialects.confluent.contexts import (
    DEFAULT_CONTEXT,
    Contexts,
    SubjectName,
    read_context,
    read_subject,
)
from catalog.dialects.confluent.errors import ConfluentError
from catalog.dialects.confluent.requests import ROOT
from catalog.dialects.confluent.subjectversions import (
    LATEST,
    load_subject,
    read_version,
    read_versions,
)
from catalog.model.confluentattribute import SCHEMA_GROUPS, SCHEMAS
from catalog.model.xid import Xid
from catalog.store import schemaids
from catalog.store.database import Connection

_ADDRESS = re.compile(
    rf"{ROOT}(?:/contexts/(?P<context>[^/]+))?"
    r"/subjects/(?P<subject>[^/]+)/versions/(?P<version>[^/]+)(?:/schema)?"
)


async def _find(node: NodeContext, connection: Connection, path: str, authority: str) -> Xid | None:
    """Find the version that a path names, as `catalog.context.SchemaDialect` says."""
    named = _ADDRESS.fullmatch(path)
    if named is None:
        return None
    try:
        within = named["context"]
        context = DEFAULT_CONTEXT if within is None else read_context(unquote(within))
        number = read_version(unquote(named["version"]))
        subject = read_subject(unquote(named["subject"]), context)
        contexts = await Contexts.load(connection, authority, node.settings)
        is_own = authority == node.database.node.authority
        if not is_own and all(each.authority != authority for each in contexts.all.values()):
            # The subjects of a registry that is not followed are not those of equal names here.
            return None
        stored = await load_subject(connection, contexts, subject)
        # A version that was deleted softly keeps its readers.
        return stored.version(number, deleted=number != LATEST).xid
    except ConfluentError as error:
        raise SchemaUnknown(error.message, is_absent=error.status == 404) from error
    except ValueError as error:
        raise SchemaUnknown(str(error), is_absent=False) from error


async def _addresses(
    node: NodeContext, connection: Connection, schema: Xid, authority: str
) -> Sequence[str]:
    """The paths of a schema, as `catalog.context.SchemaDialect` says."""
    if (schema.groups, schema.resources) != (SCHEMA_GROUPS, SCHEMAS):
        return []
    contexts = await Contexts.load(connection, authority, node.settings)
    if (context := contexts.all.get(str(schema.group))) is None:
        return []
    name = schema.rid
    if "~" in name:
        # The id may be derived from the name.
        versions = read_versions(await schemaids.load_versions(connection, [str(schema)]))
        name = versions[0].name if versions else name
    paths = []
    if context.is_home:
        paths.append(f"/subjects/{_escaped(name)}")
    if not context.is_home or authority != node.database.node.authority:
        team = context.name
        paths.append(f"/subjects/{_escaped(str(SubjectName(team, name)))}")
        paths += [
            f"/contexts/{_escaped(written)}/subjects/{_escaped(name)}"
            for written in (team, team.removeprefix("."), f":{team}:")
        ]
    # A colon needs no escape in a path, and clients differ.
    forms = {form for path in paths for form in (path, path.replace("%3A", ":"))}
    return [f"{ROOT}{form}" for form in sorted(forms)]


def _escaped(name: str) -> str:
    return quote(name, safe="")


VERSION_ADDRESSES = SchemaDialect(root=ROOT, find=_find, addresses=_addresses)
