"""The state to compare documents with: a git revision, an export, or a running catalog."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from catalog.client import Client, Refused
from catalog.commands.console import CommandError
from catalog.commands.documentfile import SUFFIXES, document_paths, read_document
from catalog.documents.serialization import LARGEST_BYTES, STDIN, SourceFileError, read_object_file
from catalog.formats.families import COMPATIBILITIES, FORMATS
from catalog.lint.declaredentities import DeclaredEntities
from catalog.lint.documentchanges import DEPTH, User
from catalog.lint.lintedcatalog import KnownEntities, MemoryCatalog
from catalog.lint.linter import LintBase
from catalog.model.capabilities import offered_with, stored_capabilities
from catalog.model.configuration import Configuration
from catalog.model.errors import XRegistryError
from catalog.model.modelsource import load_model
from catalog.model.xid import Xid, resource_of
from catalog.operations.search import ReferencesQuery
from catalog.rules.fault import Subject
from catalog.rules.referencerules import references_of

_LONGEST_SECONDS = 60
_MOST_AT_ONCE = 8


class RevisionError(CommandError):
    """The documents of a revision cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blob:
    """A file of a revision: the path from the root of the repository, and the id of the content."""

    path: str
    id: str
    size: int


@contextlib.contextmanager
def documents_at(revision: str, arguments: Sequence[str]) -> Iterator[list[Path]]:
    """Copy the files that `arguments` named at a revision to a temporary directory.

    Args:
        revision: the name of a commit. In a repository without commits, HEAD has no documents.
        arguments: paths as in `document_paths`, relative to the working directory. The standard
            input is left out, and paths that do not exist at the revision.

    Raises:
        RevisionError: the revision, the repository or git does not exist, or git fails.
    """
    named = [argument for argument in arguments if Path(argument) != STDIN]
    found = _git("rev-parse", "--show-toplevel", cwd=_folder(named))
    top = Path(os.fsdecode(found.rstrip(b"\n"))).resolve()
    commit = _commit(top, revision)
    wanted = [_within(top, argument) for argument in named]
    with TemporaryDirectory(prefix="concord-lint-") as folder:
        if commit:
            _check_out(_blobs(top, commit, wanted), top, Path(folder))
        paths = document_paths([str(Path(folder, each)) for each in wanted], allow_empty=True)
        yield [path for path in paths if path.is_file()]


def _folder(arguments: Iterable[str]) -> Path:
    """A folder of the repository of the arguments."""
    for argument in arguments:
        folder = Path(argument) if Path(argument).is_dir() else Path(argument).parent
        if folder.is_dir():
            return folder
    return Path.cwd()


def _commit(top: Path, revision: str) -> str:
    # A revision that begins with a hyphen must not be an option of git.
    asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    try:
        found = _git(*asked, cwd=top)
    except RevisionError as error:
        if revision == "HEAD" and not _git("rev-list", "--all", "--max-count=1", cwd=top):
            return ""
        raise RevisionError(
            f"git knows no revision {revision}.",
            "Fetch it; a clone in a pipeline may be shallow.",
        ) from error
    return found.decode().strip()


def _within(top: Path, argument: str) -> str:
    """An argument relative to the root of the repository."""
    path = os.path.relpath(os.path.join(Path.cwd().resolve(), argument), top)
    if path.startswith(os.pardir):
        raise RevisionError(f"{argument} is outside of the repository in {top}.")
    return path


def _blobs(top: Path, commit: str, wanted: Iterable[str]) -> Iterator[_Blob]:
    """The files that an argument names, and the files with a name of a document."""
    named = set(wanted)
    listed = _git("ls-tree", "-r", "-z", "--long", "--full-tree", commit, cwd=top)
    for row in listed.split(b"\0"):
        metadata, _, name = row.partition(b"\t")
        path = os.fsdecode(name)
        if path in named or path.lower().endswith(SUFFIXES):
            mode, kind, id, size = metadata.decode().split()
            # Git also has symbolic links (mode 120000) as blobs.
            is_file = kind == "blob" and mode.startswith("100")
            if is_file and int(size) <= LARGEST_BYTES:
                yield _Blob(path=path, id=id, size=int(size))


def _check_out(blobs: Iterable[_Blob], top: Path, folder: Path) -> None:
    found = list(blobs)
    ids = "".join(f"{blob.id}\n" for blob in found).encode()
    content = _git("cat-file", "--batch", cwd=top, stdin=ids)
    at = 0
    # An object is a line with its id, the content, and a line feed (git-cat-file, "BATCH OUTPUT").
    for blob in found:
        at = content.index(b"\n", at) + 1
        path = folder / blob.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content[at : at + blob.size])
        at += blob.size + 1


