"""`apply` and `diff`: a catalog as its documents say, and what is missing for that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from catalog.commands.apply.report import (
    MOST_LISTED,
    agree_on_deletions,
    refuse_contradictions,
    show_applied,
)
from catalog.commands.console import (
    CANNOT,
    DEFAULT_URL,
    NO,
    AsJson,
    Url,
    cell,
    err,
    fail,
    run,
)
from catalog.commands.documentpaths import DocumentPathError, NoDocuments, document_paths

if TYPE_CHECKING:
    from catalog.client import Client
    from catalog.commands.apply.sending import ApplyOptions, ApplyRequest, ApplyResult
    from catalog.commands.documentfile import DocumentFile

app = typer.Typer()

Paths = Annotated[
    list[str],
    typer.Argument(metavar="PATH...", help="Documents, directories, globs, or - for stdin."),
]
Prune = Annotated[
    bool, typer.Option("--prune", help="Delete what these documents own and do not have.")
]
Scopes = Annotated[
    list[str] | None,
    typer.Option("--scope", help="Own what is at or below this. Repeatable.", metavar="XID"),
]
Set = Annotated[
    str, typer.Option("--set", help="Own what earlier applies of this set brought.", metavar="NAME")
]
AllowEmpty = Annotated[
    bool, typer.Option("--allow-empty", help="Prune even if no document is left.")
]
Migrate = Annotated[
    bool, typer.Option("--migrate", help="Read older editions, as `concord import` does.")
]
KeepUnknown = Annotated[
    bool, typer.Option("--keep-unknown", help="Keep what cannot be rewritten in `older`.")
]
CheckEpochs = Annotated[
    bool,
    typer.Option(
        "--check-epochs", help="Change nothing that has another epoch than a document says."
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="List every change.")]


@app.command()
def apply(
    paths: Paths,
    prune: Prune = False,
    scopes: Scopes = None,
    set_name: Set = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    allow_empty: AllowEmpty = False,
    migrate: Migrate = False,
    keep_unknown: KeepUnknown = False,
    check_epochs: CheckEpochs = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show errors only.")] = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Make a catalog equal to what documents say, in one interaction where it fits.

    All documents are one desired state; two that contradict each other are an error. What is
    equal already is not written: it keeps its epoch, and nobody is told. What belongs to another
    catalog is left alone. The documents win: their epochs matter only with --check-epochs.

    With --prune, what the documents own and do not have is deleted: resources in the groups that
    they name, and versions of resources whose versions they list; or everything at or below each
    --scope; or everything that earlier applies of the same --set brought, unless another set has
    it. The deletions are shown first, and asked for on a terminal; without one, --yes is needed.

    Example: concord apply catalog/

    Example: concord diff catalog/ --prune

    Example: concord apply catalog/ --prune --yes

    Example: concord apply "teams/**/*.xreg.yaml" --set weather --prune

    Exit codes: 0 done, or nothing to do; 1 a rule forbids it; 2 it could not be done. With
    --dry-run: 0 equal, 1 different, 2 it could not be told.
    """
    asked = _asked(prune, scopes, set_name, allow_empty, check_epochs)
    documents = _read(paths, migrate=migrate, keep_unknown=keep_unknown, allow_empty=allow_empty)
    if dry_run:
        foretold = run(lambda: _foretell(url, documents, asked))
        _end_diff(foretold, quiet=quiet, verbose=verbose, as_json=as_json)
    done = run(lambda: _apply(url, documents, asked, is_agreed=yes, verbose=verbose))
    show_applied(done, quiet=quiet, verbose=verbose, as_json=as_json)
    if done.failure is not None:
        raise typer.Exit(NO if done.is_refused else CANNOT)


