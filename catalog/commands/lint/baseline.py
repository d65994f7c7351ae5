"""The state to compare documents with: a git revision or a running catalog."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from catalog.client import Client, Refused
from catalog.commands.console import CommandError
from catalog.commands.documentfile import read_document
from catalog.commands.lint.gitrevision import documents_at
from catalog.documents.serialization import SourceFileError
from catalog.formats import COMPATIBILITIES, FORMATS
from catalog.lint.declaredentities import DeclaredEntities
from catalog.lint.linter import LintBase
from catalog.lint.memorycatalog import KnownEntities, MemoryCatalog
from catalog.model.capabilities import offered_with
from catalog.model.capabilityupdate import stored_capabilities
from catalog.model.configuration import Configuration
from catalog.model.errors import XRegistryError
from catalog.model.modelsource import load_model
from catalog.model.xid import Xid
from catalog.rules import Subject, references_of

_MOST_AT_ONCE = 8


class LintBaseError(CommandError):
    """A catalog has a model that this program does not understand."""


def base_at(revision: str, arguments: Sequence[str], configuration: Configuration) -> LintBase:
    """The readable documents at a revision.

    Raises:
        RevisionError: the revision does not exist.
    """
    documents = []
    with documents_at(revision, arguments) as paths:
        for path in paths:
            try:
                groups = read_document(path, migrate=True).groups
            except SourceFileError:
                continue
            documents.append(DeclaredEntities.of(path.name, groups, configuration.model))
    return LintBase(name=revision, documents=documents, is_former=True)


async def configuration_of(client: Client) -> Configuration:
    """The model and the supported capabilities of a running catalog.

    Raises:
        LintBaseError: this program does not understand the model.
        ClientError
    """
    model, capabilities = await client.get("/model"), await client.get("/capabilities")
    try:
        return Configuration(
            model=load_model(model),
            capabilities=stored_capabilities(capabilities, offered_with(FORMATS, COMPATIBILITIES)),
        )
    except (XRegistryError, KeyError, TypeError) as error:
        reason = error.title if isinstance(error, XRegistryError) else "it is another server's"
        raise LintBaseError(f"The model of {client.url} cannot be used: {reason}") from error


async def base_in(
    client: Client, documents: Sequence[DeclaredEntities], configuration: Configuration
) -> LintBase:
    """The groups of a running catalog that documents contain or refer to.

    Raises:
        ClientError
    """
    xids = sorted(_groups(documents, configuration, client.url))
    slots = asyncio.Semaphore(_MOST_AT_ONCE)

    async def fetch(xid: str) -> Any:
        async with slots:
            return await _group(client, xid)

    found = dict(zip(xids, await asyncio.gather(*map(fetch, xids)), strict=True))
    groups: dict[str, dict[str, Any]] = {}
    for xid, group in found.items():
        if group is not None:
            path = Xid.parse(xid)
            groups.setdefault(path.groups, {})[path.gid] = group
    document = DeclaredEntities.of(client.url, groups, configuration.model)
    authorities = ((xid, body.get("authority")) for xid, body in document.bodies.items())
    return LintBase(
        name=client.url,
        documents=[document],
        is_former=False,
        absent=frozenset(xid for xid, group in found.items() if group is None),
        authorities={xid: value for xid, value in authorities if isinstance(value, str)},
        urls=(client.url,),
    )


async def _group(client: Client, xid: str) -> dict[str, Any] | None:
    """A group with its resources, in the form of a document; `None` for a missing group."""
    try:
        group: dict[str, Any] = await client.get(xid, params={"inline": "*"})
    except Refused as refused:
        if refused.problem.status != 404:
            raise
        return None
    for members in group.values():
        for id, member in members.items() if isinstance(members, dict) else ():
            meta = member.get("meta") if isinstance(member, dict) else None
            # A catalog shows the attributes of the target, which a document does not repeat.
            if isinstance(meta, dict) and meta.get("xref") is not None:
                members[id] = {"meta": {"xref": meta["xref"]}}
    return group


def _groups(
    documents: Iterable[DeclaredEntities], configuration: Configuration, url: str
) -> set[str]:
    """The xids of the groups that documents contain or refer to."""
    lookup = KnownEntities(memory=MemoryCatalog(), declared=(), groups=frozenset(), bases=(url,))
    found: set[str] = set()
    for document in documents:
        for xid, body in document.bodies.items():
            path = Xid.parse(xid)
            found.add(str(path.group))
            for subject in _subjects(path, body):
                targets = (t for each in references_of(subject, lookup) for t in each.targets)
                found.update(str(target.group) for target in targets)
    return {xid for xid in found if Xid.parse(xid).groups in configuration.model.groups}


def _subjects(path: Xid, body: Mapping[str, Any]) -> Iterator[Subject]:
    """The parts of an entity that may have references: of a resource, also meta and a version."""
    yield Subject(xid=path, attributes=body)
    if path.kind == "resource":
        meta = body.get("meta")
        yield Subject(xid=path, attributes=meta if isinstance(meta, dict) else {})
        yield Subject(xid=path.version("1"), attributes=body)