def _git(*arguments: str, cwd: Path, stdin: bytes = b"") -> bytes:
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=cwd,
            input=stdin,
            capture_output=True,
            check=True,
            timeout=_LONGEST_SECONDS,
        )
    except FileNotFoundError as error:
        raise RevisionError("git is not installed.", "--against with a URL needs none.") from error
    except subprocess.TimeoutExpired as error:
        raise RevisionError(f"git took longer than {_LONGEST_SECONDS} seconds.") from error
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode(errors="replace").strip() or "it gave no reason"
        raise RevisionError(f"git refused: {reason}.") from error
    return done.stdout


def base_at_rest(name: str, arguments: Sequence[str], configuration: Configuration) -> LintBase:
    """An export or a folder of documents, if there is one of the name, or else a git revision.

    Raises:
        RevisionError: there is neither a file nor a revision of the name.
        SourceFileError: a file is no document.
        CommandError: the folder has no document.
    """
    if Path(name).exists():
        return _base_in_files(name, configuration)
    return _base_at(name, arguments, configuration)


def _base_at(revision: str, arguments: Sequence[str], configuration: Configuration) -> LintBase:
    """The readable documents at a revision."""
    documents = []
    with documents_at(revision, arguments) as paths:
        for path in paths:
            try:
                groups = read_document(path, migrate=True).groups
            except SourceFileError:
                continue
            documents.append(DeclaredEntities.of(path.name, groups, configuration.model))
    return LintBase(name=revision, documents=documents, is_former=True)


def _base_in_files(argument: str, configuration: Configuration) -> LintBase:
    """The entities of an export, or of all documents of a folder."""
    documents = [
        DeclaredEntities.of(
            str(path), read_document(path, migrate=True).groups, configuration.model
        )
        for path in document_paths([argument])
    ]
    return LintBase(
        name=argument,
        documents=documents,
        is_former=False,
        authorities=_authorities(documents),
    )


async def configuration_of(client: Client) -> Configuration:
    """The model and the supported capabilities of a running catalog.

    Raises:
        CommandError: this program does not understand the model.
        ClientError
    """
    model, capabilities = await client.get("/model"), await client.get("/capabilities")
    return _configuration(model, capabilities, client.url)


def configuration_in(name: str) -> Configuration | None:
    """The model and the supported capabilities of the export of a whole catalog.

    Returns:
        `None` if there is no file of the name, or if the file has no model.

    Raises:
        CommandError: this program does not understand the model.
        SourceFileError: the file is no document.
    """
    if not Path(name).is_file():
        return None
    source = read_object_file(Path(name))
    model, capabilities = source.get("modelsource"), source.get("capabilities")
    if not isinstance(model, dict) or not isinstance(capabilities, dict):
        return None
    return _configuration(model, capabilities, name)


def _configuration(model: Any, capabilities: Any, name: str) -> Configuration:
    try:
        return Configuration(
            model=load_model(model),
            capabilities=stored_capabilities(capabilities, offered_with(FORMATS, COMPATIBILITIES)),
        )
    except (XRegistryError, KeyError, TypeError) as error:
        reason = error.title if isinstance(error, XRegistryError) else "it is another server's"
        raise CommandError(
            f"The model of {name} cannot be used: {reason}", "Name a model with --model."
        ) from error


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
    return LintBase(
        name=client.url,
        documents=[document],
        is_former=False,
        absent=frozenset(xid for xid, group in found.items() if group is None),
        authorities=_authorities([document]),
        urls=(client.url,),
    )


def _authorities(documents: Iterable[DeclaredEntities]) -> dict[str, str]:
    found = (each for document in documents for each in document.bodies.items())
    named = ((xid, body.get("authority")) for xid, body in found)
    return {xid: value for xid, value in named if isinstance(value, str)}


async def users_at(client: Client, owners: Iterable[str]) -> dict[str, tuple[User, ...]]:
    """The entities of a running catalog that refer to resources or groups.

    Args:
        owners: the xids of the resources and groups, which the catalog need not have.

    Raises:
        ClientError
    """
    slots = asyncio.Semaphore(_MOST_AT_ONCE)

    async def ask(xid: str) -> tuple[User, ...]:
        async with slots:
            try:
                wanted = ReferencesQuery(of=xid, direction="to", depth=DEPTH)
                answer = await client.references(wanted)
            except Refused as refused:
                if refused.problem.status != 404:
                    raise
                return ()
        sources = dict.fromkeys(resource_of(each.source) for each in answer.references)
        return tuple(User(catalog=client.url, xid=source) for source in sources if source != xid)

    xids = [*dict.fromkeys(owners)]
    return dict(zip(xids, await asyncio.gather(*map(ask, xids)), strict=True))


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
