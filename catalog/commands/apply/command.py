"""The commands `apply` and `diff`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from catalog.commands.apply.report import (
    agree_on_deletions,
    refuse_contradictions,
    refuse_losses,
    show_result,
)
from catalog.commands.authorities import Follow, authority_of
from catalog.commands.console import (
    CANNOT,
    DEFAULT_URL,
    NO,
    AsJson,
    Documents,
    KeepUnknown,
    Migrate,
    Quiet,
    Url,
    Verbose,
    Yes,
    fail,
    on_node,
    progress_bar,
)
from catalog.commands.optionsets import with_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog.client import Client
    from catalog.commands.apply.requests import ApplyOptions, ApplyRequest, ApplyResult
    from catalog.commands.documentfile import DocumentFile

app = typer.Typer()

Prune = Annotated[
    bool,
    typer.Option("--prune", help="Delete entities that the documents own and no longer contain."),
]
Scopes = Annotated[
    list[str] | None,
    typer.Option(
        "--scope", help="Own the entities at or below this xid. Repeatable.", metavar="XID"
    ),
]
Set = Annotated[
    str,
    typer.Option(
        "--set", help="Own the entities that earlier applies of this set wrote.", metavar="NAME"
    ),
]
AllowEmpty = Annotated[
    bool, typer.Option("--allow-empty", help="Prune even if a path names no document any more.")
]
CheckEpochs = Annotated[
    bool,
    typer.Option(
        "--check-epochs", help="Refuse to change an entity whose epoch differs from its document's."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredDocuments:
    """The options that `apply` and `diff` share."""

    paths: Documents
    prune: Prune = False
    scopes: Scopes = None
    set_name: Set = ""
    allow_empty: AllowEmpty = False
    migrate: Migrate = False
    keep_unknown: KeepUnknown = False
    check_epochs: CheckEpochs = False
    quiet: Quiet = False
    verbose: Verbose = False
    as_json: AsJson = False
    url: Url = DEFAULT_URL


@app.command()
@with_options(desired=DesiredDocuments)
def apply(
    desired: DesiredDocuments,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the changes without making them.")
    ] = False,
    yes: Yes = False,
    follow: Follow = False,
) -> None:
    """Make a catalog equal to documents, in one transaction if the documents fit into one request.

    The documents form one desired state; a contradiction between documents is an error. An entity
    without changes is not written: the epoch stays, and no event is sent. Replicas are left alone;
    with --follow, documents are applied at the authority if every group is a replica of the same
    catalog. The epochs in the documents are ignored, unless --check-epochs is given.

    With --prune, entities that the documents own and no longer contain are deleted. The documents
    own the resources of their groups, and the versions of resources with listed versions. With
    --scope the documents own every entity at or below the given xids; with --set, the entities
    that earlier applies of the same set wrote, except entities that also belong to another set.
    Deletions are shown and confirmed first; without a terminal, --yes is needed.

    Example: concord apply catalog/

    Example: concord diff catalog/ --prune

    Example: concord apply catalog/ --prune --yes

    Example: concord apply "teams/**/*.xreg.yaml" --set weather --prune

    Exit codes: 0 done, or nothing to do; 1 the node refuses, as a rule is broken; 2 the command
    could not do its work. With --dry-run: 0 equal; 1 different; 2 the changes could not be found
    out.
    """
    _apply(desired, dry_run=dry_run, yes=yes, follow=follow)


def _apply(
    desired: DesiredDocuments, *, dry_run: bool, yes: bool = False, follow: bool = False
) -> None:
    from catalog.commands.apply.requests import ApplyOptions
    from catalog.commands.documentfile import read_documents

    prune, scopes = desired.prune, desired.scopes
    if scopes and not prune:
        fail("--scope limits what --prune deletes.", "Add --prune, or leave --scope out.")
    if scopes and desired.set_name:
        fail("A set owns all entities that its applies wrote.", "Leave --scope out.")
    options = ApplyOptions(
        prune=prune,
        scopes=tuple(scopes or ()),
        set=desired.set_name,
        allow_empty=desired.allow_empty,
        check_epochs=desired.check_epochs,
    )

    async def applied(client: Client) -> ApplyResult:
        documents = read_documents(
            desired.paths,
            migrate=desired.migrate,
            keep_unknown=desired.keep_unknown,
            allow_empty=desired.allow_empty,
        )
        refuse_losses(documents)
        groups = [document.groups for document in documents] if follow else []
        async with authority_of(client, groups) as there:
            return await applied_at(there, documents)

    async def applied_at(client: Client, documents: Sequence[DocumentFile]) -> ApplyResult:
        requests = await _requests(client, documents, options)
        if dry_run or (prune and not yes):
            # The user confirms the deletions before the first request that writes.
            preview = await _send(client, requests, dry_run=True)
            if dry_run or preview.failure is not None:
                return preview
            agree_on_deletions(preview, verbose=desired.verbose)
        return await _send(client, requests, dry_run=False)

    result = on_node(desired.url, applied)
    show_result(result, quiet=desired.quiet, verbose=desired.verbose, as_json=desired.as_json)
    if result.failure is not None:
        raise typer.Exit(NO if result.is_refused and not dry_run else CANNOT)
    raise typer.Exit(NO if dry_run and result.changes else 0)


@app.command()
@with_options(desired=DesiredDocuments)
def diff(desired: DesiredDocuments) -> None:
    """Show what `concord apply` would create (+), change (~) and delete (-). Nothing is written.

    The node checks the documents as for an apply, so violations are shown, too. Deletions are
    shown with --prune.

    Example: concord diff catalog/

    Example: concord diff catalog/ --prune --json

    Exit codes: 0 equal; 1 different; 2 the difference could not be found out, for instance since
    the documents break a rule.
    """
    _apply(desired, dry_run=True)


async def _requests(
    client: Client, documents: Sequence[DocumentFile], options: ApplyOptions
) -> list[ApplyRequest]:
    from catalog.commands.apply.requests import Capacity, DesiredState, requests_for

    capacity = await Capacity.of(client)
    desired = DesiredState(model=await client.model())
    for document in documents:
        desired.add(str(document.path), document.groups)
    if desired.contradictions:
        refuse_contradictions(desired.contradictions)
    return requests_for(desired, options, capacity)


async def _send(client: Client, requests: Sequence[ApplyRequest], *, dry_run: bool) -> ApplyResult:
    from catalog.commands.apply.requests import send_all

    action = "Comparing" if dry_run else "Applying"
    with progress_bar() as progress:
        task = progress.add_task(action, total=len(requests))

        def show(place: int, request: ApplyRequest) -> None:
            progress.update(task, completed=place, description=f"{action} {request.summary}")

        return await send_all(client, requests, dry_run=dry_run, show=show)
