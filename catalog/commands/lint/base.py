"""The base that documents are linted against: a git revision of them, or a running catalog."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from catalog.client import Client, Refused
from catalog.commands.documentfile import DocumentError, read_document
from catalog.commands.lint.gitrevision import documents_at
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

_AT_ONCE = 8


class LintBaseError(Exception):
    """Something that nothing can be held against. `hint` says what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def is_catalog(against: str) -> bool:
    """Whether it is a catalog's URL, not a revision."""
    return against.startswith(("http://", "https://"))


def base_at(revision: str, arguments: Sequence[str], configuration: Configuration) -> LintBase:
    """The documents at a revision; those that could not be read then are left out.

    Raises:
        RevisionError: there is no such revision.
    """
    documents = []
    with documents_at(revision, arguments) as paths:
        for path in paths:
            try:
                groups = read_document(path, migrate=True).groups
            except DocumentError:
                continue
            documents.append(DeclaredEntities.of(path.name, groups, configuration.model))
    return LintBase(name=revision, documents=documents, is_former=True)


async def configuration_of(client: Client) -> Configuration:
    """A running catalog's model, and what it checks, as far as this program can check it.

    Raises:
        AgainstError: its model is not one that this program understands.
        ClientError
    """
    model, capabilities = await client.get("/model"), await client.get("/capabilities")
    try:
        return Configuration(
            model=load_model(model),
            capabilities=stored_capabilities(capabilities, offered_with(FORMATS, COMPATIBILITIES)),
        )
    except (XRegistryError, KeyError, TypeError) as error:
        what = error.title if isinstance(error, XRegistryError) else "it is another server's"
        raise LintBaseError(f"The model of {client.url} cannot be used: {what}") from error


async def base_in(
    client: Client, documents: Sequence[DeclaredEntities], configuration: Configuration
) -> LintBase:
    """The groups of a running catalog that documents name or refer to.

    Raises:
        ClientError
    """
    groups = sorted(_groups(documents, configuration, client.url))
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(xid: str) -> Any:
        async with turns:
            return await _group(client, xid)

    async with asyncio.TaskGroup() as tasks:
        asked = {xid: tasks.create_task(one(xid)) for xid in groups}
    found = {xid: task.result() for xid, task in asked.items()}
    held: dict[str, dict[str, Any]] = {}
    for xid, group in found.items():
        if group is not None:
            path = Xid.parse(xid)
            held.setdefault(path.groups, {})[path.gid] = group
    document = DeclaredEntities.of(client.url, held, configuration.model)
    return LintBase(
        name=client.url,
        documents=[document],
        is_former=False,
        absent=frozenset(xid for xid, group in found.items() if group is None),
        authorities=_authorities(document),
        urls=(client.url,),
    )


async def _group(client: Client, xid: str) -> dict[str, Any] | None:
    """A group as it could be imported, with all that is in it; `None` where it is not there."""
    try:
        group: dict[str, Any] = await client.get(xid, params={"inline": "*"})
    except Refused as refused:
        if refused.problem.status != 404:
            raise
        return None
    for members in group.values():
        for id, member in members.items() if isinstance(members, dict) else ():
            meta = member.get("meta") if isinstance(member, dict) else None
            if isinstance(meta, dict) and meta.get("xref") is not None:
                members[id] = {"meta": {"xref": meta["xref"]}}
    return group


def _authorities(document: DeclaredEntities) -> dict[str, str]:
    """Who controls what is a replica where the document is from."""
    found = ((xid, body.get("authority")) for xid, body in document.bodies.items())
    return {xid: authority for xid, authority in found if isinstance(authority, str)}


def _groups(
    documents: Iterable[DeclaredEntities], configuration: Configuration, url: str
) -> set[str]:
    """The groups that documents name, and those that they refer to."""
    around = KnownEntities(memory=MemoryCatalog(), declared=(), groups=frozenset(), bases=(url,))
    found: set[str] = set()
    for document in documents:
        for xid, body in document.bodies.items():
            path = Xid.parse(xid)
            found.add(str(path.group))
            for subject in _subjects(path, body):
                targets = (t for each in references_of(subject, around) for t in each.targets)
                found.update(str(target.group) for target in targets)
    known = configuration.model.groups
    return {xid for xid in found if Xid.parse(xid).groups in known}


def _subjects(path: Xid, body: Mapping[str, Any]) -> Iterator[Subject]:
    """What refers to others in what a document says of an entity: a resource has three parts."""
    yield Subject(xid=path, attributes=body)
    if path.kind == "resource":
        meta = body.get("meta")
        yield Subject(xid=path, attributes=meta if isinstance(meta, dict) else {})
        yield Subject(xid=path.version("1"), attributes=body)