@app.command()
def diff(
    paths: Paths,
    prune: Prune = False,
    scopes: Scopes = None,
    set_name: Set = "",
    allow_empty: AllowEmpty = False,
    migrate: Migrate = False,
    keep_unknown: KeepUnknown = False,
    check_epochs: CheckEpochs = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the exit code.")] = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show what `concord apply` would create (+), change (~) and delete (-). Nothing is written.

    The node decides and checks everything as for an apply, so what it would refuse is told, too.
    Deletions are shown with --prune.

    Example: concord diff catalog/

    Example: concord diff catalog/ --prune --json

    Exit codes: 0 equal; 1 different; 2 it could not be told, as the documents break a rule.
    """
    asked = _asked(prune, scopes, set_name, allow_empty, check_epochs)
    documents = _read(paths, migrate=migrate, keep_unknown=keep_unknown, allow_empty=allow_empty)
    foretold = run(lambda: _foretell(url, documents, asked))
    _end_diff(foretold, quiet=quiet, verbose=verbose, as_json=as_json)


def _asked(
    prune: bool, scopes: list[str] | None, set_name: str, allow_empty: bool, check_epochs: bool
) -> ApplyOptions:
    from catalog.commands.apply.sending import ApplyOptions

    if scopes and not prune:
        fail("--scope says what --prune may delete.", "Add --prune, or leave --scope out.")
    if scopes and set_name:
        fail("A set owns what its applies brought, wherever that is.", "Leave --scope out.")
    return ApplyOptions(
        prune=prune,
        scopes=tuple(scopes or ()),
        set=set_name,
        allow_empty=allow_empty,
        check_epochs=check_epochs,
    )


def _read(
    arguments: list[str], *, migrate: bool, keep_unknown: bool, allow_empty: bool
) -> list[DocumentFile]:
    from catalog.commands.documentfile import DocumentError, read_document

    try:
        paths = list(_files(arguments, allow_empty=allow_empty))
        documents = [
            read_document(path, migrate=migrate or keep_unknown, keep_unknown=keep_unknown)
            for path in paths
        ]
    except (DocumentPathError, DocumentError) as error:
        fail(error.message, error.hint)
    _refuse_losses(documents)
    return documents


def _refuse_losses(documents: list[DocumentFile]) -> None:
    """End the command if a catalog would overlook or misread something of the documents."""
    lossy = [document for document in documents if document.losses]
    for document in lossy:
        for loss in document.losses[:MOST_LISTED]:
            err.print(f"  {cell(str(document.path))} {cell(loss.pointer)}: {cell(loss.reason)}")
        if (more := len(document.losses) - MOST_LISTED) > 0:
            err.print(f"  and {more} more in {cell(str(document.path))}")
    if lossy:
        names = ", ".join(str(document.path) for document in lossy)
        fail(f"Something would be lost of {names}.", "Have it put into its place with --migrate.")


def _files(arguments: list[str], *, allow_empty: bool) -> Iterator[Path]:
    found: dict[Path, None] = {}
    for argument in arguments:
        try:
            found |= dict.fromkeys(document_paths([argument]))
        except NoDocuments:
            if not allow_empty:
                raise
    yield from found


async def _foretell(url: str, documents: list[DocumentFile], asked: ApplyOptions) -> ApplyResult:
    from catalog.client import Client
    from catalog.commands.apply.sending import send_all

    async with Client.open(url) as client:
        requests = await _requests(client, documents, asked)
        with _progress("Comparing", requests) as tell:
            return await send_all(client, requests, dry_run=True, tell=tell)


async def _apply(
    url: str, documents: list[DocumentFile], asked: ApplyOptions, *, is_agreed: bool, verbose: bool
) -> ApplyResult:
    from catalog.client import Client
    from catalog.commands.apply.sending import send_all

    async with Client.open(url) as client:
        requests = await _requests(client, documents, asked)
        if asked.prune and not is_agreed:
            with _progress("Comparing", requests) as tell:
                foretold = await send_all(client, requests, dry_run=True, tell=tell)
            if foretold.failure is not None:
                return foretold
            agree_on_deletions(foretold, verbose=verbose)
        with _progress("Applying", requests) as tell:
            return await send_all(client, requests, dry_run=False, tell=tell)


async def _requests(
    client: Client, documents: list[DocumentFile], asked: ApplyOptions
) -> list[ApplyRequest]:
    from catalog.commands.apply.portions import PortionTooLarge
    from catalog.commands.apply.sending import desired_by, requests_for

    about = await client.get("/apply")
    desired = await desired_by(client, ((str(each.path), dict(each.groups)) for each in documents))
    if desired.contradictions:
        refuse_contradictions(desired.contradictions)
    try:
        return requests_for(desired, asked, about["maxbodybytes"])
    except PortionTooLarge as error:
        fail(str(error), "Give the node a larger CONCORD_MAX_BODY_BYTES.")


@contextmanager
def _progress(what: str, requests: list[ApplyRequest]) -> Iterator[Any]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task(what, total=len(requests))

        def tell(place: int, request: ApplyRequest) -> None:
            progress.update(task, completed=place, description=f"{what} {request.holds}")

        yield tell


def _end_diff(foretold: ApplyResult, *, quiet: bool, verbose: bool, as_json: bool) -> NoReturn:
    show_applied(foretold, quiet=quiet, verbose=verbose, as_json=as_json)
    if foretold.failure is not None:
        raise typer.Exit(CANNOT)
    raise typer.Exit(NO if foretold.changes else 0)
