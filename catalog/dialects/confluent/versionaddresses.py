"""Finds the versions that addresses of the Confluent API name, for the schemas of messages."""

from __future__ import annotations

import re
from urllib.parse import unquote

from catalog.context import Context as NodeContext
from catalog.context import SchemaUnknown
from catalog.dialects.confluent.contexts import Contexts
from catalog.dialects.confluent.errors import ConfluentError
from catalog.dialects.confluent.subjectnames import DEFAULT_CONTEXT, read_context, read_subject
from catalog.dialects.confluent.subjectversions import LATEST, load_subject, read_version
from catalog.model.xid import Xid
from catalog.store.database import Connection

_ADDRESS = re.compile(
    r"/confluent(?:/contexts/(?P<context>[^/]+))?"
    r"/subjects/(?P<subject>[^/]+)/versions/(?P<version>[^/]+)(?:/schema)?"
)


async def find_version(node: NodeContext, connection: Connection, path: str) -> Xid | None:
    """Find the version that a path of the API names, as `catalog.context.SchemaFinder` says."""
    named = _ADDRESS.fullmatch(path)
    if named is None:
        return None
    try:
        within = named["context"]
        context = DEFAULT_CONTEXT if within is None else read_context(unquote(within))
        number = read_version(unquote(named["version"]))
        subject = read_subject(unquote(named["subject"]), context)
        contexts = await Contexts.load(connection, node.database.node.authority, node.settings)
        stored = await load_subject(connection, contexts, subject)
        # A version that was deleted softly keeps its readers.
        return stored.version(number, deleted=number != LATEST).xid
    except ConfluentError as error:
        raise SchemaUnknown(error.message, is_absent=error.status == 404) from error
    except ValueError as error:
        raise SchemaUnknown(str(error), is_absent=False) from error
